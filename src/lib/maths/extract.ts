/** Finds the answer in a reply. */
import { isChoice } from './choice.ts';
import { cleanAnswer, LONGEST_ANSWER } from './read.ts';
import { closingBrace } from './tokens.ts';

/** Without a box, the answer is looked for in this many characters from the end. */
const TAIL = 4000;

/**
 * The answers of a reply, the likeliest first. What is boxed goes first; then what follows "answer is", "Answer:" or
 * `####`; then the last mathematics or number. A text that is nothing but an answer is that answer.
 */
export function extractAnswers(reply: string): string[] {
  const said = tagged(afterThinking(reply));
  // What was boxed while thinking counts only where nothing was said afterwards.
  const boxed = boxedAnswer(said) ?? (said.trim() === '' ? boxedAnswer(reply) : undefined);
  const tail = said.slice(-TAIL).replace(REMARK, '').replace(CONTRAST, '').trim();
  const anchored = anchoredAnswer(tail);
  if (boxed !== undefined) {
    // "The final answer is …" after the box says it again, and better.
    const isLater = anchored?.isFinal && tail.lastIndexOf('\\boxed') < anchored.at;
    return isLater ? [...anchored.answers, boxed] : [boxed];
  }
  if (anchored) return anchored.answers;
  if (isBare(tail)) return [tail];
  return [lastMathematics(tail) ?? tail.split('\n').at(-1)!.trim()];
}

function afterThinking(reply: string): string {
  const end = reply.lastIndexOf('</think>');
  return end < 0 ? reply : reply.slice(end + '</think>'.length);
}

/** What the last `<answer>…</answer>` holds, where there is one. */
function tagged(reply: string): string {
  const close = reply.lastIndexOf('</answer>');
  const open = reply.lastIndexOf('<answer>', close);
  return open < 0 || close < open ? reply : reply.slice(open + '<answer>'.length, close);
}

interface Box {
  readonly start: number;
  readonly end: number;
  readonly content: string;
}

const MOST_BOXES = 20;

/** What the last box holds; several boxes that stand together, such as "\boxed{1} and \boxed{2}", are a list. */
export function boxedAnswer(text: string): string | undefined {
  let last = boxBefore(text, text.length);
  if (!last) return undefined;
  const contents = [last.content];
  for (let others = 0; others < MOST_BOXES; others++) {
    const previous = boxBefore(text, last.start);
    if (previous && previous.end > last.start) {
      last = { ...last, start: previous.start }; // a box in a box
      continue;
    }
    if (!previous || !standTogether(text.slice(previous.end, last.start), previous.content, last.content))
      break;
    if (previous.content !== last.content) contents.unshift(previous.content);
    last = previous;
  }
  return contents.join(', ');
}

function boxBefore(text: string, before: number): Box | undefined {
  if (before <= 0) return undefined;
  const start = Math.max(text.lastIndexOf('\\boxed', before - 1), text.lastIndexOf('\\fbox', before - 1));
  if (start < 0) return undefined;
  const command = /^\\(?:boxed|fbox)\s*/.exec(text.slice(start, start + 20))![0];
  const open = start + command.length;
  if (text[open] !== '{') {
    const content = /^[^\s$\\.,]+/.exec(text.slice(open, open + 50))?.[0]; // `\boxed 5`
    return content === undefined ? undefined : { start, end: open + content.length, content };
  }
  const close = closingBrace(text.slice(open, open + 2 * LONGEST_ANSWER), 0);
  if (close < 0) return undefined;
  if (text.slice(open + 1, open + close).trim() === '') return boxBefore(text, start);
  return { start, end: open + close + 1, content: text.slice(open + 1, open + close).trim() };
}

/** Only a few signs between two boxes, or a short remark with a separator between two different ones. */
function standTogether(between: string, first: string, second: string): boolean {
  if (between.includes('\n\n')) return false;
  if (between.length < 10) return true;
  return (
    first !== second &&
    between.length < 50 &&
    /\b(?:and|or)\b|^[$\s]*[,;]/.test(between) &&
    !/[.=]/.test(between)
  );
}

interface Anchored {
  readonly at: number;
  readonly isFinal: boolean;
  readonly answers: string[];
}

const ANCHORS: readonly { readonly pattern: RegExp; readonly isFinal: boolean }[] = [
  { pattern: /final answer\b[^\n.]{0,60}?(?:\bis\b|\bare\b|:)\s*:?/gi, isFinal: true },
  { pattern: /####/g, isFinal: false },
  { pattern: /答案[是为為：:]+/g, isFinal: false },
  { pattern: /\banswers?\b(?:\*\*)?\s*(?:\*\*)?\s*(?::|=|\bis\b|\bare\b)\s*:?/gi, isFinal: false },
  {
    pattern: /\banswers?\b[^\n.]{0,60}?(?::|=|\bis\b|\bare\b|\bwould be\b|\bshould be\b)\s*:?/gi,
    isFinal: false,
  },
];

function anchoredAnswer(tail: string): Anchored | undefined {
  for (const { pattern, isFinal } of ANCHORS) {
    const match = [...tail.matchAll(pattern)].at(-1);
    if (!match) continue;
    const at = match.index + match[0].length;
    const rest = tail.slice(at).replace(/^\s*\}\s*/, ''); // \text{The answer is } 5
    const answers = answersAfter(rest);
    if (answers.length > 0) return { at, isFinal, answers };
  }
  return undefined;
}

