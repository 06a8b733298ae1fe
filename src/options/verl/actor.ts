import { ConfigError } from '../../errors.ts';
import {
  always,
  elsewhere,
  means,
  miniBatchSize,
  notYet,
  same,
  shown,
  type VerlRow,
  word,
} from '../verl-row.ts';
import { chosenLoss, keyOfLosses, LOSS_MODES, ownKeys } from './algorithm-words.ts';
import { KL_ESTIMATORS, TRAINER_BUSINESS } from './words.ts';

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
    note: 'not of gspo, geo_mean and sapo, which are seq-mean-token-mean',
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
  miniBatchSize('actor_rollout_ref.actor.ppo_mini_batch_size', 'optimizer.miniBatches', { seeds: '004' }),
  same('actor_rollout_ref.actor.ppo_epochs', 'optimizer.epochs', [1, 2]),
  same('actor_rollout_ref.actor.ppo_max_token_len_per_gpu', 'optimizer.tokensPerMicroBatch', [16384, 8192]),
  means(
    'actor_rollout_ref.actor.use_kl_loss',
    'algorithm.kl.as',
    [true, false],
    (on: boolean, { option }) =>
      on && option('algorithm.kl.as') === 'reward'
        ? {
            refuse:
              'KL in the reward and as a loss at once: turn one of use_kl_in_reward and use_kl_loss off',
          }
        : { 'algorithm.kl.as': on ? 'loss' : option('algorithm.kl.as') },
    { seeds: '004', late: true },
  ),
  ofLossKl(
    same('actor_rollout_ref.actor.kl_loss_coef', 'algorithm.kl.coefficient', [0.001, 0.01], { seeds: '004' }),
  ),
  ofLossKl(word('actor_rollout_ref.actor.kl_loss_type', 'algorithm.kl.estimator', KL_ESTIMATORS)),
  same('actor_rollout_ref.actor.entropy_coeff', 'algorithm.entropyBonus', [0, 0.001]),
  means(
    'actor_rollout_ref.actor.clip_ratio',
    ['algorithm.clipLow', 'algorithm.clipHigh'],
    [0.2, 0.3],
    (clip: number) => ({ 'algorithm.clipLow': clip, 'algorithm.clipHigh': clip }),
  ),
  same('actor_rollout_ref.actor.clip_ratio_low', 'algorithm.clipLow', [0.2, 0.1], {
    late: true,
    note: 'goes before clip_ratio',
  }),
  same('actor_rollout_ref.actor.clip_ratio_high', 'algorithm.clipHigh', [0.2, 0.28], {
    late: true,
    note: 'goes before clip_ratio',
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
    ['vanilla', 'gspo'],
    (mode: string) => {
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
    note: 'lr_warmup_steps of 0 or more goes before it',
  }),
  means(
    'actor_rollout_ref.actor.optim.lr_warmup_steps',
    ['optimizer.warmupSteps', 'optimizer.warmupShare'],
    [10, -1],
    (steps: number): Record<string, unknown> =>
      steps < 0
        ? { 'optimizer.warmupSteps': 0 }
        : { 'optimizer.warmupSteps': steps, 'optimizer.warmupShare': 0 },
    { note: 'negative: lr_warmup_steps_ratio counts', late: true },
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
    [
      [0.9, 0.999],
      [0.9, 0.95],
    ],
    (betas: readonly [number, number]) => ({ 'optimizer.beta1': betas[0], 'optimizer.beta2': betas[1] }),
  ),
  same('actor_rollout_ref.actor.grad_clip', 'optimizer.clipNorm', [1, 0.5]),
  same('actor_rollout_ref.actor.optim.clip_grad', 'optimizer.clipNorm', [1, 0.5]),
  always(
    'actor_rollout_ref.actor.use_dynamic_bsz',
    true,
    false,
    'micro-batches are made by tokens (optimizer.tokensPerMicroBatch)',
  ),
  always('actor_rollout_ref.actor.shuffle', false, true, 'mini-batches follow the order of the tasks'),
  elsewhere(
    'actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu',
    'micro-batches are made by tokens (optimizer.tokensPerMicroBatch); the gradient is the same',
    [32, 8],
  ),
  elsewhere(
    'actor_rollout_ref.actor.ppo_micro_batch_size',
    'micro-batches are made by tokens (optimizer.tokensPerMicroBatch); the gradient is the same',
    [32, 8],
  ),
  elsewhere('actor_rollout_ref.actor.strategy', TRAINER_BUSINESS, ['fsdp', 'megatron']),
  elsewhere('actor_rollout_ref.actor.ulysses_sequence_parallel_size', TRAINER_BUSINESS, [1, 2]),
  elsewhere('actor_rollout_ref.actor.use_torch_compile', TRAINER_BUSINESS, [true, false]),
  elsewhere('actor_rollout_ref.actor.entropy_from_logits_with_chunking', TRAINER_BUSINESS, [true, false]),
  elsewhere('actor_rollout_ref.actor.entropy_checkpointing', TRAINER_BUSINESS, [true, false]),
  elsewhere('actor_rollout_ref.actor.fsdp_config.*', TRAINER_BUSINESS, [true, false]),
  elsewhere('actor_rollout_ref.actor.megatron.*', TRAINER_BUSINESS, [1, 2]),
  elsewhere(
    'actor_rollout_ref.actor.checkpoint.*',
    'a checkpoint always holds weights, optimizer and state',
    [['model'], ['model', 'optimizer']],
  ),
  elsewhere('actor_rollout_ref.ref.*', TRAINER_BUSINESS, [true, 32]),
  elsewhere('actor_rollout_ref.hybrid_engine', 'engines and trainer are separate parts here', [true, false]),
  same('actor_rollout_ref.model.path', 'model', ['Qwen/Qwen2.5-3B-Instruct', 'Qwen/Qwen2.5-7B-Instruct'], {
    seeds: '004',
  }),
  same('actor_rollout_ref.model.custom_chat_template', 'chat.template', [null, 'template.jinja']),
  elsewhere('actor_rollout_ref.model.use_remove_padding', 'sequences are packed; there is no padding', [
    true,
    false,
  ]),
  elsewhere('actor_rollout_ref.model.enable_gradient_checkpointing', TRAINER_BUSINESS, [true, false]),
  elsewhere('actor_rollout_ref.model.enable_activation_offload', TRAINER_BUSINESS, [true, false]),
  elsewhere('actor_rollout_ref.model.use_liger', TRAINER_BUSINESS, [true, false]),
  elsewhere('actor_rollout_ref.model.use_fused_kernels', TRAINER_BUSINESS, [true, false]),
  elsewhere('actor_rollout_ref.model.use_shm', TRAINER_BUSINESS, [true, false]),
  elsewhere('actor_rollout_ref.model.trust_remote_code', 'no code of a model is run', [true, false]),
  elsewhere('actor_rollout_ref.model.override_config.*', TRAINER_BUSINESS, [1, 2]),
  elsewhere('actor_rollout_ref.model.external_lib', TRAINER_BUSINESS, [null, 'a']),
  notYet('actor_rollout_ref.model.lora_rank', 0, 32, 'LoRA chosen in a run file written as data'),
  notYet('actor_rollout_ref.model.lora_alpha', 16, 32, 'LoRA chosen in a run file written as data'),
  notYet(
    'actor_rollout_ref.model.target_modules',
    'all-linear',
    ['q_proj'],
    'LoRA chosen in a run file written as data',
  ),
];
