import { statfs } from 'node:fs/promises';
import type { Activity } from '../lib/activity.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { isDiskFull } from '../lib/files.ts';
import { bytesBelow, inGigabytes, keepWithin } from '../watch/retention.ts';

interface RoomOptions {
  readonly directory: string;
  readonly clock: Clock;
  /** Shows in `rollcall status` that the run waits. */
  readonly activity?: Activity;
  readonly signal?: AbortSignal | undefined;
  /** The most that the run directory may take. */
  readonly gigabytes: number;
  /** Less free space than this is told. */
  readonly warnBelowGigabytes: number;
  /** How long a run over a full disk waits. */
  readonly hoursForRoom: number;
  /** Says a sentence at once. */
  tell(notice: string): void;
}

const GIGABYTE = 1e9;
const FIRST_PAUSE_MS = 2_000;
const LONGEST_PAUSE_MS = 60_000;

/** The disk under a run: what does not fit waits, what is too much goes, and the user hears of it before it is full. */
export class Room {
  readonly #options: RoomOptions;
  #checkpointBytes = 0;
  #warned = false;

  constructor(options: RoomOptions) {
    this.#options = options;
  }

  /** Writes something; while the disk is full, waits and tries again. `write` must be the same when it is repeated. */
  async during<R>(what: string, write: () => Promise<R>): Promise<R> {
    try {
      return await write();
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      const { activity } = this.#options;
      const wait = () => this.#untilRoom(what, write, error);
      return activity ? activity.during({ stage: 'step', name: 'disk_full' }, wait) : wait();
    }
  }

  async #untilRoom<R>(what: string, write: () => Promise<R>, full: unknown): Promise<R> {
    const { directory, clock, signal, hoursForRoom, tell } = this.#options;
    const began = clock.now();
    tell(
      `the disk of ${directory} is full: ${what} could not be written (${messageOf(full)}). The run waits and goes on ` +
        `by itself when there is room, for ${hoursForRoom} hours at most (disk.hoursForRoom).`,
    );
    let error = full;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)) {
      if (clock.now() - began >= hoursForRoom * 3_600_000) throw error;
      await sleep(clock, pause, signal);
      try {
        const result = await write();
        tell('there is room on the disk again; the run goes on.');
        return result;
      } catch (again) {
        if (!isDiskFull(again)) throw again;
        error = again;
      }
    }
  }

  tell(notice: string): void {
    this.#options.tell(notice);
  }

  /** A checkpoint was written: the run is brought back within its budget. */
  async checkpointed(path: string): Promise<void> {
    const { directory, gigabytes } = this.#options;
    this.#checkpointBytes = await bytesBelow(path);
    if (!Number.isFinite(gigabytes)) return;
    for (const notice of await keepWithin(directory, gigabytes * GIGABYTE)) this.tell(notice);
  }

  /** What the user should know with this step, once until there is room again. */
  async notices(): Promise<string[]> {
    const { directory, warnBelowGigabytes } = this.#options;
    const disk = await statfs(directory).catch(() => undefined);
    if (!disk) return [];
    const free = disk.bavail * disk.bsize;
    const isScarce = free < Math.max(warnBelowGigabytes * GIGABYTE, 2 * this.#checkpointBytes);
    const isNew = isScarce && !this.#warned;
    this.#warned = isScarce;
    if (!isNew) return [];
    const checkpoint =
      this.#checkpointBytes > 0 ? `; a checkpoint takes ${inGigabytes(this.#checkpointBytes)}` : '';
    return [
      `The disk of ${directory} has ${inGigabytes(free)} left${checkpoint}. Free some space, lower checkpoints.keep or give ` +
        'the run a budget (disk.gigabytes); when the disk is full the run waits.',
    ];
  }
}
