import { expect, test } from 'vitest';
import type { AdvantageOptions, AdvantageTrajectory } from './advantages/advantage.ts';
import { overlongPenalty } from './batch.ts';
import { correct } from './correction.ts';
import { adaptKlCoefficient, estimateKl } from './kl.ts';
import { type Aggregation, tokenWeight } from './losses/aggregation.ts';
import type { LossInput, LossOptions } from './losses/loss.ts';
import { openAdvantage, openLoss } from './parts.ts';
import { rolloutGap } from './rollout-gap.ts';
import { mean } from './statistics.ts';

/** Small examples with published or hand-computed answers, most of them from verl's own tests. */

const estimateAdvantages = (trajectories: readonly AdvantageTrajectory[], options: AdvantageOptions) =>
  openAdvantage(options).estimate(trajectories);
const computeLoss = (input: LossInput, options: LossOptions) => openLoss(options).compute(input);
const floats = (...list: number[]) => Float64Array.from(list);
const close = (actual: ArrayLike<number>, expected: readonly number[]) => {
  expect(actual.length).toBe(expected.length);
  expected.forEach((value, i) => {
    expect(actual[i]).toBeCloseTo(value, 6);
  });
};

const attempt = (group: number, reward: number, tokens = 1, more: Partial<AdvantageTrajectory> = {}) => {
  const tokenRewards = new Float64Array(tokens);
  tokenRewards[tokens - 1] = reward;
  return { group, rewards: {}, reward, tokenRewards, turns: new Int32Array(tokens).fill(1), ...more };
};
const firsts = (trajectories: readonly AdvantageTrajectory[], options: AdvantageOptions) =>
  estimateAdvantages(trajectories, options).advantages.map((list) => list[0]!);
const group = (...rewards: number[]) => rewards.map((reward) => attempt(0, reward));

test('one group, rewards 1 0 0 1', () => {
  close(
    firsts(group(1, 0, 0, 1), { kind: 'grpo', normalizeByStd: true }),
    [0.8660239, -0.8660239, -0.8660239, 0.8660239],
  );
  close(firsts(group(1, 0, 0, 1), { kind: 'grpo', normalizeByStd: false }), [0.5, -0.5, -0.5, 0.5]);
  close(firsts(group(1, 0, 0, 1), { kind: 'rloo' }), [2 / 3, -2 / 3, -2 / 3, 2 / 3]);
});

test('pass@k pushes the best by its lead; OPO weighs by length; GPG scales by the share with a reward', () => {
  close(firsts(group(0.2, 0.9, 0.5), { kind: 'pass@k', normalizeByStd: true }), [0, 1.1389864, 0]);
  close(firsts(group(0.2, 0.9, 0.5), { kind: 'pass@k', normalizeByStd: false }), [0, 0.4, 0]);
  close(firsts([attempt(0, 1, 2), attempt(0, 0, 4), attempt(0, 1, 6)], { kind: 'opo' }), [
    1 / 3,
    -2 / 3,
    1 / 3,
  ]);
  close(firsts(group(1, 0, 0, 0), { kind: 'gpg', norm: 1 }), [3, -1, -1, -1]);
});

test('MaxRL divides by the rate of success', () => {
  const advantages = (...rewards: number[]) => firsts(group(...rewards), { kind: 'max-rl' });
  const closeTo = (actual: readonly number[], expected: readonly number[]) => {
    actual.forEach((value, i) => {
      expect(value).toBeCloseTo(expected[i]!, 4);
    });
  };
  closeTo(advantages(1, 0, 0, 0), [3, -1, -1, -1]);
  closeTo(advantages(1, 1, 1, 0), [1 / 3, 1 / 3, 1 / 3, -1]);
  expect(advantages(0, 0, 0, 0)).toEqual([0, 0, 0, 0]);
  expect(() => advantages(1, -0.5)).toThrow(/needs rewards of 0 and more, but a trajectory has -0.5/);
});

test('an attempt that is alone in its group has no advantage', () => {
  for (const kind of [
    'grpo',
    'rloo',
    'opo',
    'gpg',
    'max-rl',
    'pass@k',
    'turn-grpo',
    'process-grpo',
  ] as const) {
    const options = { kind, normalizeByStd: true, norm: 1, discount: 1, compare: 'turn' } as AdvantageOptions;
    expect(firsts([attempt(0, 0.7), attempt(1, 1), attempt(1, 0)], options)[0]).toBe(0);
  }
});

test('GAE goes from trained token to trained token, over observations', () => {
  const trajectory = attempt(0, 0, 5, {
    tokenRewards: floats(0.1, 0.1, 0.1, 0.1, 1), // the rewards at masked-in positions of the example
    values: floats(4, 5, 6, 7, 9),
  });
  const plain = estimateAdvantages([trajectory], { kind: 'gae', discount: 1, lambda: 1 });
  close(plain.returns![0]!, [1.4, 1.3, 1.2, 1.1, 1.0]);
  close(plain.advantages[0]!, [1.1540329, 0.6251011, 0.0961694, -0.4327623, -1.4425411]);
  const discounted = estimateAdvantages([trajectory], { kind: 'gae', discount: 0.9, lambda: 0.95 });
  close(discounted.returns![0]!, [1.7947612, 1.719019, 1.5778, 1.36, 1]);
  close(discounted.advantages[0]!, [1.1175729, 0.6375383, 0.1282856, -0.4151403, -1.4682565]);
});

