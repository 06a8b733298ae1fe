/** When two answers are the same: as numbers, as mathematics, as words. Rewards and tools ask the same questions. */
import { evaluateExpression } from './expression.ts';

/** The last number of each, commas and currency aside. */
export function isSameNumber(answer: string, truth: string): boolean {
  const [given, right] = [lastNumber(answer), lastNumber(truth)];
  return given !== undefined && given === right;
}

function lastNumber(text: string): number | undefined {
  const numbers = text.slice(-300).match(/-?[\d.,]*\d/g);
  const last = numbers?.at(-1)?.replaceAll(',', '');
  return last === undefined || Number.isNaN(Number(last)) ? undefined : Number(last);
}

/** What the last `\boxed{…}` of a text holds, braces inside it matched. */
export function lastBoxed(text: string): string | undefined {
  const start = Math.max(text.lastIndexOf('\\boxed{'), text.lastIndexOf('\\fbox{'));
  if (start < 0) return undefined;
  const open = text.indexOf('{', start);
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === '{') depth++;
    else if (text[at] === '}' && --depth === 0) return text.slice(open + 1, at);
  }
  return undefined;
}

/** Longer than any answer: what a model writes when it repeats itself is compared as text only. */
const LONGEST = 2000;

/**
 * Equal as text, as numbers once LaTeX's fractions, roots, percent signs and π are worked out, or part by part as
 * tuples, intervals and sets. Letters are text: `2x+x` is not `3x`.
 */
export function isSameExpression(answer: string, truth: string): boolean {
  if (answer.length > LONGEST || truth.length > LONGEST) return answer.trim() === truth.trim();
  const [given, right] = [plain(answer), plain(truth)];
  if (given === right) return given !== '';
  const [parts, others] = [tupleOf(given), tupleOf(right)];
  if (parts && others) {
    return (
      parts.brackets === others.brackets &&
      parts.items.length === others.items.length &&
      parts.items.every((item, index) => isSameExpression(item, others.items[index]!))
    );
  }
  const [left, other] = [numberOf(given), numberOf(right)];
  return (
    left !== undefined && other !== undefined && Math.abs(left - other) <= 1e-6 * Math.max(1, Math.abs(other))
  );
}

function numberOf(text: string): number | undefined {
  try {
    return evaluateExpression(text);
  } catch {
    return undefined;
  }
}

/** `(1, 2)`, `[0, 1)` or `{1, 2}`; not `1,234` and not a bracketed product. */
function tupleOf(text: string): { readonly brackets: string; readonly items: readonly string[] } | undefined {
  const match = /^([([{])(.*)([)\]}])$/s.exec(text);
  if (!match) return undefined;
  const items: string[] = [];
  let depth = 0;
  let item = '';
  for (const character of match[2]!) {
    if ('([{'.includes(character)) depth++;
    if (')]}'.includes(character)) depth--;
    if (depth < 0) return undefined;
    if (character === ',' && depth === 0) {
      items.push(item);
      item = '';
    } else item += character;
  }
  return items.length === 0 ? undefined : { brackets: match[1]! + match[3]!, items: [...items, item] };
}

function plain(text: string): string {
  let read = lastBoxed(text) ?? text.trim();
  read = read
    .replace(/^\$+|\$+$/g, '')
    .replace(/\\(?:text|mathrm|mbox|textbf)\s*\{([^{}]*)\}/g, '$1')
    .replace(/\{,\}|\\[,!;: ]|~/g, '')
    .replace(/\\left|\\right/g, '')
    .replace(/\\[{]/g, '⦃')
    .replace(/\\[}]/g, '⦄')
    .replace(/\^\s*(?:\{\s*\\circ\s*\}|\\circ)|\\degree|°/g, '')
    .replace(/\\[dt]?frac\s*(\d)\s*(\d)/g, '(($1)/($2))')
    .replace(/\\sqrt\s*(\d)/g, '\\sqrt{$1}');
  for (let before = ''; before !== read; ) {
    before = read;
    read = read
      .replace(/\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}/g, '(($1)/($2))')
      .replace(/([\d)])?\s*\\sqrt\s*\{([^{}]*)\}/g, (_, factor: string | undefined, inner: string) =>
        factor === undefined ? `sqrt(${inner})` : `${factor}*sqrt(${inner})`,
      );
  }
  return read
    .replace(/([\d)])\s*\\pi/g, '$1*PI')
    .replace(/\\pi/g, 'PI')
    .replace(/\\(?:cdot|times)/g, '*')
    .replace(/\^\{([^{}]*)\}/g, '^($1)')
    .replace(/([\d.]+)\s*\\?%/g, '($1/100)')
    .replace(/[${}]|\s+/g, '')
    .replaceAll('⦃', '{')
    .replaceAll('⦄', '}')
    .replace(/\.$/, '');
}

/** Lower case, without punctuation, articles and extra space: how SQuAD compares answers. */
export function normalAnswer(text: string): string {
  return text
    .toLowerCase()
    .replace(/[!-/:-@[-`{-~]/g, '')
    .replace(/\b(?:a|an|the)\b/g, ' ')
    .split(/\s+/)
    .filter((word) => word !== '')
    .join(' ');
}

/** The harmonic mean of precision and recall of an answer's words. */
export function wordF1(answer: string, truth: string): number {
  const [given, right] = [answer, truth].map((text) => normalAnswer(text).split(' ').filter(Boolean)) as [
    string[],
    string[],
  ];
  if (given.length === 0 || right.length === 0) return given.length === right.length ? 1 : 0;
  const left = new Map<string, number>();
  for (const word of right) left.set(word, (left.get(word) ?? 0) + 1);
  let common = 0;
  for (const word of given) {
    const count = left.get(word) ?? 0;
    if (count === 0) continue;
    left.set(word, count - 1);
    common++;
  }
  return (2 * common) / (given.length + right.length);
}
