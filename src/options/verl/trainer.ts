import { elsewhere, means, miniBatchSize, notYet, same, shown, type VerlRow } from '../verl-row.ts';
import { MODE_KEYS } from './modes.ts';
import { asList, NO_LIMIT, RAY_BUSINESS, TRAINER_BUSINESS } from './words.ts';

/** verl: −1 and 0 are never; here 0 is never. */
const every = (value: number | null) => (value === null || value < 0 ? 0 : value);

export const TRAINER_KEYS: readonly VerlRow[] = [
  same('critic.cliprange_value', 'algorithm.critic.clip', [0.5, 0.2]),
  same('critic.optim.lr', 'algorithm.critic.learningRate', [1e-5, 1e-6], {
    note: "without it, ours is the policy's",
  }),
  same('critic.ppo_epochs', 'algorithm.critic.epochs', [1, 4]),
  miniBatchSize('critic.ppo_mini_batch_size', 'algorithm.critic.miniBatches'),
  same('critic.model.path', 'algorithm.critic.model', ['a', 'b']),
  same('trainer.critic_warmup', 'algorithm.critic.warmupSteps', [0, 10]),
  elsewhere('critic.*', TRAINER_BUSINESS, [true, 32]),
  same('trainer.total_epochs', 'epochs', [20, 15], {
    seeds: '003 004',
    note: 'steps = epochs × tasks / tasksPerStep; total_training_steps goes before it',
  }),
  means(
    'trainer.total_training_steps',
    ['steps', 'epochs'],
    [100, 200],
    (steps: number | null) => (steps === null ? {} : { steps, epochs: null }),
    { late: true },
  ),
  same('trainer.project_name', 'project', ['a', 'b']),
  same('trainer.experiment_name', 'experiment', ['a', 'b'], { seeds: '000 001' }),
  same('trainer.default_local_dir', 'runDir', ['runs/a', 'runs/b']),
  means(
    'trainer.logger',
    'loggers',
    [['console', 'wandb'], 'console'],
    (value) => ({ loggers: asList(value) }),
    { values: 'console, wandb, mlflow, tensorboard, file', note: 'seeds 000 and 002 log to W&B and MLflow' },
  ),
  means('trainer.test_freq', 'evaluation.every', [20, -1], (steps: number) => ({
    'evaluation.every': every(steps),
  })),
  means(
    'trainer.save_freq',
    'checkpoints.every',
    [20, -1],
    (steps: number) => ({ 'checkpoints.every': every(steps) }),
    { note: 'the last step always leaves a checkpoint' },
  ),
  means('trainer.max_actor_ckpt_to_keep', 'checkpoints.keep', [2, 5], (keep: number | null) => ({
    'checkpoints.keep': keep ?? NO_LIMIT,
  })),
  same('trainer.val_before_train', 'evaluation.before', [true, false]),
  means(
    'trainer.resume_mode',
    'resume',
    ['auto', 'disable'],
    (mode: string, { option, exists }) => {
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
    [false, true],
    (only: boolean) => (only ? { steps: 0, epochs: null, 'evaluation.before': true } : {}),
    { late: true, note: 'the evaluation before the first step is all there is; goes before the other keys' },
  ),
  elsewhere('trainer.rollout_data_dir', 'every trajectory is in the run directory', [null, 'a']),
  elsewhere('trainer.validation_data_dir', 'every trajectory is in the run directory', [null, 'a']),
  elsewhere('trainer.log_val_generations', 'every trajectory is in the run directory', [0, 10]),
  elsewhere('trainer.n_gpus_per_node', TRAINER_BUSINESS, [8, 4], '004'),
  elsewhere('trainer.nnodes', TRAINER_BUSINESS, [1, 2]),
  elsewhere('trainer.device', TRAINER_BUSINESS, ['cuda', 'npu']),
  elsewhere('trainer.balance_batch', 'the trainer packs by tokens', [true, false]),
  elsewhere('trainer.use_v1', 'there is one trainer loop here', [true, false]),
  elsewhere('trainer.use_legacy_worker_impl', RAY_BUSINESS, ['auto', 'disable']),
  elsewhere('trainer.ray_wait_register_center_timeout', RAY_BUSINESS, [300, 600]),
  elsewhere('trainer.max_critic_ckpt_to_keep', 'the critic is in the same checkpoint', [1, 2]),
  elsewhere('trainer.del_local_ckpt_after_load', 'checkpoints.keep decides', [true, false]),
  elsewhere('trainer.default_hdfs_dir', 'checkpoints are written to local disk', [null, 'a']),
  ...MODE_KEYS,
  elsewhere('ray_kwargs.*', RAY_BUSINESS, [1, 2]),
  elsewhere('ray_init.*', RAY_BUSINESS, [1, 2]),
  elsewhere('hydra.*', RAY_BUSINESS, [1, 2]),
  elsewhere('defaults', RAY_BUSINESS, [['ppo_trainer'], ['_self_']]),
  elsewhere('global_profiler.*', RAY_BUSINESS, [1, 2]),
];
