import { describe, expect, test } from 'vitest';
import { greedyBaselines, tabularGroups, tabularPolicy } from '../../testing/tabular-task.ts';
import type { TabularTrainer } from '../../testing/tabular-trainer.ts';
import type { Group } from '../types.ts';
import { type Algorithm, keepGroup } from './algorithm.ts';
import * as algorithms from './algorithms.ts';
import { createBatch } from './batch.ts';
import { corrections } from './correction.ts';
import type { OptimizerOptions } from './optimizer-options.ts';
import type { Gradients, Row, Trainer } from './trainer.ts';
import type { UpdateOptions, UpdateState } from './update-options.ts';
import { updatePolicy } from './update-policy.ts';

const { grpo, ppo } = algorithms;
const ADAM = { learningRate: 0.2, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 0 };
const OPTIMIZER: OptimizerOptions = {
  adam: ADAM,
  miniBatches: 1,
  epochs: 1,
  tokensPerMicroBatch: 64,
  balance: true,
  shuffle: false,
};

const batchOf = (groups: readonly Group[], algorithm: Algorithm = grpo()) =>
  createBatch(groups, { step: 1, version: 0, algorithm });

const update = (options: Partial<UpdateOptions> & Pick<UpdateOptions, 'trainer' | 'batch'>) =>
  updatePolicy({
    algorithm: grpo(),
    optimizer: OPTIMIZER,
    temperature: 1,
    tokensPerTrajectory: 32,
    seed: 1,
    ...options,
  });

/** Trains on the tabular task and returns the mean reward of the first and of the last five steps. */
async function learn(algorithm: Algorithm, { steps = 30, miniBatches = 2, attempts = 8 } = {}) {
  const trainer = tabularPolicy();
  const critic = tabularPolicy();
  const reference = tabularPolicy();
  const scores: number[] = [];
  const average = (list: readonly number[]) => list.reduce((a, b) => a + b, 0) / list.length;
  let state: UpdateState | undefined;
  let metrics: Record<string, number> = {};
  for (let step = 1; step <= steps; step++) {
    const sampled = tabularGroups(trainer, { seed: step, tasks: 3, attempts, version: step - 1, step });
    const { dynamicSampling } = algorithm;
    const groups = dynamicSampling ? sampled.filter((group) => keepGroup(group, dynamicSampling)) : sampled;
    const baselines = greedyBaselines(trainer, 3);
    const batch = createBatch(groups, { step, version: step - 1, algorithm, baselines });
    const result = await update({
      trainer,
      critic,
      reference,
      batch,
      algorithm,
      optimizer: { ...OPTIMIZER, miniBatches },
      seed: step,
      ...(state ? { state } : {}),
    });
    ({ state, metrics } = result);
    scores.push(batch.groups > 0 ? average(batch.trajectories.map(({ score }) => score)) : 1);
  }
  return { before: average(scores.slice(0, 5)), after: average(scores.slice(-5)), metrics, trainer };
}

