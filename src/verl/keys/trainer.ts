import { flag, number, orNull, text } from '../../lib/setting.ts';
import { means, miniBatchSize, noEffect, notYet, same, shown, type VerlRow } from '../row.ts';
import { MODE_KEYS } from './modes.ts';
import { asList, NO_LIMIT, NO_RAY, oneOrMore } from './words.ts';

/** verl: −1 and 0 are never; here 0 is never. */
const every = (value: number | null) => (value === null || value < 0 ? 0 : value);

export const TRAINER_KEYS: readonly VerlRow[] = [
  same('critic.cliprange_value', 'algorithm.critic.clip', [0.5, 0.2]),
  same('critic.optim.lr', 'algorithm.critic.learningRate', [1e-5, 1e-6], {
    note: "without it, the policy's learning rate",
  }),
  same('critic.ppo_epochs', 'algorithm.critic.epochs', [1, 4]),
  miniBatchSize('critic.ppo_mini_batch_size', 'algorithm.critic.miniBatches'),
  same('critic.model.path', 'algorithm.critic.model', ['a', 'b']),
  same('trainer.critic_warmup', 'algorithm.critic.warmupSteps', [0, 10]),
  same('trainer.total_epochs', 'epochs', [20, 15], {
    note: 'steps = epochs × tasks / tasksPerStep; total_training_steps overrides it',
  }),
  means(
    'trainer.total_training_steps',
    ['steps', 'epochs'],
    orNull(number),
    [100, 200],
    (steps) => (steps === null ? {} : { steps, epochs: null }),
    { late: true },
  ),
  same('trainer.project_name', 'project', ['a', 'b']),
  same('trainer.experiment_name', 'experiment', ['a', 'b']),
  same('trainer.default_local_dir', 'runDir', ['runs/a', 'runs/b']),
  means(
    'trainer.logger',
    'loggers',
    oneOrMore,
    [['console', 'wandb'], 'console'],
    (value) => ({ loggers: asList(value) }),
    { values: 'console, wandb, mlflow, tensorboard, file' },
  ),
  means('trainer.test_freq', 'evaluation.every', number, [20, -1], (steps) => ({
    'evaluation.every': every(steps),
  })),
  means(
    'trainer.save_freq',
    'checkpoints.every',
    number,
    [20, -1],
    (steps) => ({ 'checkpoints.every': every(steps) }),
    { note: 'the last step always leaves a checkpoint' },
  ),
  means('trainer.max_actor_ckpt_to_keep', 'checkpoints.keep', orNull(number), [2, 5], (keep) => ({
    'checkpoints.keep': keep ?? NO_LIMIT,
  })),
  same('trainer.val_before_train', 'evaluation.before', [true, false]),
  means(
    'trainer.resume_mode',
    'resume',
    text,
    ['auto', 'disable'],
    (mode, { option, exists }) => {
      if (mode === 'disable') return { resume: false };
      if (mode !== 'auto')
        return {
          refuse: `trainer.resume_mode=${shown(mode)}: not yet: resuming from another folder; set runDir and use auto`,
        };
      return {
        resume: exists(
          `${String(option('runDir') ?? `runs/${String(option('project'))}/${String(option('experiment'))}`)}/checkpoints`,
        ),
      };
    },
    { values: 'auto, disable', late: true, note: 'auto: if the run directory has checkpoints' },
  ),
  notYet('trainer.resume_from_path', null, 'a', 'resuming from another folder'),
  means(
    'trainer.val_only',
    ['steps', 'epochs', 'evaluation.before'],
    flag,
    [false, true],
    (only) => (only ? { steps: 0, epochs: null, 'evaluation.before': true } : {}),
    { late: true, note: 'only the evaluation before the first step is run; overrides the other keys' },
  ),
  noEffect('trainer.rollout_data_dir', 'every trajectory is in the run directory', [null, 'a']),
  noEffect('trainer.validation_data_dir', 'every trajectory is in the run directory', [null, 'a']),
  noEffect('trainer.log_val_generations', 'every trajectory is in the run directory', [0, 10]),
  noEffect('trainer.balance_batch', 'the trainer packs by tokens', [true, false]),
  noEffect('trainer.use_v1', 'there is one trainer loop here', [true, false]),
  noEffect('trainer.use_legacy_worker_impl', NO_RAY, ['auto', 'disable']),
  noEffect('trainer.ray_wait_register_center_timeout', NO_RAY, [300, 600]),
  noEffect('trainer.max_critic_ckpt_to_keep', 'the critic is in the same checkpoint', [1, 2]),
  noEffect('trainer.del_local_ckpt_after_load', 'checkpoints.keep decides', [true, false]),
  notYet('trainer.default_hdfs_dir', null, 'hdfs://a', 'checkpoints on HDFS; they are written to local disk'),
  ...MODE_KEYS,
  noEffect('ray_kwargs.*', NO_RAY, [1, 2]),
  noEffect('ray_init.*', NO_RAY, [1, 2]),
  noEffect('hydra.*', NO_RAY, [1, 2]),
  noEffect('defaults', NO_RAY, [['ppo_trainer'], ['_self_']]),
  noEffect('global_profiler.*', NO_RAY, [1, 2]),
];
