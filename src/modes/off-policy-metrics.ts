import type { Group, Metrics } from '../types.ts';

/**
 * How far behind the weights that sampled were, per trajectory, against `version`, which is trained now. Names are
 * verl's: `staleness` of the newest token, `staleness_worst` of the oldest, `spans` how many versions it went through.
 */
export function offPolicyMetrics<T>(groups: readonly Group<T>[], version: number): Metrics {
  const ranges = groups.flatMap(({ attempts }) =>
    attempts.flatMap(({ trajectory }) => {
      const versions = trajectory.segments.flatMap((segment) =>
        [...segment.versions].filter((_, at) => segment.sampled[at]),
      );
      if (versions.length === 0) return [];
      return [
        versions.reduce(
          ({ oldest, newest }, one) => ({ oldest: Math.min(oldest, one), newest: Math.max(newest, one) }),
          { oldest: versions[0]!, newest: versions[0]! },
        ),
      ];
    }),
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

function spread(name: string, values: readonly number[]): Metrics {
  return {
    [`training/off_policy/${name}/mean`]: values.reduce((sum, value) => sum + value, 0) / values.length,
    [`training/off_policy/${name}/max`]: Math.max(...values),
    [`training/off_policy/${name}/min`]: Math.min(...values),
  };
}