describe('every algorithm learns the tabular task', () => {
  const { gdpo, gspo, gmpo, reinforcePlusPlus, dppo } = algorithms;
  const family: Record<string, Algorithm> = {
    grpo: grpo({ clip: [0.2, 0.28] }),
    'grpo with KL loss': grpo({ kl: { coefficient: 0.01 } }),
    'grpo with adaptive KL in the reward': grpo({
      kl: { as: 'reward', estimator: 'k1', adaptive: { target: 0.1, horizon: 1000 } },
    }),
    'grpo with an entropy bonus': grpo({ entropyBonus: 0.005 }),
    'grpo on behaviour log-probs': grpo({ old: 'behaviour' }),
    'grpo with truncated importance sampling': grpo({ correction: corrections.tokenTruncated() }),
    drGrpo: algorithms.drGrpo(),
    dapo: algorithms.dapo({ overlong: { maxTokens: 40, bufferTokens: 8, penalty: 0.5 } }),
    rloo: algorithms.rloo(),
    'reinforce++': reinforcePlusPlus(),
    'reinforce++ with group baseline': algorithms.reinforcePlusPlusBaseline(),
    remax: algorithms.remax(),
    gpg: algorithms.gpg(),
    opo: algorithms.opo(),
    maxRl: algorithms.maxRl(),
    'pass@k': algorithms.passAtK(),
    gdpo: gdpo({ weights: { right: 1, short: 0.1 } }),
    'optimal token baseline': algorithms.optimalTokenBaseline(),
    turnGrpo: algorithms.turnGrpo(),
    'turnGrpo by turn': algorithms.turnGrpo({ compare: 'turn', discount: 0.9 }),
    processGrpo: algorithms.processGrpo(),
    gspo: gspo({ clip: 0.2 }),
    gmpo: gmpo(),
    cispo: algorithms.cispo(),
    sapo: algorithms.sapo(),
    'dppo tv': dppo(),
    'dppo kl': dppo({ divergence: 'kl' }),
    dro: algorithms.dro(),
    clipCov: algorithms.clipCov({ covariance: [0.1, 5] }),
    klCov: algorithms.klCov(),
    ppo: ppo({ lambda: 0.95 }),
    'pf-ppo': ppo({ lambda: 0.95, filtration: { method: 'max-random' } }),
  };
  test.each(Object.entries(family))('%s', async (name, algorithm) => {
    const patience = ['remax', 'pass@k'].includes(name) ? { steps: 60 } : {}; // a coarse baseline; one attempt in eight
    const { before, after } = await learn(algorithm, patience);
    expect(before).toBeLessThan(0.5);
    expect(after).toBeGreaterThan(0.85);
  });
});

/** Gradients and rows that reach the trainer. */
function spied(trainer: TabularTrainer, can = trainer.can) {
  const seen: { row: Row; gradient: Float32Array }[] = [];
  const spy = {
    ...trainer,
    can,
    forward: async (rows: readonly Row[], options: Parameters<TabularTrainer['forward']>[1]) => {
      const pass = await trainer.forward(rows, options);
      return {
        ...pass,
        backward: (gradients: Gradients) => {
          rows.forEach((row, i) => {
            seen.push({ row, gradient: gradients.logprob![i]! });
          });
          return pass.backward(gradients);
        },
      };
    },
  };
  return { spy, seen };
}

