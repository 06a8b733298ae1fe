import type { SamplerState } from '../dataset/sampler.ts';
import { isDiskFull } from '../lib/files.ts';
import type { ScheduleState } from '../modes/group-source.ts';
import type { Group } from '../types.ts';
import { writeGroups } from '../watch/checkpoint-groups.ts';
import { writeCheckpoint } from '../watch/run-directory.ts';
import type { Room } from './room.ts';
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
  readonly #room: Room;
  #written: number;
  /** Undefined while an update is in progress: the weights then belong to no step. */
  #standing: Standing<T> | undefined;
  #writing: { readonly step: number; readonly done: Promise<boolean> } | undefined;

  /** `step`: the one that the newest checkpoint is of, 0 without any. */
  constructor(
    { runDir, keep, step }: { readonly runDir: string; readonly keep: number; readonly step: number },
    weights: Weights,
    timings: Timings,
    room: Room,
  ) {
    this.#runDir = runDir;
    this.#keep = keep;
    this.#written = step;
    this.#weights = weights;
    this.#timings = timings;
    this.#room = room;
  }

  /** An update begins. */
  beginUpdate(): void {
    this.#standing = undefined;
  }

  /** A step is done. */
  endStep(standing: Standing<T>): void {
    this.#standing = standing;
  }

  /**
   * Begins a checkpoint of the last step, if it is done and has none. Training may go on when this resolves: the rest is
   * written meanwhile, where the trainer can.
   */
  async begin(): Promise<void> {
    await this.settle();
    const standing = this.#unwritten();
    if (!standing) return;
    let onTaken = () => {};
    let isTaken = false;
    const taken = new Promise<void>((resolve) => {
      onTaken = resolve;
    });
    const write = () =>
      this.#write(standing, async (folder) => {
        const saving = await this.#weights.startSaving(folder);
        if (!saving) return true;
        isTaken = true;
        onTaken();
        return saving.written;
      }).catch((error: unknown) => {
        // The weights have moved on, so this one is not tried again.
        if (!isTaken || !isDiskFull(error)) throw error;
        this.#room.tell(
          `the disk of ${this.#runDir} is full: step ${standing.step} gets no checkpoint, the one before stays`,
        );
        return false;
      });
    const done = this.#room.during(`the checkpoint of step ${standing.step}`, write);
    done.catch(() => {}); // thrown by `settle`
    this.#writing = { step: standing.step, done };
    await this.#timings.time('save_checkpoint', () => Promise.race([taken, done]));
  }

  /** Waits for the checkpoint that is being written. Where its state was lost, the step has none. */
  async settle(): Promise<void> {
    const writing = this.#writing;
    this.#writing = undefined;
    if (writing && (await writing.done)) this.#written = writing.step;
  }

  /** Leaves a checkpoint of the last step. */
  async finish(): Promise<void> {
    await this.settle();
    const standing = this.#unwritten();
    if (!standing) return;
    const write = () =>
      this.#write(standing, async (folder) => {
        await this.#weights.save(folder);
        return true;
      });
    await this.#timings.time('save_checkpoint', () =>
      this.#room.during(`the checkpoint of step ${standing.step}`, write),
    );
    this.#written = standing.step;
  }

  #unwritten(): Standing<T> | undefined {
    return this.#standing && this.#standing.step > this.#written ? this.#standing : undefined;
  }

  /** `save` says whether the models were written. */
  async #write(
    { step, schedule, sampler }: Standing<T>,
    save: (folder: string) => Promise<boolean>,
  ): Promise<boolean> {
    const state: RunState = {
      version: this.#weights.version,
      seconds: this.#timings.seconds,
      sampler,
      update: this.#weights.updateState,
      schedule: savedSchedule(schedule),
    };
    const groups = schedule.finished.map(({ group }) => group as Group);
    const fill = async (folder: string) => {
      const [isSaved] = await Promise.all([
        save(folder),
        groups.length > 0 ? writeGroups(folder, groups) : undefined,
      ]);
      return isSaved;
    };
    const path = await writeCheckpoint(this.#runDir, step, state, fill, this.#keep);
    if (path !== undefined) await this.#room.checkpointed(path);
    return path !== undefined;
  }
}
