import type { Task, Trajectory } from '../types.ts';

export interface RewardContext<T = Task> {
  readonly task: T;
  readonly trajectory: Trajectory<T>;
  /** Aborts when the reward is out of time or the run stops. */
  readonly signal: AbortSignal;
}

/** What one trajectory is worth: a named, weighted, time-limited function. */
export interface Reward<T = Task> {
  readonly kind: 'trajectory';
  readonly name: string;
  /** 0 logs the number without training on it. */
  readonly weight: number;
  readonly timeoutMs: number;
  score(context: RewardContext<T>): number | Promise<number>;
}

export interface RewardOptions {
  readonly weight?: number;
  readonly timeoutMs?: number;
}

export function reward<T = Task>(
  name: string,
  score: (context: RewardContext<T>) => number | Promise<number>,
  { weight = 1, timeoutMs = 30_000 }: RewardOptions = {},
): Reward<T> {
  return { kind: 'trajectory', name, weight, timeoutMs, score };
}
