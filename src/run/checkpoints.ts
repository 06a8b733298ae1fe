import type { SamplerState } from '../dataset/sampler.ts';
import type { ScheduleState } from '../modes/group-source.ts';
import type { Group } from '../types.ts';
import { writeGroups } from '../watch/checkpoint-groups.ts';
import { writeCheckpoint } from '../watch/run-directory.ts';
import { type RunState, savedSchedule } from './saved-state.ts';
import type { Timings } from './timings.ts';
import type { Weights } from './weights.ts';

/** The state of a run after a step. */
interface Standing<T> {
  readonly step: number;
  readonly schedule: ScheduleState<T>;
  readonly sampler: SamplerState;
}

/** Checkpoints of a run: always of a finished step, whose weights and place in the tasks belong together. */
export class Checkpoints<T> {
  readonly #runDir: string;
  readonly #keep: number;
  readonly #weights: Weights;
  readonly #timings: Timings;
  #written: number;
  /** Undefined while an update is in progress: the weights then belong to no step. */
  #standing: Standing<T> | undefined;

  /** `step`: the one that the newest checkpoint is of, 0 without any. */
  constructor(
    { runDir, keep, step }: { readonly runDir: string; readonly keep: number; readonly step: number },
    weights: Weights,
    timings: Timings,
  ) {
    this.#runDir = runDir;
    this.#keep = keep;
    this.#written = step;
    this.#weights = weights;
    this.#timings = timings;
  }

  /** An update begins. */
  beginUpdate(): void {
    this.#standing = undefined;
  }

  /** A step is done. */
  endStep(standing: Standing<T>): void {
    this.#standing = standing;
  }

  /** Writes a checkpoint of the last step, if it is done and has none. */
  async write(): Promise<void> {
    if (!this.#standing || this.#standing.step <= this.#written) return;
    const { step, schedule, sampler } = this.#standing;
    const state: RunState = {
      version: this.#weights.version,
      seconds: this.#timings.seconds,
      sampler,
      update: this.#weights.updateState,
      schedule: savedSchedule(schedule),
    };
    const fill = async (folder: string) => {
      await this.#weights.save(folder);
      const groups = schedule.finished.map(({ group }) => group as Group);
      if (groups.length > 0) await writeGroups(folder, groups);
    };
    await this.#timings.time('save_checkpoint', () =>
      writeCheckpoint(this.#runDir, step, state, fill, this.#keep),
    );
    this.#written = step;
  }
}
