import type { Agent } from './agent/agent.ts';
import type { Limits } from './agent/limits.ts';
import type { Sampling } from './agent/sampling.ts';
import type { ChatFormat } from './chat/format.ts';
import type { InferenceServer } from './inference/server.ts';
import type { Clock } from './lib/clock.ts';
import type { Reward } from './reward/reward.ts';
import type { Group, Scored, Task } from './types.ts';

export interface RolloutOptions<T = Task> {
  /** With each task its position in the dataset: its name in seeds, ids and logs. */
  readonly tasks: readonly { readonly index: number; readonly task: T }[];
  readonly attempts: number;
  readonly step: number;
  readonly agent: Agent<T>;
  /** An inference server, or a gateway in front of several. */
  readonly server: Pick<InferenceServer, 'generate'>;
  readonly format: ChatFormat;
  readonly rewards: readonly Reward<T>[];
  readonly limits?: Partial<Limits>;
  readonly sampling?: Partial<Sampling>;
  /** The run's seed. A sample's is a hash of (seed, step, task, attempt, turn). */
  readonly seed: number;
  /** First part of trajectory ids; keeps those of an evaluation apart from those of training. */
  readonly name?: string;
  /** Trajectories in progress at once. */
  readonly concurrency?: number;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
  /** The text of a task's first prompt may contain special tokens, and they become such tokens. */
  readonly trustPrompt?: boolean;
  /** The first agent that throws stops the rollout with an error: for `preview` and the first step. */
  readonly stopOnAgentFailure?: boolean;
  /** More than this share of attempts failed for one cause: the rollout throws and names it. */
  readonly tolerateFailedShare?: number;
  /** Tries after the first, of a trajectory whose environment failed and of a reward. */
  readonly retries?: number;
  onTrajectory?(scored: Scored<T>): void;
  onProgress?(progress: RolloutProgress): void;
}

export interface RolloutProgress {
  readonly finished: number;
  readonly running: number;
  readonly total: number;
  readonly sampledTokens: number;
}

/** Groups in the order of `tasks`, attempts in order, whatever finished first. */
export type Rollout = <T = Task>(options: RolloutOptions<T>) => Promise<Group<T>[]>;
