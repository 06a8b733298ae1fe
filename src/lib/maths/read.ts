/** Reads the text of one answer as a value. */
import type { Expression } from './expression.ts';
import { partsOf, withParts } from './expression.ts';
import { namedNumber } from './number-words.ts';
import { parseAnswer } from './parse.ts';
import { closingBrace, Unreadable } from './tokens.ts';
import { NoValue } from './value.ts';

/** Longer than any answer. What a model writes when it repeats itself is compared as text only. */
export const LONGEST_ANSWER = 2000;

export interface Reading {
  /** The text without dollars, spacing commands and environments of display mathematics. */
  readonly text: string;
  /** Absent where it is not mathematics. */
  readonly expression?: Expression;
}

export function readAnswer(given: string, options: { readonly hasThousands?: boolean } = {}): Reading {
  if (given.length > LONGEST_ANSWER) return { text: given.trim() };
  const text = cleanAnswer(given);
  const inWords = namedNumber(text);
  const expression =
    parsed(inWords === undefined ? text : String(inWords), options) ?? parsed(lastSide(text), options);
  return { text, ...(expression && { expression: withSignsChosen(expression) }) };
}

function parsed(
  text: string | undefined,
  options: { readonly hasThousands?: boolean },
): Expression | undefined {
  if (text === undefined) return undefined;
  try {
    return parseAnswer(text, options);
  } catch (cause) {
    if (cause instanceof Unreadable || cause instanceof NoValue) return undefined;
    throw cause;
  }
}

/** The 5 in `something unreadable = 5`. Lists are left alone: `P(A) = 1, P(B) = 2`. */
function lastSide(text: string): string | undefined {
  const at = text.lastIndexOf('=');
  return at <= 0 || /[,;]/.test(text) || '<>!'.includes(text[at - 1]!) ? undefined : text.slice(at + 1);
}

const ENVIRONMENTS =
  /\\(?:begin|end)\s*\{(?:align|aligned|equation|gather|gathered|split|displaymath|math|center)\*?\}/g;