/** The mathematics right after an anchor, else the line, else its first number. */
function answersAfter(rest: string): string[] {
  const open = /^[\s*:]*/.exec(rest)![0].length;
  const text = rest.slice(open);
  const line = text.split('\n', 1)[0]!.replace(/\*\*/g, '').trim();
  const sentence = withoutRemark(line);
  const [first] = mathematics(text);
  if (first && first.start <= 50 && !text.slice(0, first.start).includes('\n\n')) {
    const isWhole = sentence.includes('$') || sentence.includes('\\(');
    if (first.start === 0 && isWhole && isBare(sentence)) return [sentence];
    return [first.text];
  }
  if (sentence !== '' && (isBare(sentence) || isChoice(sentence))) return [sentence];
  const number = lastNumberAfterEquals(sentence) ?? PLAIN.exec(sentence)?.[0];
  return [number, sentence].filter((one): one is string => one !== undefined && one !== '');
}

const withoutRemark = (line: string) =>
  line
    .replace(/,\s*not\s.*$/i, '')
    .replace(/\.?\s*I hope it is correct.*$/i, '')
    .replace(/(?<=[\d}$)\]a-zA-Z])\.(?:\s.*)?$/, '')
    .trim();

const lastNumberAfterEquals = (line: string) => /.*=\s*(-?\$?\d[\d.,/]*(?:\s*%)?)[^=]*$/.exec(line)?.[1];

/** `(about 2.24)` after an exact answer. */
const REMARK = /\((?:about|approximately|approx\.?|roughly|≈|\\approx)[^()]{0,60}\)/g;

/** `, not 12` after the answer. */
const CONTRAST = /,\s*(?:and\s+)?not\s+[$\\]?-?\d[\d.,]*(?=[.\s]*$)/i;

interface Found {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

const DISPLAYS =
  /(?<!\\)\$\$([\s\S]{1,2000}?)\$\$|\\\[([\s\S]{1,2000}?)\\\]|(?<![\\\d])\$((?:\\\$|[^$\n]){1,2000}?)(?<!\\)\$(?!\d)|\\\(([\s\S]{1,2000}?)\\\)|\\begin\{(?:align|equation|gather)\*?\}([\s\S]{1,2000}?)\\end\{(?:align|equation|gather)\*?\}|(-?\\[dt]?frac\{-?\d+(?:[.,]\d+)?\}\{-?\d+(?:[.,]\d+)?\})/g;

/** All mathematics between dollars or brackets. Pieces joined by "and", "or" or a comma are one list. */
function mathematics(text: string): Found[] {
  const found: Found[] = [];
  for (const match of text.matchAll(DISPLAYS)) {
    const content = match.slice(1).find((group) => group !== undefined)!;
    const start = match.index;
    let end = start + match[0].length;
    const percent = /^\s*(?:\\?%|percent\b)/.exec(text.slice(end, end + 12));
    if (percent) end += percent[0].length;
    const inside = percent ? `${content}\\%` : content;
    const last = found.at(-1);
    const unit = last && /^\^/.test(inside) ? /^\s*[a-z]{1,6}$/.exec(text.slice(last.end, start)) : null;
    if (last && unit) {
      found[found.length - 1] = { start: last.start, end, text: `${last.text}\\text{${unit[0]}}${inside}` }; // $15$ cm$^2$
      continue;
    }
    if (last && /^\s*(?:,?\s*(?:and|or)|,)\s*$/.test(text.slice(last.end, start))) {
      const joint = /or/.test(text.slice(last.end, start)) ? ' \\text{ or } ' : ', ';
      found[found.length - 1] = { start: last.start, end, text: last.text + joint + inside };
    } else found.push({ start, end, text: inside });
  }
  return found;
}

const NUMBER = String.raw`[-−]?[$€£]?\d+(?:,\d{3})*(?:[.,]\d+)?(?:\s*(?:%|percent\b))?`;
const PLAIN = new RegExp(String.raw`(?<![\w.])${NUMBER}(?:\s*[-+*/^×÷]\s*\(?${NUMBER}\)?)*`);

/** The last mathematics or number, whichever ends later. */
function lastMathematics(tail: string): string | undefined {
  const last = mathematics(tail).at(-1);
  const plain = [...tail.matchAll(new RegExp(PLAIN, 'g'))].at(-1);
  if (!last) return plain?.[0];
  return plain && plain.index >= last.end ? plain[0] : last.text;
}

/** Whether a text is only an answer: no sentence around it. */
function isBare(text: string): boolean {
  if (text.length > LONGEST_ANSWER || text.includes('\n\n') || TELLING.test(text)) return false;
  if (/(?<!\\)\$.*[^\s$].*(?<!\\)\$.*[^\s$]/.test(text) || /\\[([].*\\[)\]]\s*\S/.test(text)) return false;
  const words = cleanAnswer(text)
    .replace(/\\(?:text|mathrm|textbf|mbox|operatorname)\s*\{[^{}]*\}/g, ' ')
    .replace(/\\(?:begin|end)\s*\{[a-zA-Z]+\*?\}|\\[a-zA-Z]+/g, ' ')
    .match(/[a-zA-Z]{2,}/g);
  return (
    (words ?? []).filter((word) => word.length >= 3 || COMMON.has(word.toLowerCase())).length <= 2 &&
    !/[a-zA-Z]{3,}:\s/.test(text)
  );
}

const COMMON: ReadonlySet<string> = new Set(['is', 'it', 'we', 'so', 'of', 'to', 'the', 'by']);

/** Words of a sentence, never of an answer. */
const TELLING = /\b(?:get|got|gives?|have|obtain|find|found|equals?|thus|hence|therefore)\b/i;
