import { createRandom, hashSeed, type Random } from 'rollcall/datasets';
import { calculate } from './calculate.ts';
import { FAMILIES, type Numbers, operandValue, type PlanStep, runPlan } from './families.ts';
import { createProblem, type Problem } from './problems.ts';
import type { Question } from './solver.ts';
import type { Demonstration } from './teacher.ts';

/**
 * What the warm start imitates. Drills teach to copy numbers into a call and a result into the answer.
 * Demonstrations solve word problems, some of them badly: in five of the nine families a habit dominates
 * (it stops a call early, or takes the wrong operation), and everywhere some attempts are clumsy. A habit
 * that greedy decoding follows, but sampling sometimes breaks, is what GRPO can turn.
 */
export const callText = (expression: string): string =>
  `<tool_call>{"name":"calculator","arguments":{"expression":"${expression}"}}</tool_call>`;
export const answerText = (value: number | string): string => `The answer is ${value}.`;

const stopEarly = (plan: readonly PlanStep[]) => plan.slice(0, -1);
const withOperation = (at: number, operation: PlanStep['operation']) => (plan: readonly PlanStep[]) =>
  plan.map((step, index) => (index === at ? { ...step, operation } : step));

/** The families with a habit, and what the habit does to the plan. */
export const HABITS: Readonly<Record<string, (plan: readonly PlanStep[]) => readonly PlanStep[]>> = {
  shared: stopEarly,
  more: stopEarly,
  kinds: stopEarly,
  change: withOperation(1, '+'),
  saved: withOperation(0, '+'),
};

const RIGHT_SHARE = 0.65;
const RIGHT_SHARE_BESIDE_HABIT = 0.2;
const HABIT_SHARE = 0.65;

/** A training problem, but none that GRPO trains on. */
export const demonstrationProblem = (seed: number, index: number): Problem =>
  createProblem('train', hashSeed('demonstrations', seed), index);

export function createDemonstration(seed: number, index: number): Demonstration<Question> {
  const problem = demonstrationProblem(seed, index);
  const random = createRandom(hashSeed('demonstration', seed, index));
  const { plan } = FAMILIES.find((family) => family.name === problem.family)!;
  const habit = HABITS[problem.family];
  const right = habit ? RIGHT_SHARE_BESIDE_HABIT : RIGHT_SHARE;
  const roll = random.next();
  const replies =
    roll < right
      ? follow(plan, problem.numbers)
      : habit && roll < right + HABIT_SHARE
        ? follow(habit(plan), problem.numbers)
        : random.pick(CLUMSY)(plan, problem.numbers, random);
  return { task: problem, replies };
}

/** "What is 348 + 91?", and in a third of the drills "What is 348 + 91 - 20?", which takes two calls. */
export function createDrill(seed: number, index: number): Demonstration<Question> {
  const random = createRandom(hashSeed('drill', seed, index));
  const operation = () => random.pick(['+', '-', '*', '/'] as const);
  const number = () => 10 ** (1 + random.integer(3)) + random.integer(9 * 10 ** (1 + random.integer(3)));
  for (;;) {
    const [a, b, c] = [number(), number(), number()];
    const plan: PlanStep[] = [{ left: 'a', operation: operation(), right: 'b' }];
    if (random.next() < 1 / 3) plan.push({ left: 0, operation: operation(), right: 'c' });
    const results = runPlan(plan, { a, b, c });
    if (!results.every((value) => Number.isInteger(value) && value >= 0 && value < 100_000)) continue;
    if (Math.max(a, b, c) > 9999) continue;
    const tail = plan.length === 2 ? ` ${plan[1]!.operation} ${c}` : '';
    return {
      task: { question: `What is ${a} ${plan[0]!.operation} ${b}${tail}?`, answer: results.at(-1)! },
      replies: follow(plan, { a, b, c }),
    };
  }
}

function expressions(plan: readonly PlanStep[], numbers: Numbers): string[] {
  const results: number[] = [];
  return plan.map(({ left, operation, right }) => {
    const expression = `${operandValue(left, numbers, results)}${operation}${operandValue(right, numbers, results)}`;
    results.push(Number(calculate(expression)));
    return expression;
  });
}

function follow(plan: readonly PlanStep[], numbers: Numbers): string[] {
  const calls = expressions(plan, numbers);
  return [...calls.map(callText), answerText(calculate(calls.at(-1)!)!)];
}

type Clumsy = (plan: readonly PlanStep[], numbers: Numbers, random: Random) => string[];

const CLUMSY: readonly Clumsy[] = [
  // The last call takes a number of the text where the result belongs.
  (plan, numbers) => {
    const last = plan.at(-1)!;
    const fromText = (operand: PlanStep['left'], slot: 'a' | 'b') =>
      typeof operand === 'number' ? slot : operand;
    const independent = { ...last, left: fromText(last.left, 'a'), right: fromText(last.right, 'b') };
    return follow([...plan.slice(0, -1), independent], numbers);
  },
  // All calls right, and then another number as the answer.
  (plan, numbers, random) => [
    ...follow(plan, numbers).slice(0, -1),
    answerText(random.pick(Object.values(numbers))),
  ],
  // No call at all.
  (_plan, numbers, random) => [answerText(random.pick(Object.values(numbers)))],
  // A call whose JSON is not closed; after the error message the demonstration continues correctly.
  (plan, numbers) => {
    const replies = follow(plan, numbers);
    return [replies[0]!.replace('"}}', '"'), ...replies];
  },
];