describe('the gradient', () => {
  const algorithm = grpo({ entropyBonus: 0.01, kl: { coefficient: 0.1 } });
  const reference = tabularPolicy(3);
  const logitsAfter = async (
    groups: readonly Group[],
    optimizer: Partial<OptimizerOptions>,
    prefix = true,
  ) => {
    const trainer = tabularPolicy();
    const can = new Set([...trainer.can].filter((ability) => prefix || ability !== 'prefix'));
    await update({
      trainer: { ...trainer, can },
      reference,
      algorithm,
      batch: batchOf(groups, algorithm),
      optimizer: { ...OPTIMIZER, ...optimizer },
    });
    return trainer.logits;
  };
  const expectSame = (a: Float64Array, b: Float64Array) => {
    a.forEach((value, i) => {
      expect(Math.abs(value - b[i]!)).toBeLessThan(1e-6);
    });
  };

  test('does not depend on micro-batches, their balance or shared prefixes', async () => {
    const groups = tabularGroups(tabularPolicy(), { seed: 3 });
    const whole = await logitsAfter(groups, { tokensPerMicroBatch: 1e6 }, false);
    for (const tokensPerMicroBatch of [1, 20, 37, 1000]) {
      for (const balance of [true, false]) {
        for (const prefix of [true, false]) {
          expectSame(await logitsAfter(groups, { tokensPerMicroBatch, balance }, prefix), whole);
        }
      }
    }
  });

  test('does not depend on the order of groups and attempts', async () => {
    const groups = tabularGroups(tabularPolicy(), { seed: 4 });
    const turned = groups.toReversed().map((group) => ({ ...group, attempts: group.attempts.toReversed() }));
    expectSame(await logitsAfter(turned, {}), await logitsAfter(groups, {}));
  });

  test.each(['token-mean', 'sequence-mean-token-mean', 'sequence-mean-token-sum'] as const)(
    'is the same for a trajectory in two segments as in one (%s)',
    async (aggregation) => {
      const logits = async (twoSegments: boolean) => {
        const trainer = tabularPolicy();
        const groups = tabularGroups(trainer, { seed: 5, twoSegments });
        await update({
          trainer,
          batch: batchOf(groups),
          algorithm: grpo({ aggregation, turnRewards: true }),
        });
        return trainer.logits;
      };
      expectSame(await logits(true), await logits(false));
    },
  );

  test('is zero off the trained tokens, and nowhere else by accident', async () => {
    const { spy, seen } = spied(tabularPolicy());
    const groups = tabularGroups(tabularPolicy(), { seed: 6 });
    const first = groups[0]!.attempts[0]!.trajectory.segments[0]!;
    const excluded = first.trained.indexOf(1);
    first.trained[excluded] = 0; // the agent leaves a sampled token out
    await update({ trainer: spy, reference, batch: batchOf(groups), algorithm });
    const trained = new Map(
      groups.flatMap(({ attempts }) =>
        attempts.map(({ trajectory }) => [trajectory.segments[0]!.ids, trajectory.segments[0]!.trained]),
      ),
    );
    expect(seen).toHaveLength(12);
    for (const { row, gradient } of seen) {
      gradient.forEach((value, at) => {
        expect(value !== 0).toBe(trained.get(row.ids)![at] === 1);
      });
    }
  });

  test('no call holds more tokens than the trainer or the reference takes', async () => {
    const tokensOf = (rows: readonly Row[]) => rows.reduce((sum, { ids }) => sum + ids.length, 0);
    const largest = async (limits: { policy?: number; reference?: number }) => {
      const sizes: number[] = [];
      const limited = (trainer: TabularTrainer, tokensPerCall?: number): Trainer => ({
        ...trainer,
        can: new Set([...trainer.can].filter((ability) => ability !== 'prefix')), // whole rows, easily counted
        ...(tokensPerCall === undefined ? {} : { tokensPerCall }),
        forward: (rows, options) => {
          sizes.push(tokensOf(rows));
          return trainer.forward(rows, options);
        },
        score: (rows, options) => {
          sizes.push(tokensOf(rows));
          return trainer.score(rows, options);
        },
      });
      const policy = tabularPolicy();
      await update({
        trainer: limited(policy, limits.policy),
        reference: limited(tabularPolicy(3), limits.reference),
        algorithm,
        batch: batchOf(tabularGroups(policy, { seed: 7 }), algorithm),
        optimizer: { ...OPTIMIZER, tokensPerMicroBatch: 1e6 },
      });
      return Math.max(...sizes);
    };
    expect(await largest({})).toBeGreaterThan(100);
    expect(await largest({ policy: 50 })).toBeLessThanOrEqual(50);
    expect(await largest({ policy: 80, reference: 50 })).toBeLessThanOrEqual(50);
  });

  test('sharing prefixes saves the prompts of all but one attempt', async () => {
    const tokens = async (prefix: boolean) => {
      const trainer = tabularPolicy();
      const can = new Set([...trainer.can].filter((ability) => prefix || ability !== 'prefix'));
      const groups = tabularGroups(trainer, { seed: 7 });
      const { spy } = spied(trainer, can);
      await update({
        trainer: spy,
        batch: batchOf(groups),
        optimizer: { ...OPTIMIZER, tokensPerMicroBatch: 1e6 },
      });
      return trainer.tokensForwarded;
    };
    expect((await tokens(false)) - (await tokens(true))).toBe(3 * 3 * 10);
  });
});

