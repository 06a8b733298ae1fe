import { expect, test } from 'vitest';
import { tabularGroups, tabularPolicy } from '../../testing/tabular-task.ts';
import { hashSeed } from '../lib/random.ts';
import { ppo } from './algorithms.ts';
import { createBatch } from './batch.ts';
import { filterTrajectories, filtrationWeights } from './filtration.ts';
import type { Row } from './trainer.ts';
import { updatePolicy } from './update-policy.ts';

const power = { method: 'power', power: 2 } as const;
const batchOf = (seed: number) =>
  createBatch(tabularGroups(tabularPolicy(seed), { seed, tasks: 3, attempts: 8, version: 0, step: 1 }), {
    step: 1,
    version: 0,
    algorithm: ppo(),
  });

test('weights are those of PF-PPO: by hand', () => {
  const rewards = [-2, 0, 1, 3];
  const rounded = (method: 'power' | 'max-min' | 'max-random', by = 2) =>
    filtrationWeights(rewards, { method, power: by }).map((weight) => Number(weight.toFixed(6)));
  expect(rounded('power')).toEqual([4, 0, 1, 9]);
  expect(rounded('power', 1)).toEqual([2, 0, 1, 3]);
  expect(rounded('max-min')).toEqual([1, 0, 0, 1]);
  expect(rounded('max-random')).toEqual([0.1, 0.1, 0.1, 0.4]);
  expect(filtrationWeights([0, 0], power)).toEqual([1e-8, 1e-8]); // all the same is drawn evenly
});

test('trajectories are drawn as often as their weights say', () => {
  const batch = batchOf(3);
  const weights = filtrationWeights(
    batch.trajectories.map(({ reward }) => reward),
    power,
  );
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const counts = new Map<string, number>();
  const rounds = 400;
  for (let seed = 0; seed < rounds; seed++) {
    const { batch: drawn } = filterTrajectories(batch, power, hashSeed('test', seed));
    expect(drawn.trajectories).toHaveLength(batch.trajectories.length);
    for (const { id } of drawn.trajectories) counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  const draws = rounds * batch.trajectories.length;
  batch.trajectories.forEach(({ id }, index) => {
    const share = weights[index]! / total;
    const error = Math.sqrt((share * (1 - share)) / draws); // one standard deviation of a count
    expect(Math.abs((counts.get(id) ?? 0) / draws - share)).toBeLessThan(4.5 * error + 1e-9);
  });
});

test('what is drawn is whole: sequences belong to their copies and are those of the batch', () => {
  const batch = batchOf(5);
  const { batch: drawn, origin, keptShare } = filterTrajectories(batch, power, 7);
  expect(origin).toHaveLength(drawn.sequences.length);
  drawn.trajectories.forEach(({ id, sequences }, index) => {
    for (const at of sequences) {
      expect(drawn.sequences[at]!.trajectory).toBe(index);
      expect(drawn.sequences[at]!.ids).toBe(batch.sequences[origin[at]!]!.ids);
      expect(batch.trajectories[batch.sequences[origin[at]!]!.trajectory]!.id).toBe(id);
    }
  });
  const different = new Set(drawn.trajectories.map(({ id }) => id)).size;
  expect(keptShare).toBe(different / batch.trajectories.length);
});

test('policy and critic see what was drawn, as often as it was drawn, and records are of the batch', async () => {
  const batch = batchOf(4);
  const seen: Record<'policy' | 'critic', string[]> = { policy: [], critic: [] };
  const spied = (role: 'policy' | 'critic') => {
    const trainer = tabularPolicy(4);
    const forward = trainer.forward.bind(trainer);
    return Object.assign(trainer, {
      forward: (rows: readonly Row[], options: Parameters<typeof forward>[1]) => {
        seen[role].push(...rows.map(({ ids }) => ids.join(' ')));
        return forward(rows, options);
      },
    });
  };
  const { tokens, metrics } = await updatePolicy({
    trainer: spied('policy'),
    critic: spied('critic'),
    batch,
    algorithm: ppo({ filtration: {} }),
    optimizer: {
      adam: { learningRate: 0.1, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 0 },
      miniBatches: 1,
      epochs: 1,
      tokensPerMicroBatch: 64,
      balance: true,
      shuffle: false,
    },
    temperature: 1,
    tokensPerTrajectory: 32,
    seed: 9,
  });
  const { batch: drawn, keptShare } = filterTrajectories(batch, power, hashSeed(9, 'filtration'));
  const expected = drawn.sequences.map(({ ids }) => ids.join(' ')).toSorted();
  expect(seen.policy.toSorted()).toEqual(expected);
  expect(seen.critic.toSorted()).toEqual(expected);
  expect(metrics['training/filtration/kept_share']).toBe(keptShare);
  expect(tokens.map(({ trajectory }) => trajectory)).toEqual(
    batch.sequences.map(({ trajectory }) => batch.trajectories[trajectory]!.id),
  );
});
