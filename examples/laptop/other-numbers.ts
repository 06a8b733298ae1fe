/**
 * The same problem with other numbers, so that what was learned is not which numbers go into which sentence. Each number of the
 * expression must stand in the question exactly once; otherwise the problem is left as it is.
 */
import type { Random } from 'rollcall/datasets';
import { evaluateExpression } from 'rollcall/tools';
import type { Problem } from './problems.ts';

export const NUMBER = /(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)/g;
const TRIES = 100;

/** As many digits as before, ranked as before among the numbers of the question; results stay positive, and whole where they were. */
export function withOtherNumbers(problem: Problem, random: Random): Problem {
  const { question, expression, answer } = problem;
  const shown: string[] = question.match(NUMBER) ?? [];
  const used: string[] = expression.match(NUMBER) ?? [];
  const occursOnce = (number: string) =>
    [shown, used].every((list) => list.indexOf(number) === list.lastIndexOf(number));
  const changeable = used.filter((number) => /^\d+$/.test(number) && Number(number) > 1);
  const before = resultsOf(expression);
  if (!used.every((number) => shown.includes(number) && occursOnce(number))) return problem;
  if (before.at(-1) !== answer || before.some((result) => result <= 0)) return problem;
  for (let tries = 0; tries < TRIES; tries++) {
    const chosen = new Map(changeable.map((number) => [number, drawAs(number, random)]));
    const change = (text: string) => text.replace(NUMBER, (number) => chosen.get(number) ?? number);
    const after = resultsOf(change(expression));
    const isSound = after.every(
      (result, at) => result > 0 && (Number.isInteger(result) || !Number.isInteger(before[at])),
    );
    if (!isSound || !isRankedAlike(shown, shown.map(change))) continue;
    return { question: change(question), expression: change(expression), answer: after.at(-1)! };
  }
  return problem;
}

/** Never 1, which would ask for another grammar. */
function drawAs(number: string, random: Random): string {
  const least = number.length === 1 ? 2 : 10 ** (number.length - 1);
  return String(least + random.integer(10 ** number.length - least));
}

/** Of each bracket, then of the whole. */
function resultsOf(expression: string): number[] {
  const brackets = [...expression.matchAll(/\(([^()]+)\)/g)].map(([, inside]) => inside!);
  return [...brackets, expression].map((part) => evaluateExpression(part));
}

function isRankedAlike(numbers: readonly string[], others: readonly string[]): boolean {
  const value = (text: string) => Number(text.replaceAll(',', ''));
  const sign = (list: readonly string[], a: number, b: number) =>
    Math.sign(value(list[a]!) - value(list[b]!));
  return numbers.every((_, a) => numbers.every((_, b) => sign(numbers, a, b) === sign(others, a, b)));
}
