import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { resolveRun } from '../src/options/resolve-run.ts';
import { KNOWN_OPTIONS } from '../src/options/schema.ts';
import type { Algorithm } from '../src/training/algorithm.ts';
import * as algorithms from '../src/training/algorithms.ts';
import { checkAlgorithm } from '../src/training/check-algorithm.ts';
import { corrections } from '../src/training/correction.ts';
import { describedAlgorithm } from '../src/training/described-algorithm.ts';
import { ALGORITHMS, LOSSES } from '../src/training/parts.ts';

const folder = mkdtempSync(join(tmpdir(), 'rollcall-assemble-'));
const file = join(folder, 'run.yaml');

/** From the words of a command line, or of a YAML file, to the value that `train()` takes. */
async function assemble(overrides: readonly string[], yaml?: string) {
  if (yaml !== undefined) writeFileSync(file, yaml);
  const run = await resolveRun({
    overrides,
    environment: {},
    exists: () => true,
    ...(yaml === undefined ? {} : { file }),
  });
  expect(run.refused).toEqual([]);
  const warnings: string[] = [];
  const algorithm = describedAlgorithm(run.options.algorithm, {
    tokensPerTrajectory: 1000,
    warn: (line) => warnings.push(line),
  });
  return { algorithm, warnings, notes: run.notes };
}
const unnamed = ({ name, ...rest }: Algorithm) => rest;

const actor = 'actor_rollout_ref.actor';
const lossMode = (mode: string, ...more: string[]) => [
  'algorithm.adv_estimator=grpo',
  `${actor}.policy_loss.loss_mode=${mode}`,
  ...more,
];
const clip = (low: number, high: number) => [
  `${actor}.clip_ratio_low=${low}`,
  `${actor}.clip_ratio_high=${high}`,
];

/** Each algorithm as a program writes it, and as verl's keys say it; verl has no step-level GRPO and no MaxRL. */
interface Known {
  value: Algorithm;
  ours?: readonly string[];
  verl: readonly string[] | 'not in verl';
}
const FAMILY: Record<string, Known> = {
  grpo: { value: algorithms.grpo(), verl: ['algorithm.adv_estimator=grpo'] },
  'dr-grpo': {
    value: algorithms.drGrpo(),
    verl: [
      'algorithm.adv_estimator=grpo',
      'algorithm.norm_adv_by_std_in_grpo=False',
      `${actor}.loss_agg_mode=seq-mean-token-sum-norm`,
    ],
  },
  dapo: {
    value: algorithms.dapo(),
    verl: [
      'algorithm.adv_estimator=grpo',
      'algorithm.filter_groups.enable=True',
      'algorithm.filter_groups.metric=seq_final_reward',
      'algorithm.filter_groups.max_num_gen_batches=11',
      `${actor}.clip_ratio_c=10.0`,
      ...clip(0.2, 0.28),
    ],
  },
  rloo: { value: algorithms.rloo(), verl: ['algorithm.adv_estimator=rloo'] },
  'reinforce++': {
    value: algorithms.reinforcePlusPlus(),
    verl: ['algorithm.adv_estimator=reinforce_plus_plus'],
  },
  'reinforce++-baseline': {
    value: algorithms.reinforcePlusPlusBaseline(),
    verl: ['algorithm.adv_estimator=reinforce_plus_plus_baseline'],
  },
  remax: { value: algorithms.remax(), verl: ['algorithm.adv_estimator=remax'] },
  gpg: {
    value: algorithms.gpg(),
    verl: ['algorithm.adv_estimator=gpg', `${actor}.policy_loss.loss_mode=gpg`],
  },
  opo: { value: algorithms.opo(), verl: ['algorithm.adv_estimator=opo'] },
  'max-rl': { value: algorithms.maxRl(), verl: 'not in verl' },
  'pass@k': { value: algorithms.passAtK(), verl: ['algorithm.adv_estimator=grpo_passk'] },
  gdpo: {
    value: algorithms.gdpo({ weights: { 'score/format': 1, 'score/exact': 0.25 } }),
    ours: ['algorithm.gdpo.weights={"score/format":1,"score/exact":0.25}'],
    verl: [
      'algorithm.adv_estimator=gdpo',
      '+algorithm.gdpo_reward_keys=["format","exact"]',
      '+algorithm.gdpo_reward_weights=[1.0,0.25]',
    ],
  },
  'optimal-token-baseline': {
    value: algorithms.optimalTokenBaseline(),
    verl: ['algorithm.adv_estimator=tir_optimal_token_baseline'],
  },
  'turn-grpo': { value: algorithms.turnGrpo(), verl: 'not in verl' },
  'process-grpo': { value: algorithms.processGrpo(), verl: 'not in verl' },
  ppo: { value: algorithms.ppo(), verl: ['algorithm.adv_estimator=gae'] },
  gspo: { value: algorithms.gspo(), verl: lossMode('gspo', ...clip(0.0003, 0.0004)) },
  gmpo: { value: algorithms.gmpo(), verl: lossMode('geo_mean', ...clip(0.4, 0.4)) },
  cispo: { value: algorithms.cispo(), verl: lossMode('cispo', ...clip(0.2, 0.28)) },
  sapo: {
    value: algorithms.sapo(),
    verl: lossMode('sapo', `${actor}.tau_pos=1.0`, `${actor}.tau_neg=1.05`),
  },
  dppo: { value: algorithms.dppo(), verl: lossMode('dppo_tv', `${actor}.clip_ratio_c=20`) },
  dro: { value: algorithms.dro(), verl: lossMode('dro', `${actor}.policy_loss.dro_beta=0.1`) },
  'clip-cov': {
    value: algorithms.clipCov(),
    verl: lossMode(
      'clip_cov',
      `${actor}.policy_loss.clip_cov_ratio=0.0002`,
      `${actor}.policy_loss.clip_cov_lb=1.0`,
      `${actor}.policy_loss.clip_cov_ub=5.0`,
    ),
  },
  'kl-cov': {
    value: algorithms.klCov(),
    verl: lossMode(
      'kl-cov',
      `${actor}.policy_loss.kl_cov_ratio=0.0002`,
      `${actor}.policy_loss.ppo_kl_coef=0.1`,
    ),
  },
};

