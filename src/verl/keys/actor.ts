import { ConfigError } from '../../errors.ts';
import { flag, number, text } from '../../lib/setting.ts';
import {
  always,
  means,
  miniBatchSize,
  noEffect,
  notYet,
  pair,
  same,
  shown,
  type VerlRow,
  word,
} from '../row.ts';
import { chosenLoss, keyOfLosses, LOSS_MODES, ownKeys } from './algorithm-words.ts';
import { KL_ESTIMATORS } from './words.ts';

/** A key of the KL loss means nothing where the KL is in the reward. */
function ofLossKl(row: VerlRow): VerlRow {
  return {
    ...row,
    late: true,
    read: (value, context) =>
      context.option('algorithm.kl.as') === 'reward'
        ? { note: `${row.key}=${shown(value)}: not used: the KL is in the reward` }
        : row.read(value, context),
  };
}

/** verl's losses that are a mean over sequences whatever loss_agg_mode says. */
function notOfSequenceLosses(row: VerlRow): VerlRow {
  return {
    ...row,
    late: true,
    note: 'not for gspo, geo_mean and sapo, which are seq-mean-token-mean',
    read: (value, context) => {
      const { usual, name } = chosenLoss(context).definition;
      return context.option('algorithm.loss') !== null && usual?.aggregation === 'sequence-mean-token-mean'
        ? {
            note: `${row.key}=${shown(value)}: not used: ${name} is a mean over sequences of means over tokens`,
          }
        : row.read(value, context);
    },
  };
}

const DUAL_CLIP = 'actor_rollout_ref.actor.clip_ratio_c';

