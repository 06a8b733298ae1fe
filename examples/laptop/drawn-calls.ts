/** Calls drawn at random, for demonstrations by someone who knows how to call the calculator and not how to solve the problem. */
import type { Random } from 'rollcall/datasets';
import { evaluateExpression } from 'rollcall/tools';
import { NUMBER } from './other-numbers.ts';
import type { Problem } from './problems.ts';

const OPERATIONS = ['+', '-', '*', '/'];
/** One call in so many takes three numbers, where the question has them. */
const THREE_NUMBERS = 5;

/** The problem with a drawn expression of its numbers in place of its own; undefined where it has fewer than two. */
export function withDrawnCall({ question }: Problem, random: Random): Problem | undefined {
  const [a, b, c] = random.shuffle([...new Set(question.replaceAll(',', '').match(NUMBER) ?? [])]);
  if (a === undefined || b === undefined) return undefined;
  const two = `${a} ${random.pick(OPERATIONS)} ${b}`;
  const isLong = c !== undefined && random.integer(THREE_NUMBERS) === 0;
  const expression = isLong ? `(${two}) ${random.pick(OPERATIONS)} ${c}` : two;
  try {
    return { question, expression, answer: evaluateExpression(expression) };
  } catch {
    return undefined; // divided by 0
  }
}
