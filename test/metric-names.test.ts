import { expect, test } from 'vitest';
import { offPolicyMetrics } from '../src/modes/off-policy-metrics.ts';
import type { Algorithm } from '../src/training/algorithm.ts';
import { grpo, ppo } from '../src/training/algorithms.ts';
import { createBatch } from '../src/training/batch.ts';
import { corrections } from '../src/training/correction.ts';
import { updatePolicy } from '../src/training/update-policy.ts';
import { evaluateGroups, validationMetrics } from '../src/watch/evaluation.ts';
import { rolloutMetrics } from '../src/watch/rollout-metrics.ts';
import { tabularGroups, tabularPolicy } from '../testing/tabular-task.ts';

/** A step's metrics are spread into one object, where of two with one name the later would win unseen. */
test.each<[string, Algorithm]>([
  ['grpo', grpo()],
  [
    'grpo with KL and a correction',
    grpo({ kl: { as: 'reward', estimator: 'k1' }, correction: corrections.tokenTruncated(2) }),
  ],
  ['ppo with filtration', ppo({ filtration: {} })],
])('%s: no two parts of a step give one name', async (_, algorithm) => {
  const trainer = tabularPolicy();
  const groups = tabularGroups(trainer, { seed: 1, twoSegments: true });
  const { metrics: update } = await updatePolicy({
    trainer,
    critic: tabularPolicy(),
    reference: tabularPolicy(),
    batch: createBatch(groups, { step: 1, version: 1, algorithm }),
    algorithm,
    optimizer: {
      adam: { learningRate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, clipNorm: 1 },
      miniBatches: 2,
      epochs: 1,
      tokensPerMicroBatch: 64,
      balance: true,
      shuffle: false,
    },
    temperature: 1,
    seed: 1,
  });
  const parts = [
    rolloutMetrics(groups),
    offPolicyMetrics(groups, 1),
    update,
    validationMetrics(evaluateGroups(groups, 'set')),
  ];
  const names = parts.flatMap((part) => Object.keys(part));
  expect(names.filter((name, at) => names.indexOf(name) < at)).toEqual([]);
  for (const name of [
    'critic/score/mean',
    'response_length/mean',
    'prompt_length/mean',
    'critic/rewards/mean',
  ])
    expect(names).toContain(name);
});