describe('the old policy', () => {
  test('a single update needs no pass before it, and has a ratio of 1', async () => {
    const trainer = tabularPolicy();
    const groups = tabularGroups(trainer, { seed: 8 });
    const { metrics } = await update({ trainer, batch: batchOf(groups) });
    expect(metrics['actor/ppo_kl']).toBe(0);
    expect(metrics['training/rollout_probs_diff_max']).toBeLessThan(1e-6);
  });

  test('at a temperature the trainer scores at that temperature', async () => {
    const trainer = tabularPolicy();
    const groups = tabularGroups(trainer, { seed: 8 });
    const at = async (temperature: number) =>
      (await update({ trainer: tabularPolicy(), batch: batchOf(groups), temperature })).metrics;
    expect((await at(1))['training/rollout_probs_diff_max']).toBeLessThan(1e-6);
    expect((await at(0.2))['training/rollout_probs_diff_max']).toBeGreaterThan(0.01);
  });

  test('tokens of an older policy are corrected towards the policy that learns', async () => {
    const trainer = tabularPolicy();
    const groups = tabularGroups(tabularPolicy(11), { seed: 9 }); // sampled by another policy
    const { metrics } = await update({
      trainer,
      batch: batchOf(groups),
      algorithm: grpo({ correction: corrections.tokenTruncated(1.2) }),
    });
    expect(metrics['rollout_corr/rollout_is_max']).toBe(1.2);
    expect(metrics['rollout_corr/rollout_is_ratio_fraction_high']).toBeGreaterThan(0);
    expect(metrics['training/rollout_probs_diff_max']).toBeGreaterThan(0.01);
  });

  /** Old policy and engine differ: log π − log π_rollout of every trained token, trajectory by trajectory. */
  async function offPolicy(algorithm: Algorithm, twoSegments = false) {
    const groups = tabularGroups(tabularPolicy(11), { seed: 9, twoSegments });
    const trainer = tabularPolicy();
    const batch = batchOf(groups, algorithm);
    const { metrics, tokens } = await update({ trainer, batch, algorithm });
    const trajectories = batch.trajectories.map(({ sequences }) =>
      sequences.flatMap((index) => {
        const { positions, behaviour } = batch.sequences[index]!;
        return [...positions].map((at) => ({
          advantage: tokens[index]!.advantages![at]!,
          logprob: tokens[index]!.logprobs![at]!,
          logRatio: tokens[index]!.logprobs![at]! - behaviour[at]!,
        }));
      }),
    );
    return { metrics, trajectories, logits: trainer.logits };
  }
  const sum = (list: readonly number[]) => list.reduce((total, value) => total + value, 0);
  const average = (list: readonly number[]) => sum(list) / list.length;

  // verl 0.9.1, compute_policy_loss_geo_mean: L = mean_i(−A_i · ratio_i · exp(mean_t log(w_t + 1e-10))); the ratio of a
  // first update is 1.
  test('GMPO weighs a sequence by the geometric mean of its importance weights', async () => {
    const algorithm = algorithms.gmpo({ correction: corrections.tokenTruncated(1.5) });
    const { metrics, trajectories } = await offPolicy(algorithm);
    const expected = trajectories.map((tokens) => {
      const weights = tokens.map(({ logRatio }) => Math.min(Math.exp(logRatio), 1.5));
      return -average(tokens.map(({ advantage }) => advantage)) * Math.exp(average(weights.map(Math.log)));
    });
    expect(metrics['actor/pg_loss']).toBeCloseTo(average(expected), 6);
    const arithmetic = trajectories.map((tokens) =>
      average(tokens.map(({ advantage, logRatio }) => -advantage * Math.min(Math.exp(logRatio), 1.5))),
    );
    expect(Math.abs(average(arithmetic) - average(expected))).toBeGreaterThan(1e-4);
  });

  // verl 0.9.1, compute_policy_loss_bypass_mode with loss_type reinforce: L = Σ −w·log π·A / tokens, with the weight of
  // the current policy to the engine: w = min(exp(Σ_t(log π − log π_rollout)), 2), the sum over the whole trajectory.
  test.each([false, true])(
    "bypass mode with the reinforce loss weighs by trajectory as verl's formula says (in two segments: %s)",
    async (twoSegments) => {
      const algorithm = grpo({
        old: 'behaviour',
        loss: algorithms.gpg().loss,
        correction: corrections.sequenceTruncated(2),
      });
      const { metrics, trajectories, logits } = await offPolicy(algorithm, twoSegments);
      const terms = trajectories.flatMap((tokens) => {
        const weight = Math.min(Math.exp(sum(tokens.map(({ logRatio }) => logRatio))), 2);
        return tokens.map(({ advantage, logprob }) => -weight * advantage * logprob);
      });
      expect(metrics['actor/pg_loss']).toBeCloseTo(average(terms), 6);
      const inOne = (await offPolicy(algorithm, false)).logits;
      logits.forEach((value, at) => {
        expect(value).toBeCloseTo(inOne[at]!, 6);
      });
    },
  );

  // The same function with loss_type ppo_clip: the clipped ratio to the engine, and no importance weights.
  test("bypass mode with the clipped loss takes its ratio to the engine as verl's formula says", async () => {
    const { metrics, trajectories } = await offPolicy(grpo({ old: 'behaviour' }));
    const terms = trajectories.flat().map(({ advantage, logRatio }) => {
      const ratio = Math.exp(Math.max(-20, Math.min(20, logRatio)));
      const clipped = Math.max(-advantage * ratio, -advantage * Math.max(0.8, Math.min(1.2, ratio)));
      return advantage < 0 ? Math.min(-advantage * 3, clipped) : clipped;
    });
    expect(metrics['actor/pg_loss']).toBeCloseTo(average(terms), 6);
  });

  test('rejected sequences leave the loss and its counts', async () => {
    const trainer = tabularPolicy();
    const groups = tabularGroups(tabularPolicy(11), { seed: 9 });
    const { metrics, notices } = await update({
      trainer,
      batch: batchOf(groups),
      algorithm: grpo({ correction: corrections.geometricRejection(0.9999999, 1.0000001) }),
    });
    expect(metrics['rollout_corr/rollout_rs_seq_masked_fraction']).toBe(1);
    expect(metrics['actor/updates']).toBe(0);
    expect(trainer.logits).toEqual(tabularPolicy().logits);
    expect(notices).toEqual([]);
  });
});

