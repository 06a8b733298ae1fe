import { applyOperation } from './calculate.ts';

/**
 * The kinds of word problem in the quick start. Each has two statements and a question, three wordings of
 * each, and a plan: the calculator calls that solve it, one binary operation a call. An operand is a number
 * of the text (`a` … `d`) or, as an index, the result of an earlier call.
 */

type Slot = 'a' | 'b' | 'c' | 'd';
type Operation = '+' | '-' | '*' | '/';
export type Operand = Slot | number;
export interface PlanStep {
  readonly left: Operand;
  readonly operation: Operation;
  readonly right: Operand;
}
export type Numbers = Readonly<Partial<Record<Slot, number>>>;

/** Draws a number of about this size from the ranges in use: those of training, or those held out. */
export type Draw = (size: 'tens' | 'hundreds' | 'thousands') => number;

type Wordings = readonly [string, string, string];

export interface Family {
  readonly name: string;
  /** `{a}` … are numbers, `{X}` and `{Y}` people, `{T}` things. */
  readonly sentences: readonly [Wordings, Wordings, Wordings];
  readonly plan: readonly PlanStep[];
  /** Numbers that may not fit: the caller draws again until `fits`. */
  draw(draw: Draw): Numbers;
}

const step = (left: Operand, operation: Operation, right: Operand): PlanStep => ({ left, operation, right });

