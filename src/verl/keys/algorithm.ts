import { ConfigError } from '../../errors.ts';
import { flag, number, orNull, text } from '../../lib/setting.ts';
import { anything, means, notYet, numbers, same, shown, type VerlRow, word } from '../row.ts';
import { chosenLoss, ESTIMATORS, LOSS_TYPES } from './algorithm-words.ts';
import { asList, KL_ESTIMATORS, oneOrMore } from './words.ts';

const bounds = (value: unknown): { low: number; high: number } => {
  const [first, second] = String(value).split('_').map(Number);
  if (first === undefined || Number.isNaN(first) || typeof value === 'boolean') {
    throw new ConfigError(
      `a threshold is a number such as 2.0, or two such as "0.5_5.0", not ${shown(value)}`,
    );
  }
  return second === undefined ? { low: 0, high: first } : { low: first, high: second };
};

/** What `compute_score` gives beside its score is a part of the reward `score`. */
const partOf = (key: string) => (key === 'score' ? key : `score/${key}`);

/** verl's `seq_mean_k1` is our `sequence-mean-k1`. */
const statistic = (name: string) => name.trim().replace(/^seq_/, 'sequence-').replaceAll('_', '-');

/** A key of the KL in the reward means nothing where the KL is not in the reward. */
function ofRewardKl(row: VerlRow): VerlRow {
  return {
    ...row,
    late: true,
    beside: { 'algorithm.use_kl_in_reward': true },
    note: 'of the KL in the reward',
    read: (value, context) =>
      context.option('algorithm.kl.as') === 'reward'
        ? row.read(value, context)
        : { note: `${row.key}=${shown(value)}: not used: the KL is not in the reward` },
  };
}

/** In bypass mode a loss of ratios already compares to the engine: verl leaves its importance weights out. */
function notOfBypassRatios(row: VerlRow): VerlRow {
  return {
    ...row,
    late: true,
    note: 'in bypass mode only for the loss_type reinforce',
    read: (value, context) => {
      const { takesRatio } = chosenLoss(context).definition.loss;
      return value !== null && takesRatio && context.option('algorithm.old') === 'behaviour'
        ? {
            note: `${row.key}=${shown(value)}: not used: in bypass mode the ratio of the loss already compares to the engine`,
          }
        : row.read(value, context);
    },
  };
}

