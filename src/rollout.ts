/**
 * Many trajectories at once. Every attempt at every task advances on its own: while one waits for a tool, others
 * sample. What comes back is in the order of the tasks, whatever finished first, and does not depend on arrival:
 * the seed of a sample is a hash of (run seed, step, task, attempt, reply).
 *
 *   task ─► attempts ─► agent ⇄ chat ⇄ server   runTrajectory: one attempt, until it ends
 *                         └─► rewards           scoreTrajectory
 *                               └─► Group
 */
import { setMaxListeners } from 'node:events';
import type { Agent } from './agent/agent.ts';
import type { Limits } from './agent/limits.ts';
import type { Sampling } from './agent/sampling.ts';
import type { ChatFormat } from './chat/format.ts';
import type { InferenceServer } from './inference/server.ts';
import { type Clock, realClock } from './lib/clock.ts';
import { semaphore } from './lib/semaphore.ts';
import type { Reward } from './reward/reward.ts';
import { checkRewards } from './reward/score.ts';
import { attemptTask } from './rollout/attempt.ts';
import { watchFailures } from './rollout/failures.ts';
import { renderedOnce } from './rollout/first-prompt.ts';
import { countProgress, type RolloutProgress } from './rollout/progress.ts';
import { scoreBatch, scoreGroup } from './rollout/score.ts';
import type { ImageBlobs } from './services/image-blobs.ts';
import type { Group, Scored, Task } from './types.ts';

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
  /** The validation set that the tasks are of; their ids are kept apart from those of training. */
  readonly evaluation?: string;
  /** Trajectories in progress at once. */
  readonly concurrency?: number;
  /** Ends every trajectory as cancelled; the rollout still resolves, with what there is. */
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
  /** Where images of tasks and tools are kept; without it there are none. */
  readonly images?: ImageBlobs | undefined;
  /** The first agent that throws stops the rollout with an error: for `preview` and the first step. */
  readonly stopOnAgentFailure?: boolean;
  /** More than this share of attempts failed for one cause: the rollout throws and names it. */
  readonly tolerateFailedShare?: number;
  /** Tries after the first, of a trajectory whose environment failed and of a reward. */
  readonly retries?: number;
  /** Called as each attempt ends, in order of arrival. */
  onTrajectory?(scored: Scored<T>): void;
  onProgress?(progress: RolloutProgress): void;
}

/** Groups in the order of `tasks`, attempts in order. Failed attempts are in their groups, without a reward. */
export async function rollout<T = Task>(options: RolloutOptions<T>): Promise<Group<T>[]> {
  const { tasks, attempts, step } = options;
  const rolling = openRollout(options);
  rolling.begin(tasks.length * attempts);
  const groups = await Promise.all(
    tasks.map(({ index, task }) => rolling.group({ index, task, step, firstAttempt: 0, attempts })),
  );
  rolling.throwIfTooMany();
  return rolling.scoreBatch(groups);
}

/** One group to roll out. */
interface GroupToRoll<T> {
  readonly index: number;
  readonly task: T;
  readonly step: number;
  /** Attempts are numbered from here. */
  readonly firstAttempt: number;
  readonly attempts: number;
  /** The group is the first so many attempts that end without failing, and the rest is cancelled; default all. */
  readonly wanted?: number;
  readonly signal?: AbortSignal;
}

/** A rollout group by group: what all of them share is opened once. */
export interface Rollout<T> {
  /** A step begins: progress and failures are counted from 0, against so many attempts or more. */
  begin(attempts: number, options?: { readonly stopOnAgentFailure?: boolean }): void;
  group(request: GroupToRoll<T>): Promise<Group<T>>;
  /** Rewards that see a whole batch. */
  scoreBatch(groups: readonly Group<T>[]): Promise<Group<T>[]>;
  throwIfTooMany(): void;
}

export function openRollout<T>(options: Omit<RolloutOptions<T>, 'tasks' | 'attempts' | 'step'>): Rollout<T> {
  checkRewards(options.rewards);
  const { clock = realClock(), concurrency = 256, rewards, retries = 2 } = options;
  const slots = semaphore(concurrency);
  const stop = new AbortController();
  const stopping = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  setMaxListeners(0, stopping); // every trajectory listens
  let progress = countProgress<T>(options.onProgress, 0);
  const failures = watchFailures<T>(options.tolerateFailedShare);
  const scoring = { rewards, retries, clock };
  const scoredAlone = rewards.every(({ kind }) => kind === 'trajectory');

  return {
    begin: (attempts, { stopOnAgentFailure = options.stopOnAgentFailure ?? false } = {}) => {
      progress = countProgress<T>(options.onProgress, attempts);
      failures.begin(attempts, stopOnAgentFailure);
    },
    group: async ({ index, task, step, firstAttempt, attempts, wanted = attempts, signal: cancel }) => {
      const enough = new AbortController();
      const stopped = cancel ? AbortSignal.any([stopping, cancel]) : stopping;
      const signal = AbortSignal.any([stopped, enough.signal]);
      setMaxListeners(0, stopped);
      setMaxListeners(0, signal);
      const shared = {
        step,
        taskIndex: index,
        task,
        queuedAt: clock.now(),
        renderPrompt: renderedOnce(options.format),
      };
      const ended: Scored<T>[] = [];
      let good = 0;
      const attempt = async (number: number) => {
        const counted = progress;
        counted.started();
        failures.started();
        const setup = { ...shared, attempt: firstAttempt + number };
        const scored = await attemptTask(options, setup, { ...scoring, signal });
        counted.ended(scored);
        failures.ended();
        if (scoredAlone) options.onTrajectory?.(scored);
        if (failures.add(scored.trajectory)) stop.abort('the rollout failed');
        ended.push(scored);
        if (scored.trajectory.end.kind !== 'failed' && ++good === wanted && wanted < attempts)
          enough.abort('enough attempts of its group are done');
      };
      await Promise.all(Array.from({ length: attempts }, (_, number) => slots.run(() => attempt(number))));
      const first = firstOf(ended, wanted);
      const scored = await scoreGroup(first, { ...scoring, signal: stopped });
      return { taskIndex: index, task, attempts: scored };
    },
    scoreBatch: async (groups) => {
      const scored = await scoreBatch(groups, { ...scoring, signal: stopping });
      if (scoredAlone) return scored;
      for (const attempt of scored.flatMap((group) => group.attempts)) {
        options.onTrajectory?.(attempt);
        const { end } = attempt.trajectory;
        if (end.kind === 'failed' && end.boundary === 'reward') failures.add(attempt.trajectory);
      }
      failures.throwIfTooMany();
      return scored;
    },
    throwIfTooMany: failures.throwIfTooMany,
  };
}

/** The first `wanted` that did not fail, completed by failed ones where there are too few; in order of attempt. */
function firstOf<T>(ended: readonly Scored<T>[], wanted: number): Scored<T>[] {
  const failed = (scored: Scored<T>) => (scored.trajectory.end.kind === 'failed' ? 1 : 0);
  return [...ended]
    .sort((one, other) => failed(one) - failed(other)) // stable: in the order in which they ended
    .slice(0, wanted)
    .sort((one, other) => one.trajectory.attempt - other.trajectory.attempt);
}
