import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Algorithm, createBatch, embedded, type Group, updatePolicy } from 'rollcall';
import { dapo, grpo, type OptimizerOptions, ppo } from 'rollcall/algorithms';
import type { Outputs, Trainer } from 'rollcall/ports';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scoredAttempt } from '../testing/tabular-task.ts';
import { tinyModel } from './tiny-model.ts';

/** The algorithms on the embedded engine: a real transformer, all through the port. */
const ADAM = { learningRate: 0.002, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, clipNorm: 1 };
const OPTIMIZER: OptimizerOptions = {
  adam: ADAM,
  miniBatches: 1,
  epochs: 1,
  tokensPerMicroBatch: 4096,
  balance: true,
  shuffle: false,
};
const { trainer: trainers } = embedded({ threads: 1 });
let model: string;
let initial: string;
let trainer: Trainer;
let reference: Trainer;

beforeAll(async () => {
  model = await tinyModel();
  trainer = await trainers.open('policy', model);
  reference = await trainers.open('reference', model);
  initial = await mkdtemp(join(tmpdir(), 'rollcall-initial-'));
  await trainer.save(initial);
}, 60_000);
afterAll(() => Promise.all([trainer.close(), reference.close()]));

/** Three tasks, four attempts each: one long prompt, replies of different lengths, an observation in the middle. */
function groups(): Group[] {
  return [0, 1, 2].map((taskIndex) => ({
    taskIndex,
    task: {},
    attempts: [0, 1, 2, 3].map((attempt) => {
      const prompt = Array.from({ length: 24 }, (_, i) => 65 + ((i * (taskIndex + 3)) % 26));
      const reply = Array.from({ length: 4 + 3 * attempt }, (_, i) => 97 + ((i * (attempt + 2)) % 20));
      const answer = Array.from({ length: 3 + taskIndex }, (_, i) => 48 + ((i + attempt) % 10));
      const ids = [...prompt, ...reply, 33, 33, 33, ...answer];
      const sampled = ids.map((_, at) =>
        at >= 24 && (at < 24 + reply.length || at >= ids.length - answer.length) ? 1 : 0,
      );
      const segment = {
        ids: Int32Array.from(ids),
        sampled: Uint8Array.from(sampled),
        trained: Uint8Array.from(sampled),
        logprobs: Float32Array.from(sampled, (mark) => -4.5 * mark),
        versions: Int32Array.from(sampled, (mark) => mark - 1),
        turns: Int32Array.from(sampled),
        images: [],
      };
      return scoredAttempt(
        { taskIndex, attempt, step: 1, segments: [segment] },
        ((attempt * 7 + taskIndex) % 4) / 3,
      );
    }),
  }));
}

async function scoresAfter(
  list: readonly Group[],
  { algorithm = grpo({ kl: { coefficient: 0.05 }, entropyBonus: 0.01 }), optimizer = {}, prefix = true } = {},
): Promise<Outputs> {
  await trainer.load(initial);
  const can = new Set([...trainer.can].filter((ability) => prefix || ability !== 'prefix'));
  const plain: Trainer = {
    can,
    publishes: 'memory',
    score: (rows, options) => trainer.score(rows, options),
    forward: (rows, options) => trainer.forward(rows, options),
    optimStep: (adam) => trainer.optimStep(adam),
    publish: (version) => trainer.publish(version),
    save: (directory) => trainer.save(directory),
    load: (directory) => trainer.load(directory),
    close: async () => {},
  };
  await updatePolicy({
    trainer: plain,
    reference,
    batch: createBatch(list, { step: 1, version: 1, algorithm }),
    algorithm,
    optimizer: { ...OPTIMIZER, ...optimizer },
    temperature: 0.9,
    seed: 3,
  });
  const rows = groups()[0]!.attempts.map(({ trajectory }) => ({
    ids: trajectory.segments[0]!.ids,
    targets: trajectory.segments[0]!.trained,
  }));
  return trainer.score(rows, { temperature: 1, outputs: ['logprob'] });
}

/** Relative to the log-prob, which float32 holds to about 1e-7 of itself. */
const largestGap = (a: Outputs, b: Outputs) =>
  Math.max(
    ...a.logprob!.flatMap((list, row) =>
      [...list].map((value, at) => Math.abs(value - b.logprob![row]![at]!) / Math.max(1, Math.abs(value))),
    ),
  );

test('an update of a transformer does not depend on micro-batches, prefix sharing or order', async () => {
  const sgd = { ...ADAM, epsilon: 1 }; // Adam divides by |g|: a gradient of rounding size would look like one of size 1
  const plain = await scoresAfter(groups(), { optimizer: { adam: sgd }, prefix: false });
  await trainer.load(initial);
  const moved = largestGap(
    plain,
    await scoresAfter(groups(), { optimizer: { adam: { ...sgd, learningRate: 0 } } }),
  );
  expect(moved).toBeGreaterThan(1e-4);
  const turned = groups()
    .toReversed()
    .map((group) => ({ ...group, attempts: group.attempts.toReversed() }));
  for (const [list, optimizer] of [
    [groups(), {}],
    [groups(), { tokensPerMicroBatch: 90 }],
    [groups(), { tokensPerMicroBatch: 1, balance: false }],
    [turned, { tokensPerMicroBatch: 150 }],
  ] as const) {
    expect(
      largestGap(await scoresAfter(list, { optimizer: { adam: sgd, ...optimizer } }), plain),
    ).toBeLessThan(1e-6);
  }
});

test('rewarded attempts become likelier and the others less likely', async () => {
  const trained: Algorithm[] = [grpo(), dapo()];
  for (const algorithm of trained) {
    await trainer.load(initial);
    const before = await scoresAfter(groups(), {
      optimizer: { adam: { ...ADAM, learningRate: 0 } },
      algorithm,
    });
    const after = await scoresAfter(groups(), { optimizer: { epochs: 4 }, algorithm });
    const gain = [0, 1, 2, 3].map((row) =>
      after.logprob![row]!.reduce((sum, value, at) => sum + value - before.logprob![row]![at]!, 0),
    );
    expect(gain[3]).toBeLessThan(gain[1]!); // rewards of task 0: 0, 1, 2/3, 1/3
  }
});

test('PPO: a critic learns the returns', async () => {
  const critic = await trainers.open('critic', model);
  const algorithm = ppo();
  const explained: number[] = [];
  for (let step = 1; step <= 30; step++) {
    const { metrics } = await updatePolicy({
      trainer,
      critic,
      criticAdam: { ...ADAM, learningRate: 0.01 },
      batch: createBatch(groups(), { step, version: 1, algorithm }),
      algorithm,
      optimizer: OPTIMIZER,
      temperature: 1,
      seed: step,
    });
    explained.push(metrics['critic/vf_explained_var']!);
  }
  await critic.close();
  expect(explained.at(-1)).toBeGreaterThan(0.3);
  expect(explained.at(-1)).toBeGreaterThan(explained[0]!);
});