describe('every algorithm', () => {
  const families = Object.entries(FAMILY);
  test('is one of these', () => {
    expect(Object.keys(FAMILY).toSorted()).toEqual(
      ALGORITHMS.map(({ definition }) => definition.name).toSorted(),
    );
  });

  test.each(families)('%s by name in YAML is the value that the function gives', async (name, family) => {
    const { value, ours = [] } = family;
    const { algorithm, warnings } = await assemble(ours, `algorithm:\n  name: '${name}'\n`);
    expect(algorithm).toEqual(value);
    expect(warnings).toEqual([]);
  });

  test.each(families.filter(([, { verl }]) => verl !== 'not in verl'))(
    '%s by verl’s keys is the same value',
    async (_, { value, verl }) => {
      const { algorithm, warnings } = await assemble(verl as readonly string[]);
      expect(unnamed(algorithm)).toEqual(unnamed(value));
      expect(warnings).toEqual([]);
    },
  );

  test('PF-PPO is PPO with a filtration, in both vocabularies', async () => {
    const value = algorithms.ppo({ filtration: { method: 'max-min', power: 3 } });
    const ours = [
      'algorithm.name=ppo',
      'algorithm.filtration.method=max-min',
      'algorithm.filtration.power=3',
    ];
    const verl = [
      'algorithm.adv_estimator=gae',
      'algorithm.use_pf_ppo=True',
      'algorithm.pf_ppo.reweight_method=max_min',
      'algorithm.pf_ppo.weight_pow=3',
    ];
    expect((await assemble(ours)).algorithm).toEqual(value);
    expect((await assemble(verl)).algorithm).toEqual(value);
    const off = await assemble([...verl.slice(0, 1), 'algorithm.use_pf_ppo=False', ...verl.slice(2, 3)]);
    expect(off.algorithm).toEqual(algorithms.ppo());
  });

  test('any loss goes with any advantage', async () => {
    for (const loss of LOSSES.keys()) {
      const { algorithm, warnings } = await assemble(['algorithm.name=rloo', `algorithm.loss=${loss}`]);
      expect(algorithm.advantage).toEqual({ kind: 'rloo' });
      expect(algorithm.loss.kind).toBe(loss);
      expect(warnings).toEqual([]);
    }
  });
});