describe('what is reported', () => {
  test('groups without spread change nothing, cost no pass, and are said in words', async () => {
    const trainer = tabularPolicy();
    const groups = tabularGroups(trainer, { seed: 10 }).map((group) => ({
      ...group,
      attempts: group.attempts.map((attempt) => ({ ...attempt, reward: 1 })),
    }));
    const { metrics, notices } = await update({ trainer, batch: batchOf(groups) });
    expect(trainer.tokensForwarded).toBe(0);
    expect(trainer.logits).toEqual(tabularPolicy().logits);
    expect(metrics['training/groups_without_spread']).toBe(1);
    expect(notices[0]).toMatch(/all attempts at each task got the same reward/);
  });

  test('per token: advantages, and log-probs before the update', async () => {
    const trainer = tabularPolicy();
    const groups = tabularGroups(trainer, { seed: 11 });
    const { tokens } = await update({
      trainer,
      batch: batchOf(groups),
      optimizer: { ...OPTIMIZER, epochs: 2 },
    });
    expect(tokens).toHaveLength(12);
    const { segments } = groups[0]!.attempts[0]!.trajectory;
    tokens[0]!.logprobs!.forEach((logprob, at) => {
      expect(logprob).toBeCloseTo(segments[0]!.logprobs[at]!, 6);
    });
    expect(tokens[0]!.entropy!.some((entropy) => entropy > 1)).toBe(true);
  });

  test('progress ends where it should', async () => {
    const last: Record<string, [number, number]> = {};
    await update({
      trainer: tabularPolicy(),
      batch: batchOf(tabularGroups(tabularPolicy(), { seed: 12 })),
      optimizer: { ...OPTIMIZER, epochs: 2, miniBatches: 3 },
      onProgress: ({ phase, done, total }) => {
        last[phase] = [done, total];
      },
    });
    expect(last).toEqual({ old: [12, 12], actor: [24, 24] });
  });

  test('an aborted update throws the reason', async () => {
    const signal = AbortSignal.abort(new Error('enough'));
    const groups = tabularGroups(tabularPolicy(), { seed: 12 });
    await expect(update({ trainer: tabularPolicy(), batch: batchOf(groups), signal })).rejects.toThrow(
      'enough',
    );
  });
});

