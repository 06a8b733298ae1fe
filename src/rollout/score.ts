import type { ChatFormat } from '../chat/format.ts';
import { ConfigError, RewardError } from '../errors.ts';
import type { Activity } from '../lib/activity.ts';
import type { Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import type { Reward } from '../reward/reward.ts';
import { checkOwnRewards, scoreTogether, scoreTrajectory } from '../reward/score.ts';
import type { End, Group, Scored, Trajectory } from '../types.ts';

export interface Scoring<T> {
  readonly rewards: readonly Reward<T>[];
  /** Tries after the first. */
  readonly retries: number;
  readonly clock: Clock;
  readonly activity?: Activity | undefined;
  readonly signal: AbortSignal;
}

/** The rewards of one trajectory alone. Failed and cancelled ones get none. */
export async function scoreAttempt<T>(
  trajectory: Trajectory<T>,
  format: ChatFormat,
  { rewards, ...setting }: Scoring<T>,
): Promise<Scored<T>> {
  if (trajectory.end.kind === 'failed' || trajectory.end.kind === 'cancelled') return unscored(trajectory);
  const { ownReward } = trajectory;
  try {
    checkOwnRewards(trajectory);
    if (ownReward !== undefined) return { trajectory, rewards: { agent: ownReward }, reward: ownReward };
    if (rewards.length === 0) return unscored(trajectory);
    const {
      rewards: values,
      reward,
      spans,
    } = await scoreTrajectory(trajectory, rewards, {
      ...setting,
      solutionOf: (one) => solutionOf(one, format),
    });
    return {
      trajectory: { ...trajectory, spans: [...trajectory.spans, ...spans] },
      rewards: values,
      reward,
    };
  } catch (error) {
    return unscored(trajectory, endOfScoring(error, setting.signal));
  }
}

/** Adds the rewards that see a whole group. */
export function scoreGroup<T>(attempts: readonly Scored<T>[], scoring: Scoring<T>) {
  return scoreBeside(attempts, 'group', scoring);
}

/** Adds the rewards that see a whole batch, in the order of the tasks. */
export async function scoreBatch<T>(groups: readonly Group<T>[], scoring: Scoring<T>): Promise<Group<T>[]> {
  const all = groups.flatMap((group) => group.attempts);
  const scored = await scoreBeside(all, 'batch', scoring);
  let next = 0;
  return groups.map((group) => ({ ...group, attempts: group.attempts.map(() => scored[next++]!) }));
}

async function scoreBeside<T>(
  attempts: readonly Scored<T>[],
  kind: 'group' | 'batch',
  { rewards, ...setting }: Scoring<T>,
): Promise<readonly Scored<T>[]> {
  try {
    return await scoreTogether(attempts, kind, rewards, setting);
  } catch (error) {
    const end = endOfScoring(error, setting.signal);
    return attempts.map((attempt) =>
      attempt.reward === undefined || attempt.trajectory.ownReward !== undefined
        ? attempt
        : unscored(attempt.trajectory, end),
    );
  }
}

/** Without rewards the agent must score each trajectory itself. */
export function checkOwnScores<T>({ attempts }: Group<T>): void {
  const unscored = attempts.find(({ trajectory: { end }, reward }) => {
    return reward === undefined && (end.kind === 'completed' || end.kind === 'truncated');
  });
  if (!unscored) return;
  throw new ConfigError(
    `rewards is empty, and the agent did not score trajectory ${unscored.trajectory.id} itself; give a reward, or call ` +
      'context.reward(value) in the agent',
  );
}

function endOfScoring(error: unknown, signal: AbortSignal): End {
  if (signal.aborted) return { kind: 'cancelled', why: reasonOf(signal) };
  if (!(error instanceof RewardError)) throw error;
  return { kind: 'failed', boundary: 'reward', message: error.message };
}

/** What follows the first prompt, results included, as text without special tokens. */
function solutionOf({ segments, text }: Trajectory<unknown>, format: ChatFormat): string {
  const last = segments.at(-1);
  const begin = last?.sampled.indexOf(1) ?? -1;
  return last && begin >= 0 ? format.parseReply(last.ids.slice(begin), []).text : text;
}

const unscored = <T>(trajectory: Trajectory<T>, end: End = trajectory.end): Scored<T> => ({
  trajectory: { ...trajectory, end },
  rewards: {},
  reward: undefined,
});

function reasonOf({ reason }: AbortSignal): string {
  return messageOf(reason);
}