export const FAMILIES: readonly Family[] = [
  {
    name: 'sold',
    sentences: [
      [
        '{X} has {a} boxes with {b} {T} each.',
        'There are {a} boxes and each holds {b} {T}.',
        '{X} buys {a} boxes of {b} {T}.',
      ],
      ['{X} sells {c} {T}.', 'Then {c} {T} are sold.', '{Y} takes {c} of the {T}.'],
      ['How many {T} are left?', 'How many {T} does {X} still have?', 'What number of {T} is left over?'],
    ],
    plan: [step('a', '*', 'b'), step(0, '-', 'c')],
    draw: (draw) => ({ a: draw('tens'), b: draw('tens'), c: draw('hundreds') }),
  },
  {
    name: 'shared',
    sentences: [
      [
        '{X} has {a} red {T} and {b} green {T}.',
        'There are {a} red and {b} green {T}.',
        '{X} finds {a} red {T} and then {b} green {T}.',
      ],
      [
        'They are shared equally by {c} friends.',
        '{c} friends share them equally.',
        'All are split equally among {c} friends.',
      ],
      [
        'How many {T} does each friend get?',
        'How many {T} for each friend?',
        'What is the share of a friend?',
      ],
    ],
    plan: [step('a', '+', 'b'), step(0, '/', 'c')],
    draw: (draw) => {
      const a = draw('hundreds');
      const c = draw('tens');
      return { a, b: c * draw('tens') - a, c };
    },
  },
  {
    name: 'more',
    sentences: [
      ['{X} has {a} {T}.', '{X} owns {a} {T}.', 'There are {a} {T} in the bag of {X}.'],
      ['{Y} has {b} more {T} than {X}.', '{Y} owns {b} more than {X}.', '{Y} has {b} {T} more.'],
      [
        'How many {T} do they have together?',
        'How many {T} do both of them own?',
        'What is the total number of {T}?',
      ],
    ],
    plan: [step('a', '+', 'b'), step(0, '+', 'a')],
    draw: (draw) => ({ a: draw('hundreds'), b: draw('hundreds') }),
  },
  {
    name: 'change',
    sentences: [
      [
        '{X} buys {a} {T} at {b} cents each.',
        '{X} takes {a} {T} for {b} cents each.',
        '{X} needs {a} {T} and one costs {b} cents.',
      ],
      ['{X} pays with {c} cents.', '{X} gives {c} cents.', 'The purse of {X} holds {c} cents.'],
      ['How many cents does {X} get back?', 'What is the change?', 'How many cents will {X} keep?'],
    ],
    plan: [step('a', '*', 'b'), step('c', '-', 0)],
    draw: (draw) => ({ a: draw('tens'), b: draw('tens'), c: draw('thousands') }),
  },
  {
    name: 'fewer',
    sentences: [
      ['{X} has {a} {T}.', '{X} owns {a} {T}.', 'There are {a} {T} in the bag of {X}.'],
      ['{Y} has {b} fewer {T} than {X}.', '{Y} owns {b} fewer than {X}.', '{Y} has {b} {T} fewer.'],
      [
        'How many {T} do they have together?',
        'How many {T} do both of them own?',
        'What is the total number of {T}?',
      ],
    ],
    plan: [step('a', '-', 'b'), step(0, '+', 'a')],
    draw: (draw) => ({ a: draw('hundreds'), b: draw('hundreds') }),
  },
  {
    name: 'stored',
    sentences: [
      [
        '{a} trucks bring {b} crates each.',
        'There come {a} trucks with {b} crates each.',
        '{a} trucks come and each brings {b} crates.',
      ],
      ['The store had {c} crates before.', 'There were {c} crates before.', '{c} crates are in the store.'],
      [
        'How many crates are there now?',
        'How many crates are in the store now?',
        'What is the new number of crates?',
      ],
    ],
    plan: [step('a', '*', 'b'), step(0, '+', 'c')],
    draw: (draw) => ({ a: draw('tens'), b: draw('tens'), c: draw('hundreds') }),
  },
  {
    name: 'kinds',
    sentences: [
      [
        '{X} packs {a} red bags with {b} {T} each.',
        'There are {a} red bags of {b} {T} each.',
        '{X} fills {a} red bags with {b} {T} each.',
      ],
      [
        '{Y} packs {c} blue bags with {d} {T} each.',
        'There are also {c} blue bags of {d} {T} each.',
        '{Y} fills {c} blue bags with {d} {T} each.',
      ],
      [
        'How many {T} are in all bags?',
        'How many {T} do they pack in all?',
        'What is the number of {T} in the bags?',
      ],
    ],
    plan: [step('a', '*', 'b'), step('c', '*', 'd'), step(0, '+', 1)],
    draw: (draw) => ({ a: draw('tens'), b: draw('tens'), c: draw('tens'), d: draw('tens') }),
  },
  {
    name: 'saved',
    sentences: [
      [
        '{X} earns {a} cents every day.',
        'Every day {X} earns {a} cents.',
        '{X} gets {a} cents for a day of work.',
      ],
      [
        '{X} spends {b} cents of it on food.',
        'Food for the day costs {b} cents.',
        '{X} pays {b} cents a day for food.',
      ],
      [
        'How many cents are saved in {c} days?',
        'How many cents does {X} keep after {c} days?',
        'What does {X} save in {c} days?',
      ],
    ],
    plan: [step('a', '-', 'b'), step(0, '*', 'c')],
    draw: (draw) => ({ a: draw('hundreds'), b: draw('hundreds'), c: draw('tens') }),
  },
  {
    name: 'week',
    sentences: [
      [
        '{X} finds {a} {T} on Monday, {b} on Tuesday and {c} on Friday.',
        'On Monday {X} gets {a} {T}, on Tuesday {b} and on Friday {c}.',
        '{X} makes {a} {T} on Monday, {b} on Tuesday and {c} on Friday.',
      ],
      ['{X} gives {d} of them to {Y}.', '{d} of them are for {Y}.', '{Y} gets {d} of them.'],
      ['How many {T} are left?', 'How many {T} does {X} still have?', 'What number of {T} is left over?'],
    ],
    plan: [step('a', '+', 'b'), step(0, '+', 'c'), step(1, '-', 'd')],
    draw: (draw) => ({ a: draw('hundreds'), b: draw('tens'), c: draw('hundreds'), d: draw('tens') }),
  },
];

/** Sentences with a number that plays no part. */
export const DISTRACTORS: Wordings = [
  '{Y} is {n} years old.',
  'The shop opened {n} years ago.',
  'The town is {n} miles away.',
];

export const PEOPLE = ['Ann', 'Ben', 'Mia', 'Tom', 'Eva', 'Sam'] as const;
export const THINGS = ['pens', 'coins', 'books', 'apples', 'cards'] as const;

/** An operand's number, given the results of the calls so far. */
export function operandValue(operand: Operand, numbers: Numbers, results: readonly number[]): number {
  return (typeof operand === 'number' ? results[operand] : numbers[operand])!;
}

/** The result of each call of a plan. */
export function runPlan(plan: readonly PlanStep[], numbers: Numbers): number[] {
  const results: number[] = [];
  for (const { left, operation, right } of plan) {
    results.push(
      applyOperation(operandValue(left, numbers, results), operation, operandValue(right, numbers, results)),
    );
  }
  return results;
}
