import type { Task, Trajectory } from '../types.ts';

/** What a reward is given: the task and the finished trajectory. */
export interface RewardContext<T = Task> {
  readonly task: T;
  readonly trajectory: Trajectory<T>;
  /**
   * Everything after the first prompt, tool results included, special tokens removed: verl's `solution_str`. Where
   * there is no tokenizer (a stop condition, `rollcall score`) it is the last reply.
   */
  readonly solution: string;
  /** Aborts when the reward is out of time or the run stops. */
  readonly signal: AbortSignal;
}

/** A number, or numbers by name: `score` counts, the others are logged as `NAME/key`. */
export type RewardValue = number | ({ readonly score: number } & Readonly<Record<string, number>>);

interface Named {
  readonly name: string;
  /** 0 logs the number without training on it. */
  readonly weight: number;
  readonly timeoutMs: number;
}

/** What one trajectory is worth: a named, weighted, time-limited function, asked as soon as the trajectory ends. */
export interface TrajectoryReward<T = Task> extends Named {
  readonly kind: 'trajectory';
  score(context: RewardContext<T>): RewardValue | Promise<RewardValue>;
}

/** What a reward of several trajectories is given: a whole group or a whole batch. */
export interface SharedContext<T = Task> {
  /** The trajectories that can be scored; failed ones are not among them. */
  readonly trajectories: readonly Trajectory<T>[];
  readonly signal: AbortSignal;
}

/**
 * What trajectories are worth beside each other: one number for each, in their order. `group`: all attempts at one
 * task, asked when the last has ended. `batch`: all of a step.
 */
export interface SharedReward<T = Task> extends Named {
  readonly kind: 'group' | 'batch';
  score(context: SharedContext<T>): readonly number[] | Promise<readonly number[]>;
}

/** A reward of one trajectory, of a group or of a batch. */
export type Reward<T = Task> = TrajectoryReward<T> | SharedReward<T>;

/** Options that all rewards share. */
export interface RewardOptions {
  readonly weight?: number;
  readonly timeoutMs?: number;
}

/** A reward of one trajectory: a name, and a function that returns a number or named numbers. */
export function reward<T = Task>(
  name: string,
  score: (context: RewardContext<T>) => RewardValue | Promise<RewardValue>,
  { weight = 1, timeoutMs = 30_000 }: RewardOptions = {},
): TrajectoryReward<T> {
  return { kind: 'trajectory', name, weight, timeoutMs, score };
}

/** A reward that sees all attempts at a task at once and returns one value for each. */
export function groupReward<T = Task>(
  name: string,
  score: SharedReward<T>['score'],
  { weight = 1, timeoutMs = 30_000 }: RewardOptions = {},
): SharedReward<T> {
  return { kind: 'group', name, weight, timeoutMs, score };
}

/** A reward that sees all trajectories of a step at once and returns one value for each. */
export function batchReward<T = Task>(
  name: string,
  score: SharedReward<T>['score'],
  { weight = 1, timeoutMs = 30_000 }: RewardOptions = {},
): SharedReward<T> {
  return { kind: 'batch', name, weight, timeoutMs, score };
}
