import type { Agent } from '../agent/agent.ts';
import type { Door } from '../agent/endpoint.ts';
import type { Limits } from '../agent/limits.ts';
import type { Sampling } from '../agent/sampling.ts';
import type { ChatFormat } from '../chat/format.ts';
import type { InferenceServer } from '../inference/server.ts';
import type { Activity } from '../lib/activity.ts';
import type { Clock } from '../lib/clock.ts';
import type { Reward } from '../reward/reward.ts';
import type { ImageBlobs } from '../services/image-blobs.ts';
import type { Scored, Task } from '../types.ts';
import type { RolloutProgress } from './progress.ts';
import type { Retrace } from './retrace.ts';

/** What a rollout needs: tasks, an agent, rewards, a server and a chat format. */
export interface RolloutOptions<T = Task> {
  /** With each task its position in the dataset: its name in seeds, ids and logs. */
  readonly tasks: readonly { readonly index: number; readonly task: T }[];
  readonly attempts: number;
  readonly step: number;
  readonly agent: Agent<T>;
  /** An inference server, or a gateway in front of several. */
  readonly server: Pick<InferenceServer, 'generate' | 'ended'>;
  readonly format: ChatFormat;
  readonly rewards: readonly Reward<T>[];
  readonly limits?: Partial<Limits>;
  readonly sampling?: Partial<Sampling>;
  /** The run's seed. */
  readonly seed: number;
  /** First part of trajectory ids. */
  readonly name?: string;
  /** The validation set that the tasks belong to; their ids are kept apart from those of training. */
  readonly evaluation?: string;
  /** Trajectories in progress at once. */
  readonly concurrency?: number;
  /** Ends every trajectory as cancelled; the rollout still resolves, with what there is. */
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
  /** Where clients from outside come in; without it, one for this rollout. */
  readonly door?: Door | undefined;
  /** Names of the agents whose replies are trained; undefined: all. */
  readonly train?: readonly string[] | undefined;
  /** Where it is told what goes on. */
  readonly activity?: Activity;
  /** Where images of tasks and tools are kept; without it there are none. */
  readonly images?: ImageBlobs | undefined;
  /** Every attempt begins as a recorded one did. */
  readonly retrace?: Retrace;
  /** The first agent that throws stops the rollout with its error; otherwise it is a failed attempt. */
  readonly stopOnAgentFailure?: boolean;
  readonly failures?: {
    /** More than this share of attempts failed for one cause: the rollout throws and names it. */
    readonly tolerateShare?: number;
    /** Tries after the first, of a trajectory whose environment failed and of a reward. */
    readonly retries?: number;
  };
  /** Called as each attempt ends, in order of arrival. */
  onTrajectory?(scored: Scored<T>): void;
  onProgress?(progress: RolloutProgress): void;
}

/** What all groups of a rollout share. */
export type SharedOptions<T> = Omit<RolloutOptions<T>, 'tasks' | 'attempts' | 'step'>;
