import { createRandom, hashSeed, type Random } from 'rollcall/datasets';
import { calculate } from './calculate.ts';
import { FAMILIES, type Numbers, operandValue, type PlanStep } from './families.ts';
import { createProblem, type Problem } from './problems.ts';
import type { Question } from './solver.ts';
import type { Demonstration } from './teacher.ts';

/**
 * What the warm start imitates, besides drills (drills.ts): word problems solved, some of them badly. In five of the
 * nine families a habit dominates (it stops a call early, or takes the wrong operation), and everywhere some attempts are
 * clumsy. A habit that greedy decoding follows, but sampling sometimes breaks, is what GRPO can turn.
 */
export const callText = (expression: string): string =>
  `<tool_call>{"name":"calculator","arguments":{"expression":"${expression}"}}</tool_call>`;
export const answerText = (value: number | string): string => `The answer is ${value}.`;

const stopEarly = (plan: readonly PlanStep[]) => plan.slice(0, -1);
const withOperation = (at: number, operation: PlanStep['operation']) => (plan: readonly PlanStep[]) =>
  plan.map((step, index) => (index === at ? { ...step, operation } : step));

export interface Habit {
  /** What it does to the plan. */
  readonly spoil: (plan: readonly PlanStep[]) => readonly PlanStep[];
  /** Share of the demonstrations that are right all the same: the rarer, the later GRPO finds them. */
  readonly right: number;
}

/** The families with a habit. */
export const HABITS: Readonly<Record<string, Habit>> = {
  shared: { spoil: stopEarly, right: 0.2 },
  kinds: { spoil: stopEarly, right: 0.15 },
  more: { spoil: stopEarly, right: 0.12 },
  change: { spoil: withOperation(1, '+'), right: 0.08 },
  saved: { spoil: withOperation(0, '+'), right: 0.05 },
};

/** Of the families without a habit. */
const RIGHT_SHARE = 0.65;
/** Of the families with one; the rest is as clumsy as elsewhere, but half as often. */
const CLUMSY_BESIDE_HABIT = 0.15;

/** A training problem, but none that GRPO trains on. */
export const demonstrationProblem = (seed: number, index: number): Problem =>
  createProblem('train', hashSeed('demonstrations', seed), index);

export function createDemonstration(seed: number, index: number): Demonstration<Question> {
  const problem = demonstrationProblem(seed, index);
  const random = createRandom(hashSeed('demonstration', seed, index));
  const { plan } = FAMILIES.find((family) => family.name === problem.family)!;
  const habit = HABITS[problem.family];
  const right = habit?.right ?? RIGHT_SHARE;
  const roll = random.next();
  const replies =
    roll < right
      ? follow(plan, problem.numbers)
      : habit && roll < 1 - CLUMSY_BESIDE_HABIT
        ? follow(habit.spoil(plan), problem.numbers)
        : random.pick(CLUMSY)(plan, problem.numbers, random);
  return { task: problem, replies };
}

function expressions(plan: readonly PlanStep[], numbers: Numbers): string[] {
  const results: number[] = [];
  return plan.map(({ left, operation, right }) => {
    const expression = `${operandValue(left, numbers, results)}${operation}${operandValue(right, numbers, results)}`;
    results.push(Number(calculate(expression)));
    return expression;
  });
}

/** The replies of one who does what the plan says. */
export function follow(plan: readonly PlanStep[], numbers: Numbers): string[] {
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
