/** Scores finished trajectories by every reward. A reward that keeps failing fails the attempt, not the run. */

import { ConfigError, RewardError } from '../errors.ts';
import type { Activity } from '../lib/activity.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { withTimeLimit } from '../lib/time-limit.ts';
import type { Scored, Span, Trajectory } from '../types.ts';
import type { Reward, RewardValue, SharedReward, TrajectoryReward } from './reward.ts';

export interface RewardScoring {
  readonly clock: Clock;
  /** Where it is told what goes on. */
  readonly activity?: Activity | undefined;
  /** Tries after the first, of each reward. */
  readonly retries: number;
  readonly signal?: AbortSignal | undefined;
  /** The solution text of a trajectory; its last reply if not given. */
  readonly solutionOf?: (trajectory: Trajectory<unknown>) => string;
}

export interface Score {
  readonly rewards: Readonly<Record<string, number>>;
  /** The weighted sum. */
  readonly reward: number;
  readonly spans: readonly Span[];
}

/** By the rewards of single trajectories. Rejects with RewardError, or with the signal's reason. */
export async function scoreTrajectory<T>(
  trajectory: Trajectory<T>,
  rewards: readonly Reward<T>[],
  options: RewardScoring,
): Promise<Score> {
  const spans: Span[] = [];
  const solution = options.solutionOf?.(trajectory) ?? trajectory.text;
  const own = rewards.filter((reward): reward is TrajectoryReward<T> => reward.kind === 'trajectory');
  const values = await Promise.all(
    own.map(async (reward) => {
      const start = options.clock.now();
      const value = await withRetries(reward, `trajectory ${trajectory.id}`, options, async (signal) =>
        readValue(reward.name, await reward.score({ task: trajectory.task, trajectory, solution, signal }), {
          id: trajectory.id,
        }),
      );
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
  const reward = own.reduce((sum, { weight }, index) => sum + weight * values[index]!.score, 0);
  return {
    rewards: Object.assign({}, ...values.map(({ logged }) => logged)),
    reward: finiteSum(reward, trajectory.id),
    spans,
  };
}

/** Rewards of turns and tools. Throws RewardError for one that is not finite. */
export function checkOwnRewards({ id, turns }: Trajectory<unknown>): void {
  for (const { reward, toolRuns } of turns) {
    if (reward !== undefined) finite('turn', reward, id);
    for (const run of toolRuns) if (run.reward !== undefined) finite(run.call.name, run.reward, id);
  }
}

/** By the rewards of one kind that see trajectories beside each other. If one fails, all of these attempts do. */
export async function scoreTogether<T>(
  attempts: readonly Scored<T>[],
  kind: SharedReward['kind'],
  rewards: readonly Reward<T>[],
  options: RewardScoring,
): Promise<Scored<T>[]> {
  const shared = rewards.filter((reward): reward is SharedReward<T> => reward.kind === kind);
  const isScored = ({ reward, trajectory }: Scored<T>) =>
    reward !== undefined && trajectory.ownReward === undefined;
  const trajectories = attempts.filter(isScored).map(({ trajectory }) => trajectory);
  if (shared.length === 0 || trajectories.length === 0) return [...attempts];
  const values = await Promise.all(
    shared.map((reward) =>
      withRetries(reward, `the ${kind} of trajectory ${trajectories[0]!.id}`, options, async (signal) => {
        const scores = await reward.score({ trajectories, signal });
        if (!Array.isArray(scores) || scores.length !== trajectories.length) {
          const given = Array.isArray(scores) ? `${scores.length} numbers` : String(scores);
          throw new RewardError(
            `reward '${reward.name}' gave ${given} for ${trajectories.length} trajectories; one each is needed`,
          );
        }
        return scores.map((score, index) => finite(reward.name, score, trajectories[index]!.id));
      }),
    ),
  );
  let place = 0;
  return attempts.map((attempt) => {
    if (!isScored(attempt)) return attempt;
    const at = place++;
    return {
      ...attempt,
      rewards: {
        ...attempt.rewards,
        ...Object.fromEntries(shared.map(({ name }, index) => [name, values[index]![at]!])),
      },
      reward: finiteSum(
        shared.reduce((sum, { weight }, index) => sum + weight * values[index]![at]!, attempt.reward!),
        attempt.trajectory.id,
      ),
    };
  });
}

async function withRetries<R>(
  { name, timeoutMs }: Pick<Reward, 'name' | 'timeoutMs'>,
  what: string,
  { clock, retries, signal, activity }: RewardScoring,
  score: (signal: AbortSignal) => Promise<R>,
): Promise<R> {
  const once = () => withTimeLimit(score, { milliseconds: timeoutMs, clock, signal });
  for (let attempt = 0; ; attempt++) {
    try {
      return await (activity?.during({ stage: 'reward', name, trajectory: what }, once) ?? once());
    } catch (cause) {
      signal?.throwIfAborted();
      if (attempt >= retries) {
        if (cause instanceof RewardError) throw cause;
        const why = messageOf(cause);
        throw new RewardError(`reward '${name}' failed on ${what}: ${why}`, { cause });
      }
      await sleep(clock, 100 * 2 ** attempt, signal);
    }
  }
}

function readValue(name: string, value: RewardValue, { id }: { readonly id: string }) {
  if (typeof value !== 'object' || value === null) {
    const score = finite(name, value, id);
    return { score, logged: { [name]: score } };
  }
  const logged = Object.entries(value).map(([key, number]) => [
    key === 'score' ? name : `${name}/${key}`,
    finite(name, number, id),
  ]);
  return { score: finite(name, value.score, id), logged: Object.fromEntries(logged) };
}

function finite(name: string, value: unknown, id: string): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw new RewardError(
    `reward '${name}' gave ${String(value)} for trajectory ${id}; a reward is a finite number`,
  );
}

function finiteSum(reward: number, id: string): number {
  if (Number.isFinite(reward)) return reward;
  throw new RewardError(`the rewards of trajectory ${id} add up to ${reward}; a reward is a finite number`);
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
