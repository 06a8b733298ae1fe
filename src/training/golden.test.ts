import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { createRandom } from '../lib/random.ts';
import type { AdvantageOptions, AdvantageTrajectory } from './advantages/advantage.ts';
import { type CorrectionOptions, correct, type RejectionStatistic } from './correction.ts';
import { estimateKl, type KlEstimator } from './kl.ts';
import type { LossInput, LossOptions } from './losses/loss.ts';
import { valueLoss } from './losses/value.ts';
import { openAdvantage, openLoss } from './parts.ts';
import { rolloutGap } from './rollout-gap.ts';

/** Numbers of test/golden/algorithms/golden.py: the published formulae, in another language and another form. */
type Lists = number[][];
interface LossCase {
  logprobs: number[];
  old: number[];
  advantages: number[];
  loss: number[];
  gradient: number[];
}
interface Terms {
  loss: number[];
  gradient: number[];
}
const golden = JSON.parse(
  readFileSync(new URL('../../test/golden/algorithms/golden.json', import.meta.url), 'utf8'),
) as {
  advantages: {
    input: {
      group: number[];
      reward: number[];
      rewards: Record<string, number[]>;
      baseline: number[];
      values: Lists;
      logprobs: Lists;
      sumSquares: Lists;
      turns: Lists;
      turnRewards: Lists;
    };
    expected: Record<string, Lists>;
  };
  losses: Record<string, LossCase[]>;
  klCov: {
    logprobs: Lists;
    old: Lists;
    advantages: Lists;
    fraction: number;
    coefficient: number;
    picked: Lists;
    loss: Lists;
    gradient: Lists;
  };
  clipCov: { fraction: number; covariance: [number, number]; count: number; eligible: Lists };
  value: { values: number[]; old: number[]; returns: number[]; 'clip 0.5': Terms; 'clip 0': Terms };
  kl: {
    logprobs: number[];
    reference: number[];
    expected: Record<KlEstimator, { value: number[]; gradient: number[] }>;
  };
  correction: {
    old: Lists;
    rollout: Lists;
    bounds: Record<'k1' | 'k2' | 'k3', [number, number]>;
    keep: Record<RejectionStatistic, Lists>;
    gap: Record<string, number>;
  } & Record<string, Lists>;
};

const computeLoss = (input: LossInput, options: LossOptions) => openLoss(options).compute(input);
const floats = (list: readonly number[]) => Float64Array.from(list);

function expectClose(actual: ArrayLike<number>, expected: ArrayLike<number>, tolerance = 1e-9): void {
  expect(actual.length).toBe(expected.length);
  for (let i = 0; i < expected.length; i++) {
    const scale = Math.max(1, Math.abs(expected[i]!));
    expect(
      Math.abs(actual[i]! - expected[i]!) / scale,
      `at ${i}: ${actual[i]} for ${expected[i]}`,
    ).toBeLessThan(tolerance);
  }
}

describe('advantages equal the formulae', () => {
  const { input, expected } = golden.advantages;
  const trajectories = (withTurns: boolean) =>
    input.group.map((group, i): AdvantageTrajectory => {
      const tokenRewards = floats(withTurns ? input.turnRewards[i]! : input.turnRewards[i]!.map(() => 0));
      tokenRewards[tokenRewards.length - 1]! += input.reward[i]!;
      return {
        group,
        rewards: Object.fromEntries(Object.entries(input.rewards).map(([name, list]) => [name, list[i]!])),
        tokenRewards,
        reward: tokenRewards.reduce((a, b) => a + b),
        baseline: input.baseline[i]!,
        turns: Int32Array.from(input.turns[i]!),
        logprobs: floats(input.logprobs[i]!),
        sumSquares: floats(input.sumSquares[i]!),
        values: floats(input.values[i]!),
      };
    });
  const cases: Record<string, AdvantageOptions> = {
    grpo: { kind: 'grpo', normalizeByStd: true },
    'grpo without std': { kind: 'grpo', normalizeByStd: false },
    rloo: { kind: 'rloo' },
    opo: { kind: 'opo' },
    gpg: { kind: 'gpg', norm: 1.5 },
    'pass@k': { kind: 'pass@k', normalizeByStd: true },
    'pass@k without std': { kind: 'pass@k', normalizeByStd: false },
    gdpo: { kind: 'gdpo', weights: { correct: 2, format: 0.5 } },
    'reinforce++': { kind: 'reinforce++', discount: 0.8 },
    'reinforce++-baseline': { kind: 'reinforce++-baseline' },
    remax: { kind: 'remax' },
    gae: { kind: 'gae', discount: 0.9, lambda: 0.95 },
    'optimal-token-baseline': { kind: 'optimal-token-baseline' },
    'turn-grpo turn': { kind: 'turn-grpo', discount: 0.9, compare: 'turn', normalizeByStd: true },
    'turn-grpo group': { kind: 'turn-grpo', discount: 0.9, compare: 'group', normalizeByStd: false },
    'process-grpo': { kind: 'process-grpo', normalizeByStd: true },
  };
  test.each(Object.entries(cases))('%s', (name, options) => {
    const { advantages, returns } = openAdvantage(options).estimate(trajectories(/turn|process/.test(name)));
    advantages.forEach((list, i) => {
      expectClose(list, expected[name]![i]!);
    });
    if (name === 'gae') {
      returns!.forEach((list, i) => {
        expectClose(list, expected['gae returns']![i]!);
      });
    }
  });
  test('none is left out', () => {
    expect(new Set([...Object.keys(cases), 'gae returns'])).toEqual(new Set(Object.keys(expected)));
  });
});

