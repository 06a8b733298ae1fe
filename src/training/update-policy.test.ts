import { expect, test } from 'vitest';
import { tabularTrainer } from '../../testing/tabular-trainer.ts';
import { createRandom } from '../lib/random.ts';
import type { Group, Scored, Segment } from '../types.ts';
import { grpo } from './algorithms.ts';
import { createBatch } from './batch.ts';
import { type OptimizerOptions, updatePolicy } from './update-policy.ts';

const ADAM = { learningRate: 0.1, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 0 };
const OPTIMIZER: OptimizerOptions = {
  adam: ADAM,
  miniBatches: 1,
  epochs: 1,
  tokensPerMicroBatch: 64,
  balance: true,
  shuffle: false,
};

function segmentOf(ids: Int32Array, logprobs: Float32Array, prompt: number): Segment {
  const sampled = Uint8Array.from(ids, (_, at) => (at >= prompt ? 1 : 0));
  return {
    ids,
    sampled,
    trained: sampled,
    logprobs,
    versions: Int32Array.from(sampled, (mark) => (mark ? 0 : -1)),
    turns: Int32Array.from(sampled),
    images: [],
  };
}

function scored(taskIndex: number, attempt: number, segment: Segment, reward: number | undefined): Scored {
  return {
    trajectory: {
      id: `1-${taskIndex}-${attempt}`,
      step: 1,
      taskIndex,
      task: {},
      attempt,
      segments: [segment],
      messages: [],
      turns: [],
      text: '',
      end: { kind: 'completed' },
      spans: [],
      extra: {},
    },
    rewards: {},
    reward,
  };
}

const policy = (seed = 7) => {
  const random = createRandom(seed);
  return tabularTrainer({ vocabulary: 6, logits: Array.from({ length: 36 }, () => random.next() * 2 - 1) });
};

/** Tasks are a prompt of ten tokens; the reward is the share of tokens equal to the task's number. */
function sampleGroups(trainer: ReturnType<typeof policy>, seed: number, tasks = 3, attempts = 4): Group[] {
  const random = createRandom(seed);
  return Array.from({ length: tasks }, (_, taskIndex) => {
    const prompt = [0, 1, 2, 3, 4, 5, 0, 1, 2, taskIndex];
    return {
      taskIndex,
      task: {},
      attempts: Array.from({ length: attempts }, (_, attempt) => {
        const { ids, logprobs } = trainer.sample(prompt, 3 + random.integer(5), random);
        const reply = [...ids.slice(prompt.length)];
        const reward = reply.filter((id) => id === taskIndex).length / reply.length;
        return scored(taskIndex, attempt, segmentOf(ids, logprobs, prompt.length), reward);
      }),
    };
  });
}

const batchOf = (groups: readonly Group[], algorithm = grpo()) =>
  createBatch(groups, { step: 1, version: 0, algorithm });

test('GRPO learns a reward that only some attempts get', async () => {
  const trainer = policy();
  const means: number[] = [];
  for (let step = 1; step <= 100; step++) {
    const groups = sampleGroups(trainer, step, 4, 8);
    const batch = createBatch(groups, { step, version: step, algorithm: grpo() });
    const { metrics } = await updatePolicy({
      trainer,
      batch,
      algorithm: grpo({ clip: [0.2, 0.28] }),
      optimizer: { ...OPTIMIZER, miniBatches: 2 },
      temperature: 1,
      seed: step,
    });
    means.push(metrics['critic/score/mean']!);
  }
  expect(means[0]).toBeLessThan(0.35);
  expect(means.slice(-5).reduce((a, b) => a + b) / 5).toBeGreaterThan(0.9);
});

test('the update does not depend on micro-batches, their order or shared prefixes', async () => {
  const groups = sampleGroups(policy(), 3);
  const run = async (optimizer: Partial<OptimizerOptions>, prefix: boolean) => {
    const trainer = policy();
    const can = new Set([...trainer.can].filter((ability) => prefix || ability !== 'prefix'));
    await updatePolicy({
      trainer: { ...trainer, can },
      batch: batchOf(groups),
      algorithm: grpo({ entropyBonus: 0.01 }),
      optimizer: { ...OPTIMIZER, ...optimizer },
      temperature: 1,
      seed: 1,
    });
    return trainer.logits;
  };
  const whole = await run({ tokensPerMicroBatch: 1e6 }, false);
  for (const tokensPerMicroBatch of [1, 20, 37, 1000]) {
    for (const balance of [true, false]) {
      for (const prefix of [true, false]) {
        const other = await run({ tokensPerMicroBatch, balance }, prefix);
        other.forEach((logit, i) => {
          expect(Math.abs(logit - whole[i]!)).toBeLessThan(1e-6);
        });
      }
    }
  }
});
