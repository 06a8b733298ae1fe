/**
 * What a worker group was asked to do to a model since its last checkpoint. Weights are a function of the checkpoint and
 * of these calls, so a new group that does them again stands where the lost one stood: no step is lost and none is taken
 * twice.
 */
import { existsSync } from 'node:fs';
import { TrainerError } from '../errors.ts';
import type { WireArray } from './frames.ts';

type Params = Readonly<Record<string, unknown>>;
type Arrays = ReadonlyMap<string, WireArray>;

/** One micro-batch whose gradient was added, or a step. */
export type Deed =
  | {
      readonly kind: 'backward';
      /** Temperature and outputs of the forward. */
      readonly forward: Params;
      readonly rows: Arrays;
      readonly gradients: Arrays;
    }
  | { readonly kind: 'step'; readonly adam: Params };

/** A few hundred steps of a usual batch: rows and gradients are small beside weights. */
const MOST_BYTES = 1 << 30;
/** A checkpoint that is being pruned must not be the only one. */
const KEPT_BASES = 2;

interface Base {
  /** Folder that holds the model's state; undefined is the model as opened. */
  readonly directory: string | undefined;
  /** How many deeds came before. */
  readonly at: number;
}

export class Journal {
  #bases: Base[] = [{ directory: undefined, at: 0 }];
  #deeds: Deed[] = [];
  /** How many deeds came before the first that is kept. */
  #forgotten = 0;
  #bytes = 0;
  #overflowed = false;

  add(deed: Deed): void {
    this.#deeds.push(deed);
    this.#bytes += bytesOf(deed);
    this.#overflowed ||= this.#bytes > MOST_BYTES;
    if (this.#overflowed) this.#forget(this.mark());
  }

  /** Where the model stands now. */
  mark(): number {
    return this.#forgotten + this.#deeds.length;
  }

  /**
   * The state at `mark`, by default the present one, is in that folder. Deeds before the oldest folder that is still needed
   * are forgotten.
   */
  saved(directory: string, mark = this.mark()): void {
    if (this.#overflowed) {
      if (mark === this.mark()) this.loaded(directory);
      return;
    }
    const there = this.#bases.filter(isThere);
    const others = there.filter((base) => base.directory !== directory);
    this.#bases = [...others, { directory, at: mark }].slice(-KEPT_BASES);
    this.#forget(this.#bases[0]!.at);
  }

  /** The state is that folder's, whatever it was before. */
  loaded(directory: string): void {
    this.#forget(this.mark());
    this.#bases = [{ directory, at: this.mark() }];
    this.#overflowed = false;
  }

  #forget(before: number): void {
    for (const deed of this.#deeds.splice(0, before - this.#forgotten)) this.#bytes -= bytesOf(deed);
    this.#forgotten = before;
  }

  /** From the newest folder that is there: what to load (undefined: nothing, the model as opened) and to do again. */
  replay(): { readonly directory: string | undefined; readonly deeds: readonly Deed[] } {
    const base = this.#bases.findLast(isThere);
    if (base && !this.#overflowed) {
      return { directory: settled(base.directory), deeds: this.#deeds.slice(base.at - this.#forgotten) };
    }
    throw new TrainerError(
      this.#overflowed
        ? 'the worker group is lost, and too much was done since the last checkpoint to do it again; resume the run'
        : `the worker group is lost, and its last checkpoint ${this.#bases.at(-1)!.directory} is gone; resume the run`,
    );
  }
}

/** A checkpoint is written as `NAME.partial` and renamed when all of it is there (watch/run-directory.ts). */
function settled(directory: string | undefined): string | undefined {
  if (directory === undefined || existsSync(directory)) return directory;
  return directory.replace(/\.partial(?=$|\/)/, '');
}

const isThere = ({ directory }: Base) => directory === undefined || existsSync(settled(directory)!);

function bytesOf(deed: Deed): number {
  if (deed.kind === 'step') return 0;
  return [...deed.rows.values(), ...deed.gradients.values()].reduce(
    (sum, { data }) => sum + data.byteLength,
    0,
  );
}
