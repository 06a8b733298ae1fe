import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { tabularGroups, tabularPolicy } from '../../testing/tabular-task.ts';
import { TrainerError } from '../errors.ts';
import type { Group } from '../types.ts';
import { dapo, grpo, ppo } from './algorithms.ts';
import { createBatch } from './batch.ts';
import { decodeBatch, encodeBatch, readBatchFile } from './batch-file.ts';
import { replayBatch } from './replay.ts';
import type { ResolvedUpdate } from './update-options.ts';
import { updatePolicy } from './update-policy.ts';

const ADAM = { learningRate: 0.1, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 0 };
const directory = () => mkdtempSync(join(tmpdir(), 'rollcall-guard-'));
const groups = (seed = 1) => tabularGroups(tabularPolicy(), { seed });

const optionsFor = (
  list: readonly Group[],
  more: Partial<ResolvedUpdate> & Pick<ResolvedUpdate, 'trainer'>,
): ResolvedUpdate => ({
  batch: createBatch(list, { step: 12, version: 11, algorithm: grpo() }),
  algorithm: grpo(),
  optimizer: {
    adam: ADAM,
    miniBatches: 1,
    epochs: 1,
    tokensPerMicroBatch: 60,
    balance: false,
    shuffle: false,
  },
  temperature: 1,
  seed: 1,
  ...more,
});

test('a weight that is not a number is caught, named and set aside; once mended, the run goes on', async () => {
  const trainer = tabularPolicy();
  const folder = directory();
  trainer.logits[0] = Number.NaN; // token 0 after token 0: task 0's rows
  const guard = { onNonFinite: 'skip', directory: folder, run: 'runs/a' } as const;
  const list = groups();
  const broken = await updatePolicy(optionsFor(list, { trainer, guard }));
  expect(broken.notices[0]).toMatch(
    /run runs\/a, step 12: the policy's log-prob is NaN at trajectory 1-0-0, token \d+ \(id \d\)/,
  );
  expect(broken.skipped?.file).toBe(join(folder, 'step_12.batch'));
  expect(trainer.steps).toBe(0);
  expect(trainer.gradient.every((value) => value === 0)).toBe(true);

  const stored = await readBatchFile(broken.skipped!.file!);
  const again = await replayBatch({ stored, trainer });
  expect(again.problem).toMatch(/log-prob is NaN/);
  expect(again.rows.filter(({ problem }) => problem).map(({ trajectory }) => trajectory)).toContain('1-0-0');
  expect(again.rows.filter(({ problem }) => problem).length).toBeLessThan(12);

  trainer.logits[0] = 0;
  const mended = await updatePolicy(optionsFor(list, { trainer, guard }));
  expect(mended.skipped).toBeUndefined();
  expect(mended.metrics['actor/updates']).toBe(1);
  expect((await replayBatch({ stored, trainer })).problem).toBeUndefined();
});

test('a failure in the middle of a mini-batch leaves no gradient of the passes before it', async () => {
  const trainer = tabularPolicy();
  const list = groups();
  trainer.logits[2 * 6 + 2] = Number.NaN; // only rows that pass through token 2 twice: task 2 comes last
  const before = trainer.logits.slice();
  const { skipped } = await updatePolicy(
    optionsFor(
      list.toSorted((a, b) => a.taskIndex - b.taskIndex),
      {
        trainer,
        guard: { onNonFinite: 'skip' },
      },
    ),
  );
  expect(skipped?.reason).toMatch(/log-prob is NaN/);
  expect(trainer.gradient.every((value) => value === 0)).toBe(true);
  expect(trainer.logits).toEqual(before);
});

