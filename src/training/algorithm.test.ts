import { describe, expect, test } from 'vitest';
import { tabularGroups, tabularPolicy } from '../../testing/tabular-task.ts';
import { ConfigError } from '../errors.ts';
import type { Group } from '../types.ts';
import { type Algorithm, keepGroup } from './algorithm.ts';
import type { AlgorithmSetting } from './algorithm-setting.ts';
import * as algorithms from './algorithms.ts';
import { checkAlgorithm } from './check-algorithm.ts';
import { corrections } from './correction.ts';

const { gpg, grpo, ppo } = algorithms;
const everything: AlgorithmSetting = {
  can: new Set(['entropy', 'value', 'sumSquares', 'temperature'] as const),
  criticCan: new Set(['value'] as const),
  attemptsPerTask: 8,
  tokensPerTrajectory: 100,
  rewardNames: ['correct'],
};

test('every algorithm passes with a trainer that can everything', () => {
  const { gdpo, ...others } = algorithms;
  const all = [gdpo({ weights: { correct: 1 } }), ...Object.values(others).map((make) => make())];
  for (const algorithm of all) expect(() => checkAlgorithm(algorithm, everything)).not.toThrow();
});

test('an algorithm is plain data: JSON gives it back', () => {
  const { gdpo, ...others } = algorithms;
  for (const algorithm of [gdpo({ weights: { a: 2 } }), ...Object.values(others).map((make) => make())]) {
    expect(JSON.parse(JSON.stringify(algorithm))).toEqual(algorithm);
  }
});

describe('what cannot work is refused before the run', () => {
  const can = new Set(['temperature'] as const);
  const cases: [string, Algorithm, Partial<AlgorithmSetting>, RegExp][] = [
    [
      'one attempt',
      grpo(),
      { attemptsPerTask: 1 },
      /attemptsPerTask is 1, but GRPO compares attempts at one task; use 2 or more/,
    ],
    ['no entropy', grpo({ entropyBonus: 0.01 }), { can }, /entropy bonus, but this trainer gives no entropy/],
    ['no Σπ²', algorithms.optimalTokenBaseline(), { can }, /needs Σπ²/],
    [
      'no temperature',
      grpo(),
      { can: new Set(), temperature: 0.7 },
      /temperature is 0.7, but this trainer scores at 1 only/,
    ],
    ['no value head', ppo(), { criticCan: new Set() }, /no value head/],
    ['low clip of 1', grpo({ clip: 1 }), {}, /lets a ratio fall to 0/],
    ['dual clip of 1', grpo({ dualClip: 1 }), {}, /dualClip is 1/],
    ['no length to divide by', { ...algorithms.drGrpo() }, { tokensPerTrajectory: 0 }, /give divisor/],
    ['full KL', grpo({ kl: { estimator: 'full' as 'k1' } }), {}, /'full' needs whole distributions/],
    ['adaptive KL loss', grpo({ kl: { adaptive: { target: 0.1, horizon: 100 } } }), {}, /adaptive KL/],
    [
      'twice corrected',
      grpo({ old: 'behaviour', correction: corrections.tokenTruncated() }),
      {},
      /count it twice/,
    ],
    [
      'normalised in the pass',
      gpg({
        old: 'behaviour',
        correction: { weights: { level: 'sequence', outside: 'truncate', bounds: [0, 2], normalize: true } },
      }),
      {},
      /no mean over the batch is known; use normalize: false/,
    ],
    ['refills', grpo({ dynamicSampling: { maxRefills: -2 } }), {}, /maxRefills is -2; use a whole number/],
    [
      'rejection bounds',
      grpo({ correction: { rejection: [{ statistic: 'token-k1', bounds: [2, 1] }] } }),
      {},
      /token-k1 has the bounds 2 to 1/,
    ],
    [
      'unknown rejection',
      grpo({ correction: { rejection: [{ statistic: 'token_k1' as 'token-k1', bounds: [0.5, 2] }] } }),
      {},
      /rejection by 'token_k1' is not known; use one of token-k1/,
    ],
    [
      'buffer too long',
      grpo({ overlong: { maxTokens: 10, bufferTokens: 20, penalty: 1 } }),
      {},
      /buffer is 20 of 10/,
    ],
    [
      'unknown reward',
      algorithms.gdpo({ weights: { style: 1 } }),
      {},
      /weighs the reward 'style', but the run has correct/,
    ],
    [
      'a loss that is not known',
      grpo({ loss: { kind: 'clipp' } }),
      {},
      /no loss of kind "clipp"; did you mean "clip"/,
    ],
    ['a bad setting as data', grpo({ loss: { kind: 'dro', beta: 0 } }), {}, /the loss dro: beta is 0; use/],
  ];
  test.each(cases)('%s', (_, algorithm, setting, message) => {
    const check = () => checkAlgorithm(algorithm, { ...everything, ...setting });
    expect(check).toThrow(ConfigError);
    expect(check).toThrow(message);
  });
  test('a setting that is wrong alone is refused where the algorithm is made', () => {
    expect(() => grpo({ clip: -0.1 })).toThrow('GRPO: low is -0.1; use a number of 0 or more');
    expect(() => algorithms.dro({ beta: 0 })).toThrow('DRO: beta is 0; use a number above 0');
  });
  test('GAE without a critic', () => {
    const { critic: _, ...headless } = ppo();
    expect(() => checkAlgorithm(headless, everything)).toThrow(/use ppo\(\)/);
  });
  test('one attempt is enough where nothing is compared', () => {
    for (const algorithm of [ppo(), algorithms.reinforcePlusPlus(), algorithms.remax()]) {
      expect(() => checkAlgorithm(algorithm, { ...everything, attemptsPerTask: 1 })).not.toThrow();
    }
  });
});

describe('dynamic sampling keeps a group', () => {
  const [group] = tabularGroups(tabularPolicy(), { seed: 1 }) as [Group];
  const rewarded = (...rewards: (number | undefined)[]): Group => ({
    ...group,
    attempts: rewards.map((reward, i) => ({
      ...group.attempts[i]!,
      reward,
      rewards: reward === undefined ? {} : { exact: Math.floor(reward) },
    })),
  });
  test('whose attempts differ', () => {
    expect(keepGroup(rewarded(1, 1, 0, 1), { metric: 'reward' })).toBe(true);
    expect(keepGroup(rewarded(1, 1, 1, 1), { metric: 'reward' })).toBe(false);
  });
  test('by the named reward', () => {
    expect(keepGroup(rewarded(0.5, 0.7), { metric: 'reward' })).toBe(true);
    expect(keepGroup(rewarded(0.5, 0.7), { metric: 'exact' })).toBe(false);
    expect(() => keepGroup(rewarded(0.5, 0.7), { metric: 'acc' })).toThrow(
      /looks at the reward 'acc'.*it has exact/,
    );
  });
  test('without counting failed attempts', () => {
    expect(keepGroup(rewarded(1, undefined, undefined, 1), { metric: 'reward' })).toBe(false);
    expect(keepGroup(rewarded(1, undefined, undefined, undefined), { metric: 'reward' })).toBe(false);
  });
  test('of a single attempt always', () => {
    expect(keepGroup(rewarded(1), { metric: 'reward' })).toBe(true);
  });
});