test('REINFORCE++ discounts by trained token and whitens over the batch', () => {
  const single = attempt(0, 2, 3);
  expect([...estimateAdvantages([single], { kind: 'reinforce++', discount: 0.5 }).returns![0]!]).toEqual([
    0.5, 1, 2,
  ]);
  const batch = [attempt(0, 1, 3), attempt(1, -1, 3)];
  close(firsts(batch, { kind: 'reinforce++', discount: 1 }), [0.9128709, -0.9128709]);
  const half = estimateAdvantages(batch, { kind: 'reinforce++', discount: 0.5 });
  close(half.advantages[0]!, [0.3450328, 0.6900656, 1.3801311]);
});

test('the clipped policy loss, with dual clip', () => {
  const input = {
    old: new Float64Array(6).fill(-1),
    logprobs: floats(0, 0.3, -0.3, 0.3, -0.3, 1.5).map((delta) => delta - 1),
    advantages: floats(1, 1, 1, -1, -1, -1),
  };
  const even = computeLoss(input, { kind: 'clip', low: 0.2, high: 0.2, dual: 3 });
  close(even.loss, [-1, -1.2, -0.7408182, 1.3498588, 0.8, 3]);
  expect(mean(even.loss)).toBeCloseTo(0.3681734, 6);
  expect(mean(even.clipped)).toBeCloseTo(1 / 3, 9);
  expect(mean(even.clippedLower)).toBeCloseTo(1 / 6, 9);
  const higher = computeLoss(input, { kind: 'clip', low: 0.2, high: 0.28, dual: 10 });
  expect(mean(higher.loss)).toBeCloseTo(0.6017883, 6);
  expect(mean(higher.clippedLower)).toBe(0);
});

test('GSPO and CISPO on two sequences', () => {
  const sequences = [
    { logprobs: floats(-1.2, -0.7, -0.5), old: floats(-1, -1, -1), advantages: floats(1, 1, 1) },
    { logprobs: floats(-2, -1), old: floats(-1.5, -1.5), advantages: floats(-1, -1) },
  ];
  const gspo = sequences.map((input) => computeLoss(input, { kind: 'gspo', low: 0.2, high: 0.2 }));
  expect(mean(gspo.map(({ loss }) => mean(loss)))).toBeCloseTo(-0.1, 9);
  expect(mean(gspo.flatMap(({ clipped }) => [...clipped]))).toBeCloseTo(0.6, 9);
  const cispo = sequences.map((input) => computeLoss(input, { kind: 'cispo', low: 0.2, high: 0.28 }));
  expect(mean(cispo.flatMap(({ loss }) => [...loss]))).toBeCloseTo(-0.0723046, 6);
  expect(mean(cispo.flatMap(({ clipped }) => [...clipped]))).toBeCloseTo(0.8, 9);
});

test("SAPO's gate is 2 at ratio 1 and has slope 1 there", () => {
  const gate = (ratio: number, advantage: number) => {
    const input = { logprobs: floats(Math.log(ratio)), old: floats(0), advantages: floats(advantage) };
    return computeLoss(input, { kind: 'sapo', positive: 1, negative: 1.05 });
  };
  expect(gate(1, 1).loss[0]).toBeCloseTo(-2, 9);
  expect(gate(1, 1).gradient[0]).toBeCloseTo(-1, 9);
  expect(gate(1.5, 1).loss[0]).toBeCloseTo(-2.4898373, 6);
  expect(gate(0.5, -1).loss[0]).toBeCloseTo(1.4159383, 6);
});

test('aggregations', () => {
  const losses = [
    [1, 2],
    [10, 20, 30, 40],
  ];
  const counts = { tokens: 6, sequences: 2 };
  const total = (aggregation: Aggregation) =>
    losses.reduce(
      (sum, list) => sum + list.reduce((a, b) => a + b) * tokenWeight(aggregation, list.length, counts),
      0,
    );
  expect(total({ kind: 'token-mean' })).toBeCloseTo(17.1666667, 6);
  expect(total({ kind: 'token-sum' })).toBe(103);
  expect(total({ kind: 'sequence-mean-token-sum' })).toBe(51.5);
  expect(total({ kind: 'sequence-mean-token-sum-norm', divisor: 4 })).toBe(12.875);
  expect(total({ kind: 'sequence-mean-token-mean' })).toBe(13.25);
});