/** `\left\{\begin{array}{l} … \end{array}\right.`: equations under one brace. */
const SYSTEM =
  /\\left\s*\\\{\s*\\begin\s*\{(array|aligned|matrix)\}(?:\s*\{[lcr|\s]*\})?([\s\S]*?)\\end\s*\{\1\}\s*\\right\s*\./g;
const COLOUR = /\\(?:text)?color\s*\{[a-zA-Z]+\}/g;

export function cleanAnswer(given: string): string {
  let text = given.trim();
  text = text.replace(/^(?:\*\*|__)|(?:\*\*|__)$/g, '').trim();
  text = text.replace(/^\\\[|\\\]$|^\\\(|\\\)$/g, '').trim();
  text = text.replace(/^\$+(?!\d+(?:[.,]\d+)*$)|(?<!\\)\$+$/g, '').trim();
  text = text.replace(SYSTEM, '\\begin{cases}$2\\end{cases}').replace(COLOUR, '');
  if (text.search(ENVIRONMENTS) >= 0) text = lastEquation(text.replace(ENVIRONMENTS, ' '));
  text = text.replace(/\\(?:label|tag)\*?\{[^{}]*\}/g, '').replace(/\\(?:nonumber|notag)\b/g, '');
  if (!text.includes('\\begin')) text = text.replace(/\\\\(?=[a-zA-Z])/g, '\\');
  text = text.split(/\\(?:Rightarrow|Longrightarrow|implies|therefore|iff)(?![a-zA-Z])|⇒/).at(-1)!;
  text = unboxed(text.trim()).trim();
  text = text.replace(/^\\text\s*\{[^{}]*(?:\b(?:is|are|about)|:)\s*\}\s*(?=\S)/, '');
  text = text.replace(/[,;]?\s*\(\s*[a-z]\s*\\in\s*\\mathbb\s*\{?[A-Z]\}?[^()]*\)$/, ''); // (k ∈ ℤ)
  text = text.replace(/^(?:\\approx(?![a-zA-Z])|≈|\\sim(?![a-zA-Z]))\s*(?=\S)/, '');
  text = text.replace(/(?<![\d.])[1-9]\d{0,2}(?:\.\d{3}){2,}(?![\d.])/g, (number) =>
    number.replaceAll('.', ''),
  );
  text = text.replace(/(\d)\{,\}(\d{1,2}|\d{4,})(?!\d|\{,\})/g, '$1.$2');
  return repeatingDecimals(withRoundBrackets(text))
    .replace(/\\dotsc?\b|\\cdots\b|\\dots\b/g, '\\ldots')
    .replace(/\\(?:rm|bf|it|sf|tt)(?![a-zA-Z]|\s*\{)\s*/g, '')
    .replace(/\^\s*\{?\s*\\(?:text|mathrm)\s*\{\s*(?:st|nd|rd|th)\s*\}\s*\}?/g, '')
    .replace(/(?:\\\\|\\[,;:! ]|[.,;:。\s])+$|(?<!\\)\\\s*$/, '')
    .replace(/^[:;,\s]+|^=\s*(?=[^=])/, '')
    .trim();
}

/** The last of several aligned rows, with the rows that it continues. */
function lastEquation(rows: string): string {
  const last = rows.split('\\\\').findLast((row) => row.trim() !== '') ?? '';
  const isWhole = /^[^=&]*[^=&\s][^=&]*&?\s*=/.test(last);
  return (isWhole ? last : rows).replace(/&|\\\\/g, ' ').trim();
}

/** What a `\boxed{…}` around the whole text holds. */
function unboxed(text: string): string {
  const open = /^\\(?:boxed|fbox)\s*\{/.exec(text);
  if (!open) return text;
  const brace = open[0].length - 1;
  return closingBrace(text, brace) === text.length - 1 ? unboxed(text.slice(brace + 1, -1).trim()) : text;
}

/** `]1, 3[` is `(1, 3)`: a bracket that turns away from its end leaves it out. */
function withRoundBrackets(text: string): string {
  const plain = text.replace(/\\(?:left|right)\s*(?=[[\]])/g, '');
  if (!/^(?:[^[\]]*(?:\\in|\\cup|∈|∪|=)\s*)?\]|[^[\]]\s*\[$/.test(plain)) return text;
  return plain.replace(
    /([[\]])([^[\]]+[,;][^[\]]+)([[\]])/g,
    (_, open: string, inside: string, close: string) =>
      `${open === '[' ? '[' : '('}${inside}${close === ']' ? ']' : ')'}`,
  );
}

/** `0.1\overline{6}` is 1/6: the digits under the bar over as many nines. */
function repeatingDecimals(text: string): string {
  return text.replace(
    /(\d+)\.(\d*)\\(?:overline|bar|dot)\s*(?:\{(\d{1,50})\}|(\d))/g,
    (_, whole: string, start: string, braced: string | undefined, one: string | undefined) => {
      const period = braced ?? one!;
      const nines = `${'9'.repeat(period.length)}${'0'.repeat(start.length)}`;
      const top = BigInt(whole + start + period) - BigInt(whole + start);
      return `\\frac{${top}}{${nines}}`;
    },
  );
}

/** An answer with ± is two answers. */
function withSignsChosen(expression: Expression): Expression {
  if (!hasSign(expression)) return expression;
  const both = (item: Expression) => (hasSign(item) ? [chosen(item, true), chosen(item, false)] : [item]);
  if (expression.kind === 'list') return { ...expression, items: expression.items.flatMap(both) };
  if (expression.kind === 'set') return { ...expression, items: expression.items.flatMap(both) };
  return { kind: 'list', items: both(expression) };
}

const hasSign = (expression: Expression): boolean =>
  expression.kind === 'either-sign' || partsOf(expression).some(hasSign);

function chosen(expression: Expression, isPlus: boolean): Expression {
  const inner = withParts(
    expression,
    partsOf(expression).map((part) => chosen(part, isPlus)),
  );
  if (inner.kind !== 'either-sign') return inner;
  return inner.isFlipped === isPlus ? { kind: 'negative', of: inner.of } : inner.of;
}
