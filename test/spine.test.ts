import { existsSync } from 'node:fs';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, arrayDataset, embedded, reward, type TrainOptions, train } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { beforeAll, expect, test } from 'vitest';
import { tinyModel } from './tiny-model.ts';

/** An interface on purpose: rows need no index signature. */
interface Letter {
  letter: string;
}

let model: string;
beforeAll(async () => {
  model = await tinyModel();
});

/** Share of a reply's characters that sort before the letter: a random model has some, and can learn to have more. */
const before = reward<Letter>('before', ({ task, trajectory }) => {
  const { text } = trajectory;
  return [...text].filter((character) => character < task.letter).length / Math.max(1, text.length);
});

const say = agent<Letter>(async ({ task, model: policy }) => {
  const chat = policy.chat();
  chat.user(task.letter);
  await chat.sample();
});

const options = (runDir: string, more: Partial<TrainOptions<Letter>> = {}): TrainOptions<Letter> => ({
  model,
  tasks: arrayDataset(Array.from({ length: 6 }, () => ({ letter: 'a' }))),
  validation: arrayDataset([{ letter: 'a' }]),
  agent: say,
  rewards: [before],
  algorithm: grpo(),
  ...embedded({ threads: 1 }),
  steps: 3,
  tasksPerStep: 4,
  attemptsPerTask: 4,
  limits: { tokensPerReply: 12 },
  optimizer: { learningRate: 1e-2 },
  evaluation: { every: 2 },
  checkpoints: { every: 1 },
  runDir,
  ...more,
});

const newRun = async () => join(await mkdtemp(join(tmpdir(), 'rollcall-run-')), 'run');

/** Everything a step says but how long it took. */
const withoutTimes = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => {
      const { metrics, step } = JSON.parse(line) as { step: number; metrics: Record<string, number> };
      return {
        step,
        ...Object.fromEntries(Object.entries(metrics).filter(([name]) => !/^(timing_s|perf)\//.test(name))),
      };
    });

async function runToEnd(given: TrainOptions<Letter>, stopAfter = Number.POSITIVE_INFINITY) {
  for await (const report of train(given)) if (report.step >= stopAfter) break;
  return withoutTimes(await readFile(join(given.runDir, 'metrics.jsonl'), 'utf8'));
}

test('the same seed gives the same run, and a run stopped and resumed is that run', async () => {
  const whole = await runToEnd(options(await newRun()));
  expect(whole.map(({ step }) => step)).toEqual([0, 1, 2, 3]);
  expect(await runToEnd(options(await newRun()))).toEqual(whole);

  const runDir = await newRun();
  await runToEnd(options(runDir), 1);
  expect(await runToEnd(options(runDir, { resume: true }))).toEqual(whole);
});

test('an error in the middle of an update leaves a run that resumes as if it had not been', async () => {
  const optimizer = { learningRate: 1e-2, miniBatches: 2 };
  const whole = await runToEnd(options(await newRun(), { optimizer }));
  for (const every of [1, 100]) {
    const given = options(await newRun(), { optimizer, checkpoints: { every } });
    let passes = 0;
    const broken: TrainOptions<Letter> = {
      ...given,
      onProgress: ({ step, phase, done, total }) => {
        const isPassed = step === 2 && phase === 'training' && done === total;
        if (isPassed && ++passes === 2) throw new Error('out of memory'); // one mini-batch has been learned
      },
    };
    await expect(runToEnd(broken)).rejects.toThrow('out of memory');
    expect(await runToEnd({ ...given, resume: true })).toEqual(whole);
  }
});

test('training raises the reward', async () => {
  const rewards: number[] = [];
  const long = options(await newRun(), {
    steps: 25,
    tasksPerStep: 6,
    attemptsPerTask: 8,
    checkpoints: { every: 0 },
  });
  for await (const { metrics } of train(long)) rewards.push(metrics['critic/score/mean'] ?? Number.NaN);
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  expect(mean(rewards.slice(-3))).toBeGreaterThan(mean(rewards.slice(1, 4)) + 0.2);
});

test('one attempt per task is refused by GRPO before anything starts', async () => {
  const run = runToEnd(options(await newRun(), { attemptsPerTask: 1 }));
  await expect(run).rejects.toThrow(/attemptsPerTask is 1, but GRPO compares attempts/);
});

test('a start that failed does not keep the next one from its directory', async () => {
  const runDir = await newRun();
  const once = { steps: 1, tasksPerStep: 1, evaluation: { before: false, every: 0 } };
  const misspelt = runToEnd(options(runDir, { ...once, model: './models/none' }));
  await expect(misspelt).rejects.toThrow('no model at ./models/none');
  expect(existsSync(runDir)).toBe(false);
  const refused = runToEnd(options(runDir, { ...once, attemptsPerTask: 1 }));
  await expect(refused).rejects.toThrow('attemptsPerTask is 1');
  expect(await runToEnd(options(runDir, once))).toHaveLength(1);
});