/** Every setting of an algorithm, another value for it, and what must be set beside it for it to mean anything. */
const SETTINGS_OF_ALGORITHMS: readonly (readonly [string, unknown, ...string[]])[] = [
  ['name', 'rloo'],
  ['loss', 'cispo'],
  ['normalizeByStd', false],
  ['discount', 0.9, 'name=ppo'],
  ['lambda', 0.9, 'name=ppo'],
  ['gdpo.weights', { score: 2 }, 'name=gdpo'],
  ['turnGrpo.compare', 'turn', 'name=turn-grpo'],
  ['clipLow', 0.1],
  ['clipHigh', 0.3],
  ['dualClip', 0],
  ['gpg.norm', 2, 'name=gpg'],
  ['sapo.positive', 2, 'loss=sapo'],
  ['sapo.negative', 2, 'loss=sapo'],
  ['dppo.divergence', 'kl', 'loss=dppo'],
  ['dppo.cap', 3, 'loss=dppo'],
  ['dro.beta', 0.3, 'loss=dro'],
  ['clipCov.fraction', 0.1, 'loss=clip-cov'],
  ['clipCov.covariance', [2, 9], 'loss=clip-cov'],
  ['klCov.fraction', 0.1, 'loss=kl-cov'],
  ['klCov.coefficient', 1, 'loss=kl-cov'],
  ['aggregation', 'token-sum'],
  ['divisor', 512, 'name=dr-grpo'],
  ['truncated', 'mask'],
  ['turnRewards', true],
  ['entropyBonus', 0.01],
  ['filtration.method', 'max-random', 'name=ppo'],
  ['filtration.power', 3, 'name=ppo', 'filtration.method=power'],
  ['kl.as', 'loss'],
  ['kl.estimator', 'k1', 'kl.as=loss'],
  ['kl.coefficient', 0.1, 'kl.as=loss'],
  ['kl.adaptive', true, 'kl.as=reward'],
  ['kl.target', 0.3, 'kl.as=reward', 'kl.adaptive=true'],
  ['kl.horizon', 100, 'kl.as=reward', 'kl.adaptive=true'],
  ['kl.refreshEverySteps', 5, 'kl.as=loss'],
  ['old', 'behaviour'],
  ['correction.weights', 'token'],
  ['correction.low', 0.5, 'correction.weights=token'],
  ['correction.high', 5, 'correction.weights=token'],
  ['correction.normalize', true, 'correction.weights=token'],
  ['correction.rejection', ['token-k1'], 'correction.rejectionBounds=[[0.5,2]]', 'correction.weights=token'],
  ['correction.rejectionBounds', [[0.9, 1.1]], 'correction.rejection=[token-k1]'],
  ['correction.halfLifeVersions', 2],
  ['correction.maxVersions', 3],
  ['dynamicSampling.enabled', true],
  ['dynamicSampling.metric', 'score', 'dynamicSampling.enabled=true'],
  ['dynamicSampling.maxRefills', 3, 'dynamicSampling.enabled=true'],
  ['overlong.enabled', true],
  ['overlong.bufferTokens', 100, 'overlong.enabled=true'],
  ['overlong.penalty', 2, 'overlong.enabled=true'],
  ['overlong.maxTokens', 900, 'overlong.enabled=true'],
  ['critic.clip', 0.2, 'name=ppo'],
  ['critic.warmupSteps', 2, 'name=ppo'],
  ['critic.learningRate', 1e-4, 'name=ppo'],
  ['critic.epochs', 4, 'name=ppo'],
  ['critic.miniBatches', 8, 'name=ppo'],
  ['critic.model', '/models/critic', 'name=ppo'],
  ['critic.shared', true, 'name=ppo'],
  ['critic.coefficient', 1, 'name=ppo', 'critic.shared=true'],
];

describe('every setting', () => {
  test('is in the walk below', () => {
    const paths = [...KNOWN_OPTIONS.keys()].filter((path) => path.startsWith('algorithm.'));
    expect(SETTINGS_OF_ALGORITHMS.map(([path]) => `algorithm.${path}`).toSorted()).toEqual(paths.toSorted());
  });

  test.each(SETTINGS_OF_ALGORITHMS)('%s reaches the algorithm', async (path, value, ...beside) => {
    const words = beside.map((word) => `algorithm.${word}`);
    const bounds =
      path === 'correction.rejectionBounds' ? ['algorithm.correction.rejectionBounds=[[0.5,2]]'] : [];
    const before = await assemble([...words, ...bounds]);
    const after = await assemble([...words, `algorithm.${path}=${JSON.stringify(value)}`]);
    expect(after.algorithm).not.toEqual(before.algorithm);
    expect(after.warnings).toEqual([]);
  });

  test('that the algorithm does not have is said to be unused', async () => {
    const { warnings } = await assemble([
      'algorithm.lambda=0.9',
      'algorithm.dro.beta=0.2',
      'algorithm.kl.target=1',
    ]);
    expect(warnings).toEqual([
      'algorithm.lambda, algorithm.kl.target, algorithm.dro.beta: not used: GRPO does not have it',
    ]);
    const { warnings: clipped } = await assemble(['algorithm.name=gpg', 'algorithm.clipLow=0.1']);
    expect(clipped).toEqual(['algorithm.clipLow: not used: GPG does not have it']);
  });
});

