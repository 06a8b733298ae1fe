import type { Group, Metrics, Trajectory } from '../types.ts';

/**
 * How far behind the weights that sampled were, per trajectory, against `version`, which is trained now. Names are
 * verl's: `staleness` of the newest token, `staleness_worst` of the oldest, `spans` how many versions it went through.
 */
export function offPolicyMetrics<T>(groups: readonly Group<T>[], version: number): Metrics {
  const ranges = groups.flatMap(({ attempts }) =>
    attempts.map(({ trajectory }) => versionsOf(trajectory)).filter(({ newest }) => newest >= 0),
  );
  if (ranges.length === 0) return {};
  const partial = ranges.filter(({ oldest, newest }) => newest > oldest).length;
  return {
    ...spread(
      'trajectory_staleness',
      ranges.map(({ newest }) => version - newest),
    ),
    ...spread(
      'trajectory_staleness_worst',
      ranges.map(({ oldest }) => version - oldest),
    ),
    ...spread(
      'trajectory_spans',
      ranges.map(({ oldest, newest }) => newest - oldest + 1),
    ),
    'fully_async/partial/total_partial_num': partial,
    'fully_async/partial/partial_ratio': partial / ranges.length,
  };
}

/** Versions of the sampled tokens; `newest` is −1 if there are none. */
function versionsOf<T>({ segments }: Trajectory<T>): { oldest: number; newest: number } {
  let [oldest, newest] = [Number.POSITIVE_INFINITY, -1];
  for (const { versions, sampled } of segments) {
    for (let at = 0; at < versions.length; at++) {
      if (!sampled[at]) continue;
      oldest = Math.min(oldest, versions[at]!);
      newest = Math.max(newest, versions[at]!);
    }
  }
  return { oldest, newest };
}

function spread(name: string, values: readonly number[]): Metrics {
  return {
    [`training/off_policy/${name}/mean`]: values.reduce((sum, value) => sum + value, 0) / values.length,
    [`training/off_policy/${name}/max`]: values.reduce((one, other) => Math.max(one, other)),
    [`training/off_policy/${name}/min`]: values.reduce((one, other) => Math.min(one, other)),
  };
}