describe('PPO', () => {
  /** A policy that mostly repeats its task's number, and tasks of different worth: the token before tells the return. */
  const criticRun = async (algorithm: Algorithm, shared: boolean) => {
    const trainer = tabularPolicy();
    for (let token = 0; token < 6; token++) trainer.logits[7 * token] = 4;
    const before = trainer.logits.slice();
    const critic = shared ? trainer : tabularPolicy();
    const explained: number[] = [];
    for (let step = 1; step <= 30; step++) {
      const groups = tabularGroups(trainer, { seed: step, step }).map((group) => ({
        ...group,
        attempts: group.attempts.map((attempt) => ({
          ...attempt,
          reward: group.taskIndex + attempt.reward! / 10,
        })),
      }));
      const { metrics } = await update({
        trainer,
        critic,
        algorithm,
        batch: createBatch(groups, { step, version: 0, algorithm }),
        optimizer: { ...OPTIMIZER, adam: { ...ADAM, learningRate: 0.05 }, epochs: 2 },
        criticAdam: { ...ADAM, learningRate: 0.05 },
      });
      explained.push(metrics['critic/vf_explained_var']!);
    }
    return { explained: explained.slice(10, 20).reduce((a, b) => a + b) / 10, trainer, critic, before };
  };
  test('a separate critic comes to explain the returns', async () => {
    const { explained } = await criticRun(ppo(), false);
    expect(explained).toBeGreaterThan(0.5);
  });
  test('a critic makes its own passes and mini-batches', async () => {
    const updatesOf = async (own: Parameters<typeof ppo>[0]) => {
      const [trainer, critic, algorithm] = [tabularPolicy(), tabularPolicy(), ppo(own)];
      const batch = createBatch(tabularGroups(trainer, { seed: 3 }), { step: 1, version: 0, algorithm });
      await update({ trainer, critic, algorithm, batch, optimizer: { ...OPTIMIZER, miniBatches: 2 } });
      return { policy: trainer.steps, critic: critic.steps };
    };
    expect(await updatesOf({})).toEqual({ policy: 2, critic: 2 });
    expect(await updatesOf({ critic: { epochs: 3 } })).toEqual({ policy: 2, critic: 6 });
    expect(await updatesOf({ critic: { epochs: 3, miniBatches: 3 } })).toEqual({ policy: 2, critic: 9 });
  });
  test('so does a value head on the policy', async () => {
    const { explained } = await criticRun(ppo(), true);
    expect(explained).toBeGreaterThan(0.5);
  });
  test('while the critic warms up the policy stays as it is', async () => {
    const { trainer, critic, before } = await criticRun(ppo({ critic: { warmupSteps: 30 } }), false);
    expect(trainer.logits).toEqual(before);
    expect(critic.values.some((value) => value > 0.1)).toBe(true);
    const shared = await criticRun(ppo({ critic: { warmupSteps: 30 } }), true);
    expect(shared.trainer.logits).toEqual(shared.before);
    expect(shared.trainer.values.some((value) => value > 0.1)).toBe(true);
  });
});

test('a step without groups has finite metrics, and leaves the KL coefficient as it was', async () => {
  const trainer = tabularPolicy();
  const adaptive = { target: 0.1, horizon: 100 };
  for (const algorithm of [
    grpo({ kl: { as: 'reward', coefficient: 0.01, adaptive }, correction: corrections.tokenTruncated() }),
    ppo(),
  ]) {
    const { metrics, state, notices } = await update({
      trainer,
      critic: tabularPolicy(),
      reference: tabularPolicy(),
      batch: batchOf([], algorithm),
      algorithm,
      state: { watched: {}, klCoefficient: 0.02 },
    });
    expect(metrics['actor/updates']).toBe(0);
    expect(Object.entries(metrics).filter(([, value]) => !Number.isFinite(value))).toEqual([]);
    if (algorithm.kl) expect(state.klCoefficient).toBe(0.02);
    expect(notices).toEqual([]);
  }
});

test('prompts are scored with the new weights, in the pass that sees whether the update broke them', async () => {
  const trainer = tabularPolicy();
  const batch = batchOf(tabularGroups(trainer, { seed: 1, tasks: 3, attempts: 8, version: 0, step: 1 }));
  const prompts = [Int32Array.from([0, 1, 2]), Int32Array.from([2, 1])];
  const outputs = ['logprob'] as const;
  const scored: number[] = [];
  const counting: Trainer = Object.assign(Object.create(trainer), {
    score: (rows: readonly Row[], how: Parameters<Trainer['score']>[1]) => {
      scored.push(rows.length);
      return trainer.score(rows, how);
    },
  });
  const { promptLogprobs } = await update({ trainer: counting, batch, prompts });
  expect(scored).toEqual([1 + prompts.length]);
  const rows = prompts.map((ids) => ({ ids, targets: Uint8Array.from(ids, (_, at) => (at > 0 ? 1 : 0)) }));
  expect(promptLogprobs).toEqual((await trainer.score(rows, { temperature: 1, outputs })).logprob);
  const warm = await update({ trainer, batch, prompts, temperature: 0.7 });
  expect(warm.promptLogprobs).toBeUndefined();
});
