import type { Limits } from '../agent/limits.ts';
import type { Activity } from '../lib/activity.ts';
import type { Clock } from '../lib/clock.ts';
import type { ResolvedOptions } from '../options.ts';
import type { RolloutOptions } from '../rollout/options.ts';
import type { Scored } from '../types.ts';
import type { Parts } from './open-parts.ts';
import type { Records } from './records.ts';

interface RolloutSetting extends Pick<Parts<never>, 'server' | 'format' | 'images' | 'door'> {
  /** The run's limits, within what its servers can. */
  readonly limits: Limits;
  readonly clock: Clock;
  readonly activity: Activity;
  readonly records: Pick<Records, 'addEvaluated'>;
}

/** How trajectories of a step are rolled out: for training, or for an evaluation. */
export function rolloutOptions<T>(
  options: ResolvedOptions<T>,
  { server, format, images, door, limits, clock, activity, records }: RolloutSetting,
  step: number,
  purpose?: 'evaluation',
): Omit<RolloutOptions<T>, 'tasks' | 'attempts'> {
  const { agent, rewards, sampling, endpoint, evaluation, seed, concurrency, failures, signal } = options;
  return {
    agent,
    rewards,
    server,
    format,
    images,
    door,
    ...(endpoint.train.length > 0 && { train: endpoint.train }),
    limits,
    sampling: purpose ? { ...sampling, temperature: evaluation.temperature } : sampling,
    step,
    seed,
    concurrency,
    clock,
    activity,
    failures,
    ...(signal ? { signal } : {}),
    ...(purpose && { onTrajectory: (scored: Scored<T>) => records.addEvaluated(scored as Scored) }),
    onProgress: (progress) =>
      options.onProgress?.({
        step: progress.step,
        phase: purpose ?? 'rollout',
        done: Math.min(progress.finished, progress.total), // more may be in progress than a step needs
        total: progress.total,
        tokens: progress.sampledTokens,
      }),
  };
}
