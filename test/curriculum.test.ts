import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, arrayDataset, embedded, reward, type TrainOptions, train } from 'rollcall';
import { beforeAll, expect, test } from 'vitest';
import { tinyModel } from './tiny-model.ts';

/** Easy tasks first, by measured success, on a real run: 8 tasks whose attempts succeed more or less often, two epochs. */
type Level = { level: number };

let model: string;
beforeAll(async () => {
  model = await tinyModel();
});

const EASIEST_FIRST = [5, 2, 7, 0, 3, 6, 1, 4];
const options = (runDir: string, more: Partial<TrainOptions<Level>> = {}): TrainOptions<Level> => ({
  model,
  tasks: arrayDataset(EASIEST_FIRST.map((_, n) => ({ level: EASIEST_FIRST.indexOf(n) }))),
  order: { kind: 'easy-to-hard' },
  agent: agent<Level>(async ({ model: policy }) => {
    const chat = policy.chat();
    chat.user('x');
    await chat.sample();
  }),
  // Depends on the attempt a little, so that a group has something to learn from.
  rewards: [
    reward<Level>('success', ({ task, trajectory }) => 1 - task.level / 10 - trajectory.attempt / 100),
  ],
  ...embedded({ threads: 1 }),
  steps: 4,
  tasksPerStep: 4,
  attemptsPerTask: 2,
  limits: { tokensPerReply: 4 },
  evaluation: { before: false },
  checkpoints: { every: 1 },
  runDir,
  ...more,
});

async function tasksOf(
  given: TrainOptions<Level>,
  stopAfter = Number.POSITIVE_INFINITY,
): Promise<number[][]> {
  const steps: number[][] = [];
  for await (const { step, groups } of train(given)) {
    steps.push(groups.map(({ taskIndex }) => taskIndex));
    if (step >= stopAfter) break;
  }
  return steps;
}
const newRun = async () => join(await mkdtemp(join(tmpdir(), 'rollcall-curriculum-')), 'run');

test('the second epoch goes from easy to hard as measured in the first, also when resumed within it', async () => {
  const whole = await tasksOf(options(await newRun()));
  expect(whole.slice(0, 2).flat().sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(whole.slice(2).flat()).toEqual(EASIEST_FIRST);

  const runDir = await newRun();
  const before = await tasksOf(options(runDir), 3);
  const after = await tasksOf(options(runDir, { resume: true }));
  expect([...before, ...after]).toEqual(whole);
});