test('corrections by their names in verl are those of the same name here', async () => {
  const key = (name: string) => `algorithm.rollout_correction.${name}`;
  const PRESETS = [
    [corrections.tokenTruncated(), ['rollout_is=token', 'rollout_is_threshold=2.0']],
    [corrections.sequenceTruncated(), ['rollout_is=sequence', 'rollout_is_threshold=2.0']],
    [corrections.icePop(), ['rollout_is=token', 'rollout_is_threshold=0.5_5.0']],
    [
      corrections.sequenceMasked(),
      ['rollout_is=sequence', 'rollout_rs=seq_sum_k1', 'rollout_rs_threshold=0.5_2.0'],
    ],
    [corrections.geometricRejection(), ['rollout_rs=seq_mean_k1', 'rollout_rs_threshold=0.999_1.001']],
  ] as const;
  for (const [value, words] of PRESETS) {
    expect((await assemble(words.map(key))).algorithm.correction).toEqual(value);
  }
  const two = await assemble(
    ['rollout_rs="token_k1,seq_max_k2"', 'rollout_rs_threshold="0.6_1.6,2.5"'].map(key),
  );
  expect(two.algorithm.correction?.rejection).toEqual([
    { statistic: 'token-k1', bounds: [0.6, 1.6] },
    { statistic: 'sequence-max-k2', bounds: [0.4, 2.5] },
  ]);
});

test('in bypass mode verl’s loss_type decides between the clipped ratio and REINFORCE', async () => {
  const bypass = ['algorithm.adv_estimator=grpo', 'algorithm.rollout_correction.bypass_mode=True'];
  const type = (name: string) => `algorithm.rollout_correction.loss_type=${name}`;
  expect((await assemble([...bypass, type('ppo_clip')])).algorithm).toMatchObject({
    old: 'behaviour',
    loss: { kind: 'clip' },
  });
  const { algorithm } = await assemble([
    ...bypass,
    type('reinforce'),
    'algorithm.rollout_correction.rollout_is=token',
  ]);
  expect(algorithm).toMatchObject({
    old: 'behaviour',
    loss: { kind: 'reinforce' },
    correction: { weights: { level: 'token' } },
  });
  expect(() => checkAlgorithm(algorithm, { can: new Set(), attemptsPerTask: 8 })).not.toThrow();
});

test.each([[[]], [['loss_type=ppo_clip']]])(
  'in bypass mode a clipped ratio has no importance weights, and a line says so (%j)',
  async (type) => {
    const key = (name: string) => `algorithm.rollout_correction.${name}`;
    const words = ['bypass_mode=True', 'rollout_is=token', 'rollout_is_threshold=2.0', ...type];
    const rejection = ['rollout_rs=seq_mean_k3', 'rollout_rs_threshold=0.01'];
    const { algorithm, notes } = await assemble([...words, ...rejection].map(key));
    expect(algorithm).toMatchObject({ old: 'behaviour', loss: { kind: 'clip' } });
    expect(algorithm.correction).toEqual({
      rejection: [{ statistic: 'sequence-mean-k3', bounds: [100, 0.01] }],
    });
    expect(notes).toEqual([
      'algorithm.rollout_correction.rollout_is=token: not used: in bypass mode the ratio of the loss already compares to the engine',
    ]);
    expect(() => checkAlgorithm(algorithm, { can: new Set(), attemptsPerTask: 8 })).not.toThrow();
  },
);

test('a trainer that gives log-probs alone refuses just the algorithms that need more, with the reason', () => {
  const refusals: Record<string, string> = {};
  for (const [name, { value }] of Object.entries(FAMILY)) {
    try {
      checkAlgorithm(value, {
        can: new Set(),
        criticCan: new Set(),
        attemptsPerTask: 8,
        tokensPerTrajectory: 1000,
      });
    } catch (error) {
      refusals[name] = (error as Error).message;
    }
  }
  expect(refusals).toEqual({
    'optimal-token-baseline': expect.stringContaining('needs Σπ², which this trainer does not give'),
    ppo: expect.stringContaining('needs a critic, but its trainer has no value head'),
  });
});