export const ALGORITHM_KEYS: readonly VerlRow[] = [
  word('algorithm.adv_estimator', 'algorithm.name', ESTIMATORS, {
    note: 'gae is PPO with a critic',
  }),
  same('algorithm.gamma', 'algorithm.discount', [1, 0.99]),
  same('algorithm.lam', 'algorithm.lambda', [1, 0.95]),
  same('algorithm.norm_adv_by_std_in_grpo', 'algorithm.normalizeByStd', [true, false]),
  means(
    'algorithm.use_kl_in_reward',
    ['algorithm.kl.as', 'algorithm.kl.estimator'],
    flag,
    [true, false],
    (on, { option, isGiven }) => {
      if (!on) return { 'algorithm.kl.as': option('algorithm.kl.as') };
      const isChosen = isGiven('algorithm.kl_penalty') || isGiven('algorithm.kl.estimator');
      return { 'algorithm.kl.as': 'reward', ...(isChosen ? {} : { 'algorithm.kl.estimator': 'k1' }) };
    },
    { late: true, note: 'with the estimator kl (k1) unless kl_penalty is given' },
  ),
  ofRewardKl(word('algorithm.kl_penalty', 'algorithm.kl.estimator', KL_ESTIMATORS)),
  ofRewardKl(same('algorithm.kl_ctrl.kl_coef', 'algorithm.kl.coefficient', [0.001, 0.01])),
  ofRewardKl(word('algorithm.kl_ctrl.type', 'algorithm.kl.adaptive', { fixed: false, adaptive: true })),
  ofRewardKl(same('algorithm.kl_ctrl.target_kl', 'algorithm.kl.target', [0.1, 0.2])),
  ofRewardKl(same('algorithm.kl_ctrl.horizon', 'algorithm.kl.horizon', [10000, 500])),
  same('algorithm.filter_groups.enable', 'algorithm.dynamicSampling.enabled', [true, false], {
    note: "DAPO's dynamic sampling",
  }),
  means(
    'algorithm.filter_groups.metric',
    'algorithm.dynamicSampling.metric',
    orNull(text),
    ['acc', 'score'],
    (metric) => ({
      'algorithm.dynamicSampling.metric':
        metric === null || /^(score|seq_reward|seq_final_reward)$/.test(metric)
          ? 'reward'
          : metric === 'acc'
            ? 'score'
            : partOf(metric),
    }),
    {
      values: 'acc, score, seq_reward, seq_final_reward, or a part of what compute_score gives',
      note: 'acc is what compute_score gives, before shaping and penalties',
    },
  ),
  means(
    'algorithm.filter_groups.max_num_gen_batches',
    'algorithm.dynamicSampling.maxRefills',
    number,
    [10, 0],
    (batches) => ({ 'algorithm.dynamicSampling.maxRefills': batches > 0 ? batches - 1 : -1 }),
    {
      note: 'the first batch is not a refill, so 10 means 9 refills; 0 is no limit. After that a step continues with fewer groups',
    },
  ),
  notYet('algorithm.filter_groups.max_inflight_gen_batches', 1, 2, 'refilling while a round still runs'),
  means(
    'algorithm.gdpo_reward_keys',
    'algorithm.gdpo.weights',
    oneOrMore,
    [['a'], ['a', 'b']],
    (keys) => ({
      'algorithm.gdpo.weights': Object.fromEntries(asList(keys).map((key) => [partOf(key), 1])),
    }),
    { note: 'parts of what compute_score gives: a is our score/a' },
  ),
  means(
    'algorithm.gdpo_reward_weights',
    'algorithm.gdpo.weights',
    orNull(numbers),
    [
      [1, 2],
      [2, 1],
    ],
    (weights, { option }) => {
      const keys = Object.keys(Object(option('algorithm.gdpo.weights')));
      if (weights === null) return {};
      if (!Array.isArray(weights) || weights.length !== keys.length) {
        throw new ConfigError(
          `algorithm.gdpo_reward_weights is ${shown(weights)}; use one for each of the ${keys.length} in algorithm.gdpo_reward_keys`,
        );
      }
      return { 'algorithm.gdpo.weights': Object.fromEntries(keys.map((key, at) => [key, weights[at]])) };
    },
    { late: true, beside: { 'algorithm.gdpo_reward_keys': ['a', 'b'] } },
  ),
  means(
    'algorithm.rollout_correction.rollout_is_threshold',
    ['algorithm.correction.low', 'algorithm.correction.high'],
    anything,
    [2, '0.5_5.0'],
    (value) => ({
      'algorithm.correction.low': bounds(value).low,
      'algorithm.correction.high': bounds(value).high,
    }),
  ),
  means(
    'algorithm.rollout_correction.rollout_rs',
    'algorithm.correction.rejection',
    orNull(text),
    [null, 'token_k1'],
    (value) => ({
      'algorithm.correction.rejection': value === null ? [] : value.split(',').map(statistic),
    }),
    { values: 'null, or a comma list of token_k1 … seq_max_k3' },
  ),
  means(
    'algorithm.rollout_correction.rollout_rs_threshold',
    'algorithm.correction.rejectionBounds',
    anything,
    [2, '0.5_3.0'],
    (value) => ({
      'algorithm.correction.rejectionBounds':
        value === null
          ? []
          : String(value)
              .split(',')
              .map((one) => bounds(one))
              .map(({ low, high }) => [low || 1 / high, high]),
    }),
    { values: '2, 0.5_3.0, or a comma list, one for each of rollout_rs' },
  ),
  means('algorithm.rollout_correction.bypass_mode', 'algorithm.old', flag, [true, false], (bypass) => ({
    'algorithm.old': bypass ? 'behaviour' : 'recompute',
  })),
  means(
    'algorithm.rollout_correction.loss_type',
    'algorithm.loss',
    text,
    ['ppo_clip', 'reinforce'],
    (type, { option }) => {
      if (option('algorithm.old') !== 'behaviour') {
        return {
          note: `algorithm.rollout_correction.loss_type=${shown(type)}: not used: not in bypass mode`,
        };
      }
      const loss = LOSS_TYPES[type];
      if (loss !== undefined) return { 'algorithm.loss': loss };
      throw new ConfigError(
        `algorithm.rollout_correction.loss_type is ${shown(type)}; use ${Object.keys(LOSS_TYPES).join(' or ')}`,
      );
    },
    {
      late: true,
      note: 'overrides loss_mode, in bypass mode',
      beside: { 'algorithm.rollout_correction.bypass_mode': true },
    },
  ),
  notOfBypassRatios(
    word('algorithm.rollout_correction.rollout_is', 'algorithm.correction.weights', {
      null: 'off',
      token: 'token',
      sequence: 'sequence',
    }),
  ),
  means(
    'algorithm.rollout_correction.rollout_is_batch_normalize',
    'algorithm.correction.normalize',
    flag,
    [true, false],
    (on, { option }) => {
      const isInPass =
        option('algorithm.old') === 'behaviour' && option('algorithm.correction.weights') !== 'off';
      return on && isInPass
        ? {
            refuse:
              'algorithm.rollout_correction.rollout_is_batch_normalize=true: not in bypass mode, where weights are computed sequence by sequence in the pass and no mean over the batch is known',
          }
        : { 'algorithm.correction.normalize': on };
    },
    { late: true, note: 'refused in bypass mode with weights' },
  ),
  means(
    'algorithm.use_pf_ppo',
    'algorithm.filtration.method',
    flag,
    [true, false],
    (on, { option }) => ({
      'algorithm.filtration.method': on
        ? option('algorithm.filtration.method') === 'off'
          ? 'power'
          : option('algorithm.filtration.method')
        : 'off',
    }),
    { late: true, note: 'trajectories are drawn again by their score; with gae' },
  ),
  word(
    'algorithm.pf_ppo.reweight_method',
    'algorithm.filtration.method',
    { pow: 'power', max_min: 'max-min', max_random: 'max-random' },
    { beside: { 'algorithm.use_pf_ppo': true } },
  ),
  same('algorithm.pf_ppo.weight_pow', 'algorithm.filtration.power', [2, 3]),
];