describe('losses and their gradients equal the formulae', () => {
  const cases: Record<string, LossOptions> = {
    clip: { kind: 'clip', low: 0.2, high: 0.28, dual: 3 },
    'clip without dual': { kind: 'clip', low: 0.2, high: 0.2 },
    gspo: { kind: 'gspo', low: 0.1, high: 0.15 },
    gmpo: { kind: 'gmpo', low: 0.2, high: 0.3 },
    cispo: { kind: 'cispo', low: 0.2, high: 0.28 },
    sapo: { kind: 'sapo', positive: 1, negative: 1.05 },
    reinforce: { kind: 'reinforce' },
    dro: { kind: 'dro', beta: 0.3 },
    'dppo tv': { kind: 'dppo', divergence: 'tv', low: 0.1, high: 0.05, cap: 1.5 },
    'dppo kl': { kind: 'dppo', divergence: 'kl', low: 0.1, high: 0.05, cap: 1.5 },
  };
  test.each(Object.entries(cases))('%s', (name, options) => {
    for (const example of golden.losses[name]!) {
      const output = computeLoss(
        {
          logprobs: floats(example.logprobs),
          old: floats(example.old),
          advantages: floats(example.advantages),
        },
        options,
      );
      expectClose(output.loss, example.loss);
      expectClose(output.gradient, example.gradient);
    }
  });
  test('none is left out', () => {
    expect(new Set(Object.keys(cases))).toEqual(new Set(Object.keys(golden.losses)));
  });

  const { klCov } = golden;
  const inputs = klCov.logprobs.map((logprobs, i) => ({
    logprobs: floats(logprobs),
    old: floats(klCov.old[i]!),
    advantages: floats(klCov.advantages[i]!),
  }));
  test('KL-Cov picks the tokens of largest covariance, and ties only them', () => {
    const options = { kind: 'kl-cov', fraction: klCov.fraction, coefficient: klCov.coefficient } as const;
    const picked = openLoss(options).pick!(inputs, createRandom(1));
    expect(picked.map((list) => [...list])).toEqual(klCov.picked);
    inputs.forEach((input, i) => {
      const output = computeLoss({ ...input, picked: picked[i]! }, options);
      expectClose(output.loss, klCov.loss[i]!);
      expectClose(output.gradient, klCov.gradient[i]!);
    });
  });
  test('Clip-Cov picks as many as it should among those it may, and they lose loss and gradient', () => {
    const { fraction, covariance, count, eligible } = golden.clipCov;
    const options = { kind: 'clip-cov', low: 0.2, high: 0.2, fraction, covariance } as const;
    const picked = openLoss(options).pick!(inputs, createRandom(1));
    expect(picked.flatMap((list) => [...list]).filter((mark) => mark)).toHaveLength(count);
    inputs.forEach((input, i) => {
      const output = computeLoss({ ...input, picked: picked[i]! }, options);
      picked[i]!.forEach((mark, t) => {
        if (!mark) return;
        expect(eligible[i]![t]).toBe(1);
        expect([output.loss[t], output.gradient[t]]).toEqual([0, 0]);
      });
    });
  });
  test.each(['clip 0.5', 'clip 0'] as const)('value loss, %s', (name) => {
    const { values, old, returns } = golden.value;
    const clip = Number(name.slice(5));
    const output = valueLoss(
      { values: floats(values), old: floats(old), returns: floats(returns) },
      { clip },
    );
    expectClose(output.loss, golden.value[name].loss);
    expectClose(output.gradient, golden.value[name].gradient);
  });
});

test.each(Object.keys(golden.kl.expected) as KlEstimator[])(
  'the KL estimate %s equals the formula',
  (name) => {
    const { logprobs, reference, expected } = golden.kl;
    const estimates = logprobs.map((logprob, t) => estimateKl(logprob, reference[t]!, name));
    expectClose(
      estimates.map(({ value }) => value),
      expected[name].value,
    );
    expectClose(
      estimates.map(({ gradient }) => gradient),
      expected[name].gradient,
    );
  },
);

describe('off-policy correction equals the formulae', () => {
  const { old, rollout, bounds, keep, gap } = golden.correction;
  const sequences = old.map((list, i) => ({
    logRatios: floats(list.map((logprob, t) => logprob - rollout[i]![t]!)),
    ages: new Float64Array(list.length),
  }));
  const weights: Record<string, NonNullable<CorrectionOptions['weights']>> = {
    'token truncate 1.5': { level: 'token', outside: 'truncate', bounds: [0, 1.5], normalize: false },
    'sequence truncate 1.5': { level: 'sequence', outside: 'truncate', bounds: [0, 1.5], normalize: false },
    'token mask 0.7 1.6': { level: 'token', outside: 'mask', bounds: [0.7, 1.6], normalize: false },
    'token truncate 1.5 normalized': {
      level: 'token',
      outside: 'truncate',
      bounds: [0, 1.5],
      normalize: true,
    },
    'sequence truncate 1.5 normalized': {
      level: 'sequence',
      outside: 'truncate',
      bounds: [0, 1.5],
      normalize: true,
    },
  };
  test.each(Object.entries(weights))('weights: %s', (name, options) => {
    correct(sequences, { weights: options }).weights.forEach((list, i) => {
      expectClose(list, golden.correction[name]![i]!);
    });
  });
  test.each(Object.keys(keep) as RejectionStatistic[])('rejection: %s', (statistic) => {
    const estimator = statistic.slice(-2) as 'k1' | 'k2' | 'k3';
    const corrected = correct(sequences, { rejection: [{ statistic, bounds: bounds[estimator] }] });
    expect(corrected.keep.map((list) => [...list])).toEqual(keep[statistic]);
  });
  test('the gap between engine and trainer', () => {
    const metrics = rolloutGap(old.map(floats), rollout.map(floats));
    for (const [name, value] of Object.entries(gap)) expectClose([metrics[name]!], [value]);
  });
});
