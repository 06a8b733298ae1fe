import type { Dataset } from './dataset/dataset.ts';
import type { Sampler } from './dataset/sampler.ts';
import type { Activity } from './lib/activity.ts';
import { messageOf } from './lib/error-message.ts';
import type { GroupSource } from './modes/group-source.ts';
import type { ResolvedOptions } from './options.ts';
import type { RolloutOptions } from './rollout/options.ts';
import type { Checkpoints } from './run/checkpoints.ts';
import type { Notices } from './run/notices.ts';
import { Preemption } from './run/preemption.ts';
import type { Records } from './run/records.ts';
import type { Room } from './run/room.ts';
import type { Timings } from './run/timings.ts';
import { updateOptions } from './run/update-options.ts';
import type { PublishedUpdate, Weights } from './run/weights.ts';
import type { Algorithm } from './training/algorithm.ts';
import type { Batch } from './training/batch.ts';
import type { UpdateResult } from './training/update-options.ts';
import { updatePolicy } from './training/update-policy.ts';
import type { Group, Metrics, Task } from './types.ts';
import { type SourceEvaluation, validationMetrics } from './watch/evaluation.ts';
import { rolloutMetrics } from './watch/rollout-metrics.ts';
import { type RunEnd, reasonOf } from './watch/run-end.ts';

/** What one step did. `step` 0 is the evaluation before training. */
export interface StepReport<T = Task> {
  readonly step: number;
  readonly steps: number;
  /** Version of the weights after the step. */
  readonly version: number;
  /** Since the run's first start, pauses between a stop and its resume not counted. */
  readonly seconds: number;
  readonly metrics: Metrics;
  readonly groups: readonly Group<T>[];
  /** Sentences for the user: what looks wrong, and what to do. */
  readonly notices: readonly string[];
}

/** A step that has been trained and published, or the evaluation before the first. */
interface DoneStep<T> {
  readonly groups?: readonly Group<T>[];
  /** What the source of the groups has counted. */
  readonly metrics?: Metrics;
  readonly update?: PublishedUpdate;
  readonly evaluations: readonly SourceEvaluation[];
}

/** What a run is made of: one owner for each job. */
export interface RunOwners<T extends object> {
  readonly options: ResolvedOptions<T>;
  readonly algorithm: Algorithm;
  /** Held-out tasks by name. */
  readonly validation: Readonly<Record<string, Dataset<T>>>;
  readonly sampler: Sampler<T>;
  readonly source: GroupSource<T>;
  readonly weights: Weights;
  readonly checkpoints: Checkpoints<T>;
  readonly records: Records;
  readonly room: Room;
  readonly notices: Notices;
  readonly timings: Timings;
  readonly activity: Activity;
  /** How trajectories of a step are rolled out, for training or for an evaluation. */
  rolloutOptions(step: number, purpose?: 'evaluation'): Omit<RolloutOptions<T>, 'tasks' | 'attempts'>;
  /** The last step that the run has done when it is opened. */
  readonly step: number;
  /** Closes models, servers and the run directory. */
  close(): Promise<void>;
}

/**
 * Everything that lives as long as a run. A step is `source.take`, `update`, `publish`, `record`, and `checkpoint` where one is
 * due: each takes what the one before it returned, and train.ts shows them in their order.
 */
export class Run<T extends object> {
  readonly #owners: RunOwners<T>;
  #step: number;
  #finished = false;
  #failure: unknown;

  constructor(owners: RunOwners<T>) {
    this.#owners = owners;
    this.#step = owners.step;
  }

  /** The last step that is done. */
  get step(): number {
    return this.#step;
  }

  get version(): number {
    return this.#owners.weights.version;
  }

  get algorithm(): Algorithm {
    return this.#owners.algorithm;
  }

  get validation(): RunOwners<T>['validation'] {
    return this.#owners.validation;
  }

  get source(): GroupSource<T> {
    return this.#owners.source;
  }

  rolloutOptions(step: number, purpose?: 'evaluation') {
    return this.#owners.rolloutOptions(step, purpose);
  }

  /** Times a part of the step, as `timing_s/NAME`. */
  time<R>(name: string, work: () => Promise<R>): Promise<R> {
    return this.#owners.timings.time(name, work);
  }

