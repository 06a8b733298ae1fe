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
import { ENDPOINT_RULES } from './agent/endpoint.ts';
import { type Clock, realClock } from './lib/clock.ts';
import { type Semaphore, semaphore } from './lib/semaphore.ts';
import type { GroupRequest, GroupRollout } from './modes/group-source.ts';
import { checkRewards } from './reward/score.ts';
import { type AttemptSetup, attemptTask } from './rollout/attempt.ts';
import { type Failures, watchFailures } from './rollout/failures.ts';
import { renderedOnce } from './rollout/first-prompt.ts';
import type { RolloutOptions, SharedOptions } from './rollout/options.ts';
import { countProgress, type Progress } from './rollout/progress.ts';
import { checkOwnScores, type Scoring, scoreBatch, scoreGroup } from './rollout/score.ts';
import { openDoor } from './serve/endpoint/door.ts';
import type { Group, Scored, Task } from './types.ts';

/** Groups in the order of `tasks`, attempts in order. Failed attempts are in their groups, without a reward. */
export async function rollout<T = Task>(options: RolloutOptions<T>): Promise<Group<T>[]> {
  const { tasks, attempts, step } = options;
  const door = options.door ? undefined : openDoor(ENDPOINT_RULES);
  const rolling = new Rollout({ ...options, door: options.door ?? door });
  rolling.begin(step, tasks.length * attempts);
  try {
    const groups = await Promise.all(
      tasks.map(({ index, task }) => rolling.attemptAll({ index, task, step, firstAttempt: 0, attempts })),
    );
    rolling.throwIfTooManyFailed();
    return await rolling.scoreBatch(groups);
  } finally {
    await door?.close();
  }
}

/** One group to roll out; without `wanted`, all its attempts are kept. */
type GroupToRoll<T> = Omit<GroupRequest<T>, 'wanted' | 'signal'> & Partial<GroupRequest<T>>;

/** A rollout group by group: what all of them share is opened once. */
export class Rollout<T> implements GroupRollout<T> {
  readonly #options: SharedOptions<T>;
  readonly #clock: Clock;
  readonly #slots: Semaphore;
  readonly #stop = new AbortController();
  readonly #stopping: AbortSignal;
  readonly #failures: Failures<T>;
  readonly #scoring: Omit<Scoring<T>, 'signal'>;
  readonly #scoredAlone: boolean;
  #progress: Progress<T>;

  constructor(options: SharedOptions<T>) {
    const { agent, clock = realClock(), concurrency = 256, rewards, failures = {}, signal } = options;
    checkRewards(rewards);
    this.#options = options;
    this.#clock = clock;
    this.#slots = semaphore(Math.min(concurrency, agent.atOnce ?? concurrency));
    this.#stopping = signal ? AbortSignal.any([signal, this.#stop.signal]) : this.#stop.signal;
    setMaxListeners(0, this.#stopping); // every trajectory listens
    this.#progress = countProgress<T>(options.onProgress, 0, 0);
    this.#failures = watchFailures<T>(failures.tolerateShare);
    this.#scoring = { rewards, retries: failures.retries ?? 2, clock, activity: options.activity };
    this.#scoredAlone = rewards.every(({ kind }) => kind === 'trajectory');
  }

  /** A step begins: progress and failures are counted from 0, against this number of attempts or more. */
  begin(step: number, attempts: number): void {
    const { onProgress, stopOnAgentFailure = false } = this.#options;
    this.#progress = countProgress<T>(onProgress, step, attempts);
    this.#options.activity?.beginStep(step);
    this.#failures.begin(attempts, stopOnAgentFailure);
  }

  /** A group to train on. Throws if too many attempts have failed, or if nothing scores them. */
  async group(request: GroupRequest<T>): Promise<Group<T>> {
    const group = await this.attemptAll(request);
    this.throwIfTooManyFailed();
    if (this.#options.rewards.length === 0) checkOwnScores(group);
    return group;
  }

  /** All attempts at a task at once. The group is the first `wanted` that end without failing; the rest is cancelled. */
  async attemptAll(request: GroupToRoll<T>): Promise<Group<T>> {
    const { index, task, step, firstAttempt, attempts, wanted = attempts, signal: cancel } = request;
    const enough = new AbortController();
    const stopped = cancel ? AbortSignal.any([this.#stopping, cancel]) : this.#stopping;
    const signal = AbortSignal.any([stopped, enough.signal]);
    setMaxListeners(0, stopped);
    setMaxListeners(0, signal);
    const shared = {
      step,
      taskIndex: index,
      task,
      queuedAt: this.#clock.now(),
      format: renderedOnce(this.#options.format),
    };
    const ended: Scored<T>[] = [];
    let good = 0;
    const attempt = async (number: number) => {
      const scored = await this.#attempt({ ...shared, attempt: firstAttempt + number }, signal);
      ended.push(scored);
      if (scored.trajectory.end.kind !== 'failed' && ++good === wanted && wanted < attempts)
        enough.abort('enough attempts of its group are done');
    };
    await Promise.all(
      Array.from({ length: attempts }, (_, number) => this.#slots.run(() => attempt(number))),
    );
    const first = firstOf(ended, wanted);
    if (this.#scoredAlone) return { taskIndex: index, task, attempts: first };
    const scored = await scoreGroup(first, { ...this.#scoring, signal: stopped });
    return { taskIndex: index, task, attempts: scored };
  }

  async #attempt(setup: AttemptSetup<T>, signal: AbortSignal): Promise<Scored<T>> {
    const progress = this.#progress;
    progress.started();
    this.#failures.started();
    const scored = await attemptTask(this.#options, setup, { ...this.#scoring, signal });
    progress.ended(scored);
    this.#options.activity?.ended(scored.trajectory.id, scored.trajectory.end);
    this.#failures.ended();
    if (this.#scoredAlone) this.#options.onTrajectory?.(scored);
    if (this.#failures.add(scored.trajectory)) this.#stop.abort('the rollout failed');
    return scored;
  }

  /** Adds the rewards that see a whole batch. */
  async scoreBatch(groups: readonly Group<T>[]): Promise<Group<T>[]> {
    const scored = await scoreBatch(groups, { ...this.#scoring, signal: this.#stopping });
    if (this.#scoredAlone) return scored;
    for (const attempt of scored.flatMap((group) => group.attempts)) {
      this.#options.onTrajectory?.(attempt);
      const { end } = attempt.trajectory;
      if (end.kind === 'failed' && end.boundary === 'reward') this.#failures.add(attempt.trajectory);
    }
    this.throwIfTooManyFailed();
    return scored;
  }

  throwIfTooManyFailed(): void {
    this.#failures.throwIfTooMany();
  }
}

/** The first `wanted` that did not fail, completed by failed ones where there are too few; in order of attempt. */
function firstOf<T>(ended: readonly Scored<T>[], wanted: number): Scored<T>[] {
  const failed = (scored: Scored<T>) => (scored.trajectory.end.kind === 'failed' ? 1 : 0);
  return [...ended]
    .sort((one, other) => failed(one) - failed(other)) // stable: in the order in which they ended
    .slice(0, wanted)
    .sort((one, other) => one.trajectory.attempt - other.trajectory.attempt);
}
