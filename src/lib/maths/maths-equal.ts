import { choiceOf, isChoice, labelOf, lastChoice } from './choice.ts';
import { extractAnswers } from './extract.ts';
import { isUnit } from './names.ts';
import { type Reading, readAnswer } from './read.ts';
import { isSame } from './same.ts';

/** When two answers count as equal. */
export interface MathsOptions {
  /** A decimal is right if it is right when rounded to this many places. */
  readonly decimals?: number;
}

/**
 * Whether an answer, or the reply of a model that contains one, is the right answer as mathematics. Both may be LaTeX,
 * with or without dollars and `\boxed`, or plain text. Never throws and takes milliseconds: what cannot be read within
 * fixed limits is compared as text.
 */
export function mathsEqual(answer: string, truth: string, { decimals = 6 }: MathsOptions = {}): boolean {
  const gold = extractAnswers(truth)[0]!;
  const answers = extractAnswers(answer);
  if (isChoice(gold)) {
    const label = choiceIn(answer, answers);
    if (label !== undefined) return label === choiceOf(gold);
  }
  if (isMoneyAtOdds(gold, answers[0]!)) return false;
  const right = readAnswer(withoutLabel(gold));
  // The first that can be read is what was answered: trying the others would let a model answer twice.
  const readings = answers.map((one) => ({ one, reading: readAnswer(one) }));
  const said = readings.find(({ reading }) => reading.expression) ?? readings[0]!;
  return isSameReading(right, said.reading, decimals) || isOtherReading(right, said.one, decimals);
}

/** Dollars on one side, cents on the other. */
function isMoneyAtOdds(gold: string, answer: string): boolean {
  const dollars = /\$\s*\d|\bdollars?\b/i;
  const cents = /\d\s*(?:\\text\s*\{\s*)?cents?\b|¢/i;
  return (dollars.test(gold) && cents.test(answer)) || (cents.test(gold) && dollars.test(answer));
}

/** `\textbf{(B)}\ 12` says that the answer is B, or 12. */
const withoutLabel = (gold: string) =>
  gold.replace(
    /^\s*\$?\s*\\(?:text(?:bf|rm)?|mathbf|mathrm)\s*\{\s*\([A-E]\)\s*\}(?:\\[ ,;]|~|\s)*(?=\S*[\w\\])/,
    '',
  );

/** Whether the letter that a reply chooses is that of the right answer. */
export function choiceEqual(answer: string, truth: string): boolean {
  const choice = labelOf(truth);
  return choice !== undefined && choiceIn(answer, extractAnswers(answer)) === choice;
}

const choiceIn = (reply: string, answers: readonly string[]): string | undefined =>
  answers.map(labelOf).find((label) => label !== undefined) ??
  (isProse(reply) ? lastChoice(reply) : undefined);

/** Three words or more, commands aside. */
const isProse = (text: string) =>
  (
    text
      .slice(-1000)
      .replace(/\\[a-zA-Z]+/g, ' ')
      .match(/[a-z]{2,}/gi) ?? []
  ).length >= 3;

function isSameReading(gold: Reading, answer: Reading, decimals: number): boolean {
  if (isSameText(gold.text, answer.text)) return true;
  return Boolean(
    gold.expression && answer.expression && isSame(gold.expression, answer.expression, decimals),
  );
}

/** The right answer decides what a comma in the answer means: `3,14` may be 3.14, `100,200` two numbers. */
function isOtherReading(gold: Reading, answer: string, decimals: number): boolean {
  if (/^-?0,\d+$/.test(gold.text)) {
    const said = readAnswer(answer);
    if (said.expression?.kind === 'number' && said.expression.isDecimal)
      return isSameReading(readAnswer(gold.text.replace(',', '.')), said, decimals);
  }
  if (gold.expression?.kind === 'number') {
    const withUnit = /^\W*?(-?\d+(?:\.\d+)?)([a-zA-Z]{1,2})\.?$/.exec(answer);
    if (withUnit && isUnit(withUnit[2]!)) return isSameReading(gold, readAnswer(withUnit[1]!), decimals);
    const comma = /^\W*?(-?\d+),(\d+)\W*$/.exec(answer);
    return (
      Boolean(comma) &&
      gold.expression.isDecimal &&
      isSameReading(gold, readAnswer(`${comma![1]}.${comma![2]}`), decimals)
    );
  }
  const isList = gold.expression?.kind === 'list' || gold.expression?.kind === 'set';
  return (
    isList &&
    /\d,\d{3}/.test(answer) &&
    isSameReading(gold, readAnswer(answer, { hasThousands: false }), decimals)
  );
}

/** The same signs apart from spacing, or the same words apart from case and brackets around them. */
function isSameText(gold: string, answer: string): boolean {
  const [a, b] = [plainText(gold), plainText(answer)];
  if (a === '' || b === '') return false;
  return a === b || (isWords(a) && wordsOf(a) === wordsOf(b));
}

const plainText = (text: string) =>
  text
    .replace(/\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox)\s*\{([^{}]*)\}/g, '$1')
    .replace(/\\(?:left|right)(?![a-zA-Z])/g, '')
    .replace(/\\[dt]frac/g, '\\frac')
    .replace(/,\s+(?=\d)/g, ', ') // `1, 234` is not `1,234`
    .replace(/\\[,;:! ]|\$/g, '')
    .replace(/(?<=\d)\s+(?=\d)/g, ', ') // `1 2 3` is not `123`
    .replace(/(?<!,)\s/g, '');

const isWords = (text: string) => /^[a-z(){}"'.,\d-]*[a-z]{2}[a-z(){}"'.,\d-]*$/i.test(text);
const wordsOf = (text: string) => text.toLowerCase().replace(/[(){}"'.,-]/g, '');