  /** One policy-gradient step on a batch. */
  update(batch: Batch): Promise<UpdateResult> {
    const { options, weights, checkpoints } = this.#owners;
    checkpoints.beginUpdate();
    // Said before the trainer's first answer, which may take long: who stops a run must know that an update has begun.
    options.onProgress?.({ step: batch.step, phase: 'training', done: 0, total: batch.sequences.length });
    return this.time('update_actor', () =>
      weights.train(() => updatePolicy({ ...updateOptions(options, batch.step, weights), batch })),
    );
  }

  /** New weights on every server, at a moment that suits the groups in progress. */
  async publish(update: UpdateResult): Promise<PublishedUpdate> {
    const { source, weights } = this.#owners;
    await this.time('gen', () => source.settle());
    const published = await this.time('update_weights', () => weights.publish(update, this.#step + 1));
    await source.renew();
    return published;
  }

  /** Writes the step's trajectories and metrics; the step is then done. */
  async record({ groups = [], metrics = {}, update, evaluations }: DoneStep<T>): Promise<StepReport<T>> {
    const { options, records, room, timings, notices, sampler, checkpoints, source, weights } = this.#owners;
    const step = update ? this.#step + 1 : this.#step;
    const plain = groups as readonly Group[];
    await room.during(`step ${step}`, () => records.writeTrajectories(step, plain, update));
    const rolledOut = groups.length > 0 ? rolloutMetrics(plain) : {};
    const tokens = rolledOut['perf/total_num_tokens'];
    const timed = timings.endStep();
    const all: Metrics = {
      'training/global_step': step,
      ...rolledOut,
      ...metrics,
      ...update?.metrics,
      ...validationMetrics(evaluations),
      ...timed.metrics,
      ...weights.models.trainer.metrics?.(),
      ...(tokens !== undefined && { 'perf/throughput': tokens / timed.stepSeconds }),
      ...records.takeMachineUse(),
    };
    const report: StepReport<T> = {
      step,
      steps: options.steps,
      version: this.version,
      seconds: timings.seconds,
      metrics: all,
      groups,
      notices: [
        ...(update ? notices.ofUpdate(groups.length, update) : []),
        ...notices.ofStep(step, all, plain),
        ...records.takeTrackerNotices(),
        ...(await room.notices()),
      ],
    };
    const line = { step, seconds: report.seconds, metrics: all };
    await room.during(`step ${step}`, () => records.writeMetrics(line, plain));
    sampler.update(groups.map((group) => ({ index: group.taskIndex, success: successOf(group) })));
    this.#step = step;
    checkpoints.endStep({ step, schedule: source.state(), sampler: sampler.state() });
    return report;
  }

  /** Begins a checkpoint of the step that was recorded last; it may be written while the next steps are taken. */
  checkpoint(): Promise<void> {
    const { checkpoints, activity } = this.#owners;
    return activity.during({ stage: 'step', name: 'save_checkpoint' }, () => checkpoints.begin());
  }

  /** All steps are done. */
  finish(): void {
    this.#finished = true;
  }

  /** The run cannot go on; why is written when it is closed. */
  fail(error: unknown): void {
    this.#failure = error;
  }

  /** Leaves a checkpoint of the last finished step, unless the run was aborted for good, and closes everything. */
  async close(): Promise<void> {
    const { options, source, records, checkpoints, activity } = this.#owners;
    await source.close();
    try {
      if (!options.signal?.aborted || options.signal.reason instanceof Preemption) {
        const saving = { stage: 'step', name: 'save_checkpoint' } as const;
        await activity.during(saving, () => checkpoints.finish());
      }
    } catch (error) {
      this.#failure ??= error;
      throw error;
    } finally {
      // What goes wrong here must not hide the error that ended the run.
      await records.writeEnd(this.#end()).catch(() => {});
      await Promise.all([this.#owners.close(), records.close(this.#finished ? 'finished' : 'stopped')]);
    }
  }

  #end(): RunEnd {
    const { options, timings } = this.#owners;
    const done = { step: this.#step, version: this.version, seconds: timings.seconds };
    if (options.signal?.aborted)
      return { state: 'stopped', ...done, reason: messageOf(options.signal.reason) };
    if (this.#failure !== undefined) return { state: 'failed', ...done, ...reasonOf(this.#failure) };
    return this.#finished
      ? { state: 'finished', ...done }
      : { state: 'stopped', ...done, reason: `stopped after step ${this.#step}` };
  }
}

/** Mean reward of a group's attempts, held within 0 and 1: what the sampler ranks tasks by. */
function successOf<T>(group: Group<T>): number {
  const rewards = group.attempts.flatMap((attempt) => attempt.reward ?? []);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length);
  return Math.min(1, Math.max(0, mean));
}
