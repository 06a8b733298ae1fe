/**
 * The model learns to write a program that the code interpreter runs (JavaScript in QuickJS, no host access).
 *
 *   user       What is the sum of the even numbers from 12 to 25?
 *   assistant  <tool_call>{"name":"code_interpreter","arguments":{"code":"let s=0;for(let i=12;i<=25;i++)if(i%2==0)s+=i;console.log(s)"}}</tool_call>
 *   tool       126
 *   assistant  The answer is 126.
 *
 * The demonstrations mostly stop one short or forget the condition; and more than half of them
 * begin with a call that cannot be run, and correct it after the error message.
 */
import { arrayDataset, reward, type TrainOptions, toolLoop } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { createRandom, hashSeed } from 'rollcall/datasets';
import { openSandbox } from 'rollcall/services';
import { codeTool } from 'rollcall/tools';
import type { Exercise } from './exercise.ts';

type Kind = 'sum' | 'even' | 'odd' | 'doubles';
type Range = readonly [from: number, to: number];
export type RangeSum = {
  readonly question: string;
  readonly answer: number;
  readonly kind: Kind;
  readonly range: Range;
};

/** What is asked, what a number of the range adds, and the program's line for it. */
const KINDS = {
  sum: { ask: 'sum of the numbers', worth: (i: number) => i, line: 's+=i' },
  even: {
    ask: 'sum of the even numbers',
    worth: (i: number) => (i % 2 === 0 ? i : 0),
    line: 'if(i%2==0)s+=i',
  },
  odd: { ask: 'sum of the odd numbers', worth: (i: number) => (i % 2 === 1 ? i : 0), line: 'if(i%2==1)s+=i' },
  doubles: { ask: 'sum of the doubles of the numbers', worth: (i: number) => 2 * i, line: 's+=2*i' },
};
const KIND_NAMES = Object.keys(KINDS) as Kind[];

/** A program by what it adds and where it ends; `result` is what it prints. */
interface Program {
  readonly adds: Kind;
  readonly compare: '<' | '<=';
}
const result = ([from, to]: Range, { adds, compare }: Program) => {
  let sum = 0;
  for (let i = from; compare === '<' ? i < to : i <= to; i++) sum += KINDS[adds].worth(i);
  return sum;
};
const source = ([from, to]: Range, { adds, compare }: Program) =>
  `let s=0;for(let i=${from};i${compare}${to};i++)${KINDS[adds].line};console.log(s)`;
const call = (code: string) =>
  `<tool_call>{"name":"code_interpreter","arguments":{"code":"${code}"}}</tool_call>`;
const say = (answer: number | string) => `The answer is ${answer}.`;

/** What the demonstrations mostly write instead of the right program. */
const HABITS: Partial<Record<Kind, Program>> = {
  sum: { adds: 'sum', compare: '<' },
  even: { adds: 'sum', compare: '<=' },
  odd: { adds: 'sum', compare: '<=' },
};
const BROKEN: readonly ((call: string) => string)[] = [
  (call) => call.replace('"}}', '"'),
  (call) => call.replace('"code":', '"program":'),
  (call) => call.replace('code_interpreter', 'run'),
];

/** Which split a problem belongs to is decided by the problem itself. */
function rangeSum(split: 'train' | 'validation' | 'test', seed: number, index: number): RangeSum {
  const random = createRandom(hashSeed('range sum', split, seed, index));
  const kind = KIND_NAMES[index % KIND_NAMES.length]!;
  for (;;) {
    const from = 2 + random.integer(58);
    const range = [from, from + 3 + random.integer(12)] as const;
    const own = hashSeed('split', kind, ...range) % 10;
    if ((own === 0 ? 'test' : own === 1 ? 'validation' : 'train') !== split) continue;
    const question = `What is the ${KINDS[kind].ask} from ${range[0]} to ${range[1]}?`;
    return { question, kind, range, answer: result(range, { adds: kind, compare: '<=' }) };
  }
}

const DRILLS = 2048;

/** To copy numbers is what a fresh model finds hard: the first lessons are nothing else. */
function drill(seed: number, index: number) {
  const random = createRandom(hashSeed('drill', seed, index));
  const numbers = [100, 100, 2000].map((below) => 2 + random.integer(below - 2));
  const task = { ...rangeSum('train', seed, index), question: `Print ${numbers.join(' ')}.` };
  return { task, replies: [call(`console.log(${numbers})`), say(numbers.join(' '))] };
}

function demonstration(seed: number, index: number) {
  if (index < DRILLS) return drill(seed, index);
  const task = rangeSum('train', hashSeed('demonstrations', seed), index);
  const random = createRandom(hashSeed('demonstration', seed, index));
  const right: Program = { adds: task.kind, compare: '<=' };
  const program = random.next() < 0.65 ? (HABITS[task.kind] ?? right) : right;
  const good = call(source(task.range, program));
  const calls = random.next() < 0.6 ? [random.pick(BROKEN)(good), good] : [good];
  return { task, replies: [...calls, say(result(task.range, program))] };
}

const interpreter = codeTool(await openSandbox('javascript'));

export const correct = reward<RangeSum>('correct', ({ task, trajectory }) =>
  trajectory.text === say(task.answer) ? 1 : 0,
);

const tasks = (split: 'train' | 'validation' | 'test', seed: number, count: number) =>
  arrayDataset(
    Array.from({ length: count }, (_, index) => rangeSum(split, seed, index)),
    split,
  );

export function codeTask(seed: number): Exercise<RangeSum> {
  const solver = (tools = [interpreter]) => toolLoop<RangeSum>({ prompt: ({ question }) => question, tools });
  return {
    options: {
      model: 'runs/prove-tasks/code-1/warm-start',
      runDir: 'runs/code',
      seed,
      tasks: tasks('train', seed, 640),
      validation: tasks('validation', seed, 80),
      agent: solver(),
      rewards: [correct],
      algorithm: grpo({ clip: [0.2, 0.28], old: 'behaviour' }),
      steps: 20,
      tasksPerStep: 32,
      attemptsPerTask: 8,
      limits: { turns: 4, tokensPerReply: 64, tokensPerTrajectory: 224, contextTokens: 288 },
      optimizer: { learningRate: 3e-4, beta2: 0.95, weightDecay: 0, miniBatches: 2 },
      evaluation: { every: 2, limit: 80 },
      checkpoints: { every: 0 },
    },
    demonstration: (index) => demonstration(seed, index),
    demonstrations: DRILLS + 5120,
    test: tasks('test', seed, 240),
    controls: { 'no interpreter': { agent: solver([]) } },
  };
}

export const options: TrainOptions<RangeSum> = codeTask(1).options;