test('a critic that breaks in the middle keeps neither gradient nor update', async () => {
  const critic = tabularPolicy();
  critic.values[2] = Number.NaN; // task 2 comes last
  const algorithm = ppo();
  const finite = {
    ...critic,
    score: (...args: Parameters<typeof critic.score>) => tabularPolicy().score(...args),
  };
  const { skipped } = await updatePolicy(
    optionsFor(groups(), {
      trainer: tabularPolicy(),
      critic: finite,
      algorithm,
      guard: { onNonFinite: 'skip' },
    }),
  );
  expect(skipped?.reason).toMatch(/the critic's value is NaN at trajectory/);
  expect(critic.gradient.every((value) => value === 0)).toBe(true);
  expect(critic.steps).toBe(0);
});

test('when everything in a pass is broken, the weights are said to be', async () => {
  const trainer = tabularPolicy();
  trainer.logits.fill(Number.NaN);
  const { skipped } = await updatePolicy(optionsFor(groups(), { trainer, guard: { onNonFinite: 'skip' } }));
  expect(skipped).toMatchObject({ weightsBroken: true });
  expect(skipped!.reason).toMatch(/the weights are broken: load the last checkpoint/);
});

test('without an option to go on, the run stops with the place and the file', async () => {
  const trainer = tabularPolicy();
  trainer.logits.fill(Number.NaN);
  const guard = { onNonFinite: 'stop', directory: directory() } as const;
  const failure = updatePolicy(optionsFor(groups(), { trainer, guard }));
  await expect(failure).rejects.toThrow(TrainerError);
  await expect(failure).rejects.toThrow(/step 12: .*rollcall replay .*step_12\.batch/);
});

test('a gradient that is not finite skips its update alone, and the batch is kept', async () => {
  const trainer = tabularPolicy();
  const folder = directory();
  let calls = 0;
  const flaky = {
    ...trainer,
    optimStep: async (adam: typeof ADAM) => {
      if (++calls === 1) trainer.gradient[0] = Number.NaN;
      return trainer.optimStep(adam);
    },
  };
  const options = optionsFor(groups(), { trainer: flaky, guard: { onNonFinite: 'skip', directory: folder } });
  const { metrics, skipped } = await updatePolicy({
    ...options,
    optimizer: { ...options.optimizer, miniBatches: 3 },
  });
  expect(metrics['actor/updates']).toBe(3);
  expect(metrics['actor/updates_skipped']).toBe(1);
  expect(trainer.steps).toBe(2);
  expect(skipped?.file).toBe(join(folder, 'step_12.batch'));
});

test.each([Number.NaN, Number.POSITIVE_INFINITY])(
  'a reward of %s leaves its attempt out, or stops',
  async (reward) => {
    const list = groups().map((group, i) => ({
      ...group,
      attempts: group.attempts.map((attempt, j) => (i === 1 && j === 2 ? { ...attempt, reward } : attempt)),
    }));
    const going = await updatePolicy(
      optionsFor(list, { trainer: tabularPolicy(), guard: { onNonFinite: 'skip' } }),
    );
    expect(going.notices[0]).toBe(
      `step 12: no finite reward for trajectory 1-1-2 (its reward is ${reward}); left out of its group`,
    );
    expect(going.tokens).toHaveLength(11);
    await expect(updatePolicy(optionsFor(list, { trainer: tabularPolicy() }))).rejects.toThrow(
      /trajectory 1-1-2/,
    );
  },
);

test('extreme ratios are held, counted and said', async () => {
  const trainer = tabularPolicy();
  const list = groups();
  list[0]!.attempts[0]!.trajectory.segments[0]!.logprobs.fill(-60);
  const { metrics, notices } = await updatePolicy(
    optionsFor(list, { trainer, algorithm: grpo({ old: 'behaviour' }) }),
  );
  expect(metrics['actor/ratios_clamped']).toBeGreaterThan(0);
  expect(notices.join()).toMatch(/times more or less likely than when they were sampled/);
  expect(trainer.logits.every(Number.isFinite)).toBe(true);
});

test('a batch file gives back every array and number', () => {
  const batch = createBatch(tabularGroups(tabularPolicy(), { seed: 5, twoSegments: true }), {
    step: 3,
    version: 2,
    algorithm: dapo(),
  });
  const { trainer: _, ...options } = optionsFor(groups(), { trainer: tabularPolicy() });
  const stored = { ...options, batch, reason: 'because', algorithm: dapo() };
  expect(decodeBatch(encodeBatch(stored), 'x')).toEqual(stored);
});

test('a file that is no batch, or cut off, is refused by name', async () => {
  const file = join(directory(), 'wrong.batch');
  writeFileSync(file, 'not json\n');
  await expect(readBatchFile(file)).rejects.toThrow(/wrong\.batch is not a batch file/);
  writeFileSync(file, '{"format":"other","version":9}\n');
  await expect(readBatchFile(file)).rejects.toThrow(
    /is other version 9; this build reads rollcall-batch version 1/,
  );
  const { trainer: _, ...options } = optionsFor(groups(), { trainer: tabularPolicy() });
  const whole = encodeBatch({ ...options, reason: 'because' });
  expect(() => decodeBatch(whole.subarray(0, whole.length - 1), 'half')).toThrow(/half ends in the middle/);
});
