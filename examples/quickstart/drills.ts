import { createRandom, hashSeed, type Random } from 'rollcall/datasets';
import { follow } from './demonstrations.ts';
import { DISTRACTORS, type Numbers, type Operand, PEOPLE, type PlanStep, runPlan } from './families.ts';
import type { Question } from './solver.ts';
import type { Demonstration } from './teacher.ts';

/** Drills teach to copy numbers into a call, a result into the next one, and the last result into the answer. */

/** A question, and the operands of each call; `?` is any operation, in the order of the calls. */
interface Form {
  readonly text: string;
  readonly calls: readonly (readonly [
    left: Operand,
    operation: PlanStep['operation'] | '?',
    right: Operand,
  ])[];
}

const ONE: Form = { text: '{a} {0} {b}', calls: [['a', '?', 'b']] };
const TWO: Form = {
  text: '{a} {0} {b} {1} {c}',
  calls: [
    ['a', '?', 'b'],
    [0, '?', 'c'],
  ],
};
const FORMS: readonly Form[] = [
  ONE,
  TWO,
  {
    text: '{a} {0} {b} {1} {a}',
    calls: [
      ['a', '?', 'b'],
      [0, '?', 'a'],
    ],
  },
  {
    text: '{c} - ({a} {0} {b})',
    calls: [
      ['a', '?', 'b'],
      ['c', '-', 0],
    ],
  },
  {
    text: '({a} {0} {b}) + ({c} {1} {d})',
    calls: [
      ['a', '?', 'b'],
      ['c', '?', 'd'],
      [0, '+', 1],
    ],
  },
  {
    text: '{a} {0} {b} {1} {c} {2} {d}',
    calls: [
      ['a', '?', 'b'],
      [0, '?', 'c'],
      [1, '?', 'd'],
    ],
  },
];

/** "What is 348 + 91?", and in a third of the drills "What is 348 + 91 - 20?", which takes two calls. */
export function createDrill(seed: number, index: number): Demonstration<Question> {
  const random = createRandom(hashSeed('drill', seed, index));
  const number = () => 10 ** (1 + random.integer(3)) + random.integer(9 * 10 ** (1 + random.integer(3)));
  for (;;) {
    const drill = drawDrill(random, random.next() < 1 / 3 ? TWO : ONE, number);
    if (drill) return drill;
  }
}

const FEW_DIGITS_SHARE = 0.5;
const DISTRACTOR_SHARE = 0.4;

/**
 * A drill that is hard to copy from. Half have numbers of two digits only ("886 + 868"), which must be copied by their
 * places; answers have two to five digits, each about as often; most take several calls, in every way that problems do;
 * and some have a sentence that plays no part. Among the demonstrations they keep copying exact for numbers that these
 * never have.
 */
export function createHardDrill(seed: number, index: number): Demonstration<Question> {
  const random = createRandom(hashSeed('hard drill', seed, index));
  const digits = [1 + random.integer(9), random.integer(10)];
  const digit = random.next() < FEW_DIGITS_SHARE ? () => random.pick(digits) : () => random.integer(10);
  const number = () => Number(Array.from({ length: 2 + random.integer(3) }, digit).join(''));
  const length = 2 + random.integer(4);
  const form = random.pick(FORMS);
  for (let attempt = 0; ; attempt++) {
    const drill = drawDrill(random, form, number);
    // Some digits and forms never give an answer of that length.
    if (!drill || (String(drill.task.answer).length !== length && attempt < 300)) continue;
    if (random.next() >= DISTRACTOR_SHARE) return drill;
    const idle = random
      .pick(DISTRACTORS)
      .replace('{n}', String(10 + number()))
      .replace('{Y}', random.pick(PEOPLE));
    const { question, answer } = drill.task;
    const told = random.next() < 0.5 ? `${idle} ${question}` : `${question} ${idle}`;
    return { task: { question: told, answer }, replies: drill.replies };
  }
}

/** `undefined` where the numbers do not fit: all have two to four digits, results are whole and have at most five. */
function drawDrill(
  random: Random,
  { text, calls }: Form,
  number: () => number,
): Demonstration<Question> | undefined {
  const numbers = { a: number(), b: number(), c: number(), d: number() };
  const plan = calls.map(([left, operation, right]) => ({
    left,
    operation: operation === '?' ? random.pick(['+', '-', '*', '/'] as const) : operation,
    right,
  }));
  if (!fits(plan, numbers)) return undefined;
  const sum = text.replace(/\{(.)\}/g, (_, slot: string) =>
    String(slot in numbers ? numbers[slot as keyof typeof numbers] : plan[Number(slot)]!.operation),
  );
  return {
    task: { question: `What is ${sum}?`, answer: runPlan(plan, numbers).at(-1)! },
    replies: follow(plan, numbers),
  };
}

function fits(plan: readonly PlanStep[], numbers: Numbers): boolean {
  return (
    Object.values(numbers).every((value) => value >= 10 && value <= 9999) &&
    runPlan(plan, numbers).every((value) => Number.isInteger(value) && value >= 0 && value < 100_000)
  );
}
