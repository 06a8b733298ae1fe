import { ConfigError } from '../../errors.ts';
import { number, text } from '../../lib/setting.ts';
import { always, means, noEffect, type ReadingContext, shown, type VerlRow } from '../row.ts';

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
    text,
    ['sync', 'separate_async'],
    (mode, { option }) => {
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
      note: 'synchronous, partial (a batch continues across the update), asynchronous: docs/modes.md',
      late: true,
    },
  ),
  means(
    'async_training.staleness_threshold',
    ['mode.kind', 'mode.staleness'],
    number,
    [0.5, 2],
    (share) => ({ 'mode.kind': 'asynchronous', 'mode.staleness': Math.ceil(share) }),
    { values: '0.1, 1, …', note: 'in whole versions, rounded up', late: true },
  ),
  means(
    'trainer.v1.separate_async.num_warmup_batches',
    'mode.staleness',
    number,
    [1, 2],
    (batches, context) =>
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
    number,
    [1, 2],
    (batches, { option }) =>
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
    number,
    [2, 8],
    (threshold, context) =>
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
  noEffect(
    'trainer.v1.sampler.max_off_policy_strategy',
    'nothing is started that could be too stale when it is trained, so nothing is dropped',
    ['drop', 'wait'],
  ),
  noEffect(
    'trainer.v1.separate_async.parameter_sync_step',
    'it would need weights that are sent after several steps; here they are sent after every one',
    [4, 1],
  ),
  noEffect('trainer.v1.separate_async.hybrid_rollout.*', 'the set of servers does not change during a run', [
    true,
    false,
  ]),
  always('async_training.partial_rollout', true, false, 'a reply continues with new weights'),
  noEffect(
    'async_training.trigger_parameter_sync_step',
    'it would need weights that are sent after several steps; here they are sent after every one',
    [4, 1],
  ),
  noEffect('async_training.require_batches', 'a step is tasksPerStep groups', [1, 2]),
  noEffect('async_training.use_trainer_do_validate', 'the servers evaluate', [true, false]),
  noEffect(
    'async_training.concurrent_samples_per_replica',
    '`concurrency` bounds the trajectories in progress',
    [16, 8],
  ),
];
