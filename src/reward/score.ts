/** Scores a finished trajectory by every reward. A reward that keeps failing fails the attempt, not the run. */
import { ConfigError, RewardError } from '../errors.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { withTimeLimit } from '../lib/time-limit.ts';
import type { Span, Trajectory } from '../types.ts';
import type { Reward } from './reward.ts';

export interface ScoreOptions {
  readonly clock: Clock;
  /** Tries after the first, of each reward. */
  readonly retries: number;
  readonly signal?: AbortSignal | undefined;
}

export interface Score {
  readonly rewards: Readonly<Record<string, number>>;
  /** The weighted sum. */
  readonly reward: number;
  readonly spans: readonly Span[];
}

/** Rejects with RewardError, or with the signal's reason. */
export async function scoreTrajectory<T>(
  trajectory: Trajectory<T>,
  rewards: readonly Reward<T>[],
  options: ScoreOptions,
): Promise<Score> {
  const spans: Span[] = [];
  const values = await Promise.all(
    rewards.map(async (reward) => {
      const start = options.clock.now();
      const value = await scoreWithRetries(trajectory, reward, options);
      spans.push({
        kind: 'reward',
        name: reward.name,
        turn: trajectory.turns.length,
        start,
        end: options.clock.now(),
      });
      return value;
    }),
  );
  return {
    rewards: Object.fromEntries(rewards.map(({ name }, index) => [name, values[index]!])),
    reward: rewards.reduce((sum, { weight }, index) => sum + weight * values[index]!, 0),
    spans,
  };
}

async function scoreWithRetries<T>(
  trajectory: Trajectory<T>,
  reward: Reward<T>,
  { clock, retries, signal }: ScoreOptions,
): Promise<number> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await scoreOnce(trajectory, reward, clock, signal);
    } catch (cause) {
      signal?.throwIfAborted();
      if (attempt >= retries) {
        if (cause instanceof RewardError) throw cause;
        const why = cause instanceof Error ? cause.message : String(cause);
        throw new RewardError(`reward '${reward.name}' failed on trajectory ${trajectory.id}: ${why}`, {
          cause,
        });
      }
      await sleep(clock, 100 * 2 ** attempt, signal);
    }
  }
}

async function scoreOnce<T>(
  trajectory: Trajectory<T>,
  reward: Reward<T>,
  clock: Clock,
  signal: AbortSignal | undefined,
): Promise<number> {
  const value = await withTimeLimit(
    (limited) => reward.score({ task: trajectory.task, trajectory, signal: limited }),
    { milliseconds: reward.timeoutMs, clock, signal },
  );
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw new RewardError(
      `reward '${reward.name}' gave ${String(value)} for trajectory ${trajectory.id}; a reward is a finite number`,
    );
  }
  return value;
}

/** Throws a ConfigError for names given twice and weights that are not finite. */
export function checkRewards(rewards: readonly Pick<Reward, 'name' | 'weight'>[]): void {
  const names = new Set<string>();
  for (const { name, weight } of rewards) {
    if (names.has(name)) throw new ConfigError(`two rewards are named '${name}'; names must differ`);
    if (!Number.isFinite(weight)) {
      throw new ConfigError(`reward '${name}' has weight ${weight}; a weight is a finite number`);
    }
    names.add(name);
  }
}