test('KL estimates, and the adaptive coefficient', () => {
  const pairs = [
    [-1, -1.5],
    [-2, -1],
    [-0.5, -0.5],
    [-30, -2],
  ] as const;
  const values = (name: 'k1' | 'k2' | 'k3') => pairs.map(([a, b]) => estimateKl(a, b, name).value);
  close(values('k1'), [0.5, -1, 0, -28]);
  close(values('k2'), [0.125, 0.5, 0, 392]);
  close(values('k3'), [0.1065307, 0.7182818, 0, 10]);
  const adapt = (kl: number) => adaptKlCoefficient(0.001, kl, 256, { target: 0.1, horizon: 10_000 });
  expect(adapt(0.3)).toBeCloseTo(0.00100512, 10);
  expect(adapt(0.05)).toBeCloseTo(0.00099488, 10);
  expect(adapt(0.11)).toBeCloseTo(0.00100256, 10);
});

test('truncated importance weights and what is reported of them', () => {
  const sequences = [floats(0.5, 1, 4), floats(2, 2)].map((ratios) => ({
    logRatios: ratios.map(Math.log),
    ages: new Float64Array(ratios.length),
  }));
  const token = correct(sequences, {
    weights: { level: 'token', outside: 'truncate', bounds: [0, 2], normalize: false },
  });
  close(token.weights[0]!, [0.5, 1, 2]);
  close(token.weights[1]!, [2, 2]);
  expect(token.metrics['rollout_corr/rollout_is_mean']).toBeCloseTo(1.5, 9);
  expect(token.metrics['rollout_corr/rollout_is_eff_sample_size']).toBeCloseTo(0.8490566, 6);
  const sequence = correct(sequences, {
    weights: { level: 'sequence', outside: 'truncate', bounds: [0, 2], normalize: false },
  });
  close(sequence.weights[0]!, [2, 2, 2]);
  close(sequence.weights[1]!, [2, 2]);
  const gap = rolloutGap(
    sequences.map(({ logRatios }) => logRatios.map((logRatio) => logRatio - 5)),
    sequences.map(({ logRatios }) => logRatios.map(() => -5)),
  );
  expect(gap['rollout_corr/chi2_token']).toBeCloseTo(4.05, 9);
  expect(gap['rollout_corr/kl']).toBeCloseTo(-0.4158883, 6);
  expect(gap['rollout_corr/k3_kl']).toBeCloseTo(0.4841117, 6);
  expect(gap['rollout_corr/chi2_seq']).toBeCloseTo(9, 9);
});

test('masked importance weights (IcePop), and rejection with bounds on rollout over trainer', () => {
  const iced = correct([{ logRatios: floats(0.4, 0.8, 6).map(Math.log), ages: new Float64Array(3) }], {
    weights: { level: 'token', outside: 'mask', bounds: [0.5, 5], normalize: false },
  });
  close(iced.weights[0]!, [0, 0.8, 0]);
  expect(iced.metrics['rollout_corr/rollout_is_oob_ratio']).toBeCloseTo(2 / 3, 9);
  expect(iced.metrics['rollout_corr/rollout_is_std']).toBeCloseTo(0.3771236, 6);
  expect(iced.metrics['rollout_corr/rollout_is_eff_sample_size']).toBeCloseTo(1 / 3, 9);
  const rows = [
    { logRatios: floats(-1, -1), ages: new Float64Array(2) },
    { logRatios: floats(0.5, 0.5), ages: new Float64Array(2) },
  ];
  const rejected = correct(rows, {
    weights: { level: 'token', outside: 'truncate', bounds: [0, 2], normalize: false },
    rejection: [{ statistic: 'token-k1', bounds: [0.5, 2] }],
  });
  close(rejected.weights[0]!, [0.3678794, 0.3678794]);
  close(rejected.weights[1]!, [1.6487213, 1.6487213]);
  expect(rejected.keep.map((list) => [...list])).toEqual([
    [0, 0],
    [1, 1],
  ]);
  expect(rejected.metrics['rollout_corr/rollout_rs_masked_fraction']).toBe(0.5);
});

test('a sequence counts as high by the mean of its raw weights', () => {
  const rows = [floats(1, 6), floats(0.9, 1.1)].map((ratios) => ({
    logRatios: ratios.map(Math.log),
    ages: new Float64Array(2),
  }));
  const { metrics } = correct(rows, {
    weights: { level: 'token', outside: 'truncate', bounds: [0, 2], normalize: false },
  });
  expect(metrics['rollout_corr/rollout_is_seq_fraction_high']).toBe(0.5);
});

test('a token weighs half as much for every half-life of versions, and nothing when too old', () => {
  const { weights, keep } = correct([{ logRatios: floats(0, 0, 0), ages: floats(0, 2, 5) }], {
    staleness: { halfLifeVersions: 2, maxVersions: 4 },
  });
  close(weights[0]!, [1, 0.5, 2 ** -2.5]);
  expect([...keep[0]!]).toEqual([1, 1, 0]);
});

test("DAPO's penalty on length", () => {
  const overlong = { maxTokens: 20480, bufferTokens: 4096, penalty: 1 };
  expect([16384, 18432, 20480].map((tokens) => overlongPenalty(tokens, overlong))).toEqual([-0, -0.5, -1]);
  expect(overlongPenalty(4, { maxTokens: 4, bufferTokens: 2, penalty: 1 })).toBe(-1);
  expect(overlongPenalty(10_000, overlong)).toBe(0);
});