export const ACTOR_KEYS: readonly VerlRow[] = [
  miniBatchSize('actor_rollout_ref.actor.ppo_mini_batch_size', 'optimizer.miniBatches'),
  same('actor_rollout_ref.actor.ppo_epochs', 'optimizer.epochs', [1, 2]),
  means(
    'actor_rollout_ref.actor.use_kl_loss',
    'algorithm.kl.as',
    flag,
    [true, false],
    (on, { option }) =>
      on && option('algorithm.kl.as') === 'reward'
        ? {
            refuse:
              'KL in the reward and as a loss at once: turn one of use_kl_in_reward and use_kl_loss off',
          }
        : { 'algorithm.kl.as': on ? 'loss' : option('algorithm.kl.as') },
    { late: true },
  ),
  ofLossKl(same('actor_rollout_ref.actor.kl_loss_coef', 'algorithm.kl.coefficient', [0.001, 0.01])),
  ofLossKl(word('actor_rollout_ref.actor.kl_loss_type', 'algorithm.kl.estimator', KL_ESTIMATORS)),
  same('actor_rollout_ref.actor.entropy_coeff', 'algorithm.entropyBonus', [0, 0.001]),
  means(
    'actor_rollout_ref.actor.clip_ratio',
    ['algorithm.clipLow', 'algorithm.clipHigh'],
    number,
    [0.2, 0.3],
    (clip) => ({ 'algorithm.clipLow': clip, 'algorithm.clipHigh': clip }),
  ),
  same('actor_rollout_ref.actor.clip_ratio_low', 'algorithm.clipLow', [0.2, 0.1], {
    late: true,
    note: 'overrides clip_ratio',
  }),
  same('actor_rollout_ref.actor.clip_ratio_high', 'algorithm.clipHigh', [0.2, 0.28], {
    late: true,
    note: 'overrides clip_ratio',
  }),
  keyOfLosses(DUAL_CLIP, 'algorithm.dualClip', [3, 10]),
  notOfSequenceLosses(
    word('actor_rollout_ref.actor.loss_agg_mode', 'algorithm.aggregation', {
      'token-mean': 'token-mean',
      'token-sum': 'token-sum',
      'seq-mean-token-sum': 'sequence-mean-token-sum',
      'seq-mean-token-mean': 'sequence-mean-token-mean',
      'seq-mean-token-sum-norm': 'sequence-mean-token-sum-norm',
    }),
  ),
  same('actor_rollout_ref.actor.loss_scale_factor', 'algorithm.divisor', [null, 1024]),
  means(
    'actor_rollout_ref.actor.policy_loss.loss_mode',
    [...new Set(Object.values(LOSS_MODES).flatMap(Object.keys))],
    text,
    ['vanilla', 'gspo'],
    (mode) => {
      const meant = LOSS_MODES[mode.replaceAll('-', '_')];
      if (!meant) {
        throw new ConfigError(
          `loss_mode is ${shown(mode)}; use one of ${Object.keys(LOSS_MODES).join(', ')}`,
        );
      }
      return meant;
    },
    { values: Object.keys(LOSS_MODES).join(', ') },
  ),
  ...ownKeys([DUAL_CLIP]),
  same('actor_rollout_ref.actor.optim.lr', 'optimizer.learningRate', [1e-6, 1e-5]),
  same('actor_rollout_ref.actor.optim.lr_warmup_steps_ratio', 'optimizer.warmupShare', [0, 0.1], {
    note: 'lr_warmup_steps of 0 or more overrides it',
  }),
  means(
    'actor_rollout_ref.actor.optim.lr_warmup_steps',
    ['optimizer.warmupSteps', 'optimizer.warmupShare'],
    number,
    [10, -1],
    (steps) =>
      steps < 0
        ? { 'optimizer.warmupSteps': 0 }
        : { 'optimizer.warmupSteps': steps, 'optimizer.warmupShare': 0 },
    { note: 'negative: lr_warmup_steps_ratio is used', late: true },
  ),
  word('actor_rollout_ref.actor.optim.lr_scheduler_type', 'optimizer.schedule', {
    constant: 'constant',
    cosine: 'cosine',
  }),
  word('actor_rollout_ref.actor.optim.warmup_style', 'optimizer.schedule', {
    constant: 'constant',
    cosine: 'cosine',
  }),
  same('actor_rollout_ref.actor.optim.min_lr_ratio', 'optimizer.finalShare', [0, 0.1]),
  same('actor_rollout_ref.actor.optim.weight_decay', 'optimizer.weightDecay', [0.01, 0.1]),
  means(
    'actor_rollout_ref.actor.optim.betas',
    ['optimizer.beta1', 'optimizer.beta2'],
    pair,
    [
      [0.9, 0.999],
      [0.9, 0.95],
    ],
    (betas) => ({ 'optimizer.beta1': betas[0], 'optimizer.beta2': betas[1] }),
  ),
  same('actor_rollout_ref.actor.grad_clip', 'optimizer.clipNorm', [1, 0.5]),
  same('actor_rollout_ref.actor.optim.clip_grad', 'optimizer.clipNorm', [1, 0.5]),
  always('actor_rollout_ref.actor.shuffle', false, true, 'mini-batches follow the order of the tasks'),
  noEffect('actor_rollout_ref.actor.checkpoint.*', 'a checkpoint always holds weights, optimizer and state', [
    ['model'],
    ['model', 'optimizer'],
  ]),
  noEffect('actor_rollout_ref.hybrid_engine', 'engines and trainer are separate parts here', [true, false]),
  same('actor_rollout_ref.model.path', 'model', ['Qwen/Qwen2.5-3B-Instruct', 'Qwen/Qwen2.5-7B-Instruct']),
  same('actor_rollout_ref.model.custom_chat_template', 'chat.template', [null, 'template.jinja']),
  noEffect('actor_rollout_ref.model.trust_remote_code', 'no code of a model is run', [true, false]),
  notYet(
    'actor_rollout_ref.model.override_config.*',
    null,
    1,
    "changing a model's config.json from a run; change the file in the model's folder",
  ),
  notYet('actor_rollout_ref.model.external_lib', null, 'my_package', 'importing a Python package'),
];
