import { ConfigError } from '../../errors.ts';
import { always, elsewhere, means, type ReadingContext, shown, type VerlRow } from '../verl-row.ts';

/** verl's asynchronous trainers, of which a mode here does the same. */
const TRAINER_MODES: Readonly<Record<string, string>> = {
  sync: 'synchronous',
  colocate_async: 'partial',
  separate_async: 'asynchronous',
};

const readsStaleness = ({ option }: ReadingContext) =>
  ['asynchronous', 'partial'].includes(String(option('mode.kind')));

export const MODE_KEYS: readonly VerlRow[] = [
  means(
    'trainer.v1.trainer_mode',
    ['mode.kind', 'mode.extraTasks'],
    ['sync', 'separate_async'],
    (mode: string, { option }) => {
      const kind = TRAINER_MODES[mode];
      if (kind === undefined) {
        throw new ConfigError(
          `trainer.v1.trainer_mode is ${shown(mode)}; use one of ${Object.keys(TRAINER_MODES).join(', ')}`,
        );
      }
      // verl keeps one batch in flight while it trains.
      return {
        'mode.kind': kind,
        ...(kind === 'partial' ? { 'mode.extraTasks': option('tasksPerStep') } : {}),
      };
    },
    {
      values: Object.keys(TRAINER_MODES).join(', '),
      note: 'synchronous, partial (a batch goes on over the update), asynchronous: docs/modes.md',
      late: true,
    },
  ),
  means(
    'async_training.staleness_threshold',
    ['mode.kind', 'mode.staleness'],
    [0.5, 2],
    (share: number) => ({ 'mode.kind': 'asynchronous', 'mode.staleness': Math.ceil(share) }),
    { values: '0.1, 1, …', note: 'in whole versions, rounded up', late: true },
  ),
  means(
    'trainer.v1.separate_async.num_warmup_batches',
    'mode.staleness',
    [1, 2],
    (batches: number, context): Readonly<Record<string, unknown>> | { note: string } =>
      context.option('mode.kind') === 'asynchronous'
        ? { 'mode.staleness': batches }
        : { note: 'trainer.v1.separate_async.num_warmup_batches: for trainer_mode=separate_async only' },
    {
      note: 'batches in progress beyond the one that is trained',
      beside: { 'trainer.v1.trainer_mode': 'separate_async' },
      late: true,
    },
  ),
  means(
    'trainer.v1.colocate_async.num_warmup_batches',
    ['mode.extraTasks', 'mode.staleness'],
    [1, 2],
    (batches: number, { option }): Readonly<Record<string, unknown>> | { note: string } =>
      option('mode.kind') === 'partial'
        ? {
            'mode.extraTasks': batches * Number(option('tasksPerStep')),
            'mode.staleness': Math.max(1, batches),
          }
        : { note: 'trainer.v1.colocate_async.num_warmup_batches: for trainer_mode=colocate_async only' },
    {
      note: 'batches in progress beyond the one that is trained',
      beside: { 'trainer.v1.trainer_mode': 'colocate_async' },
      late: true,
    },
  ),
  means(
    'trainer.v1.sampler.max_off_policy_threshold',
    'mode.staleness',
    [2, 8],
    (threshold: number, context): Readonly<Record<string, unknown>> | { note: string } =>
      readsStaleness(context)
        ? { 'mode.staleness': threshold - 1 }
        : {
            note: `trainer.v1.sampler.max_off_policy_threshold=${threshold}: a synchronous run is on-policy`,
          },
    {
      note: 'verl counts the step itself, so 1 is on-policy',
      beside: { 'trainer.v1.trainer_mode': 'separate_async' },
      late: true,
    },
  ),
  elsewhere(
    'trainer.v1.sampler.max_off_policy_strategy',
    'nothing is begun that could be too stale when it is trained, so nothing is dropped',
    ['drop', 'wait'],
  ),
  elsewhere('trainer.v1.separate_async.parameter_sync_step', 'weights are sent after every step', [4, 1]),
  elsewhere('trainer.v1.separate_async.hybrid_rollout.*', 'servers are where they are', [true, false]),
  always('async_training.partial_rollout', true, false, 'a reply goes on with new weights'),
  elsewhere('async_training.trigger_parameter_sync_step', 'weights are sent after every step', [4, 1]),
  elsewhere('async_training.require_batches', 'a step is tasksPerStep groups', [1, 2]),
  elsewhere('async_training.use_trainer_do_validate', 'the servers evaluate', [true, false]),
  elsewhere(
    'async_training.concurrent_samples_per_replica',
    '`concurrency` bounds the trajectories in progress',
    [16, 8],
  ),
];
