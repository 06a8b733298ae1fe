import { EngineError } from '../../errors.ts';

const ALIGNMENT = 64;
/** The heap grows by at least this much, so that views of it are rarely made again. */
const GROWTH = 64 * 2 ** 20;

const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

/**
 * Which addresses of [low, maximum) are taken: best fit, neighbours joined again when freed. `grow` is asked for
 * room up to an address and says whether there is.
 */
export class Allocator {
  readonly #maximum: number;
  readonly #grow: (end: number) => boolean;
  readonly #taken = new Map<number, number>();
  /** Free stretches: size by start, and start by end. */
  readonly #free = new Map<number, number>();
  readonly #freeByEnd = new Map<number, number>();
  #end: number;
  #inUse = 0;
  #peak = 0;

  constructor(low: number, maximum: number, grow: (end: number) => boolean) {
    this.#end = Math.ceil(low / ALIGNMENT) * ALIGNMENT;
    this.#maximum = Math.floor(maximum / ALIGNMENT) * ALIGNMENT;
    this.#grow = grow;
  }

  get end() {
    return this.#end;
  }
  get inUse() {
    return this.#inUse;
  }
  get peak() {
    return this.#peak;
  }

  alloc(bytes: number): number {
    if (!Number.isSafeInteger(bytes) || bytes < 0) {
      throw new EngineError(`cannot allocate ${bytes} bytes: the size must be a whole number from 0 on`);
    }
    const size = Math.max(ALIGNMENT, Math.ceil(bytes / ALIGNMENT) * ALIGNMENT);
    const start = this.#bestFit(size) ?? this.#extend(size);
    const stretch = this.#free.get(start)!;
    this.#remove(start, stretch);
    if (stretch > size) this.#insert(start + size, stretch - size);
    this.#taken.set(start, size);
    this.#inUse += size;
    this.#peak = Math.max(this.#peak, this.#inUse);
    return start;
  }

  free(pointer: number): void {
    if (pointer === 0) return;
    const size = this.#taken.get(pointer);
    if (size === undefined) throw new EngineError(`cannot free ${pointer}: it is not an allocation`);
    this.#taken.delete(pointer);
    this.#inUse -= size;
    this.#join(pointer, size);
  }

  #bestFit(size: number): number | undefined {
    let best: number | undefined;
    let bestSize = Number.POSITIVE_INFINITY;
    for (const [start, stretch] of this.#free) {
      if (stretch < size || stretch >= bestSize) continue;
      best = start;
      bestSize = stretch;
      if (stretch === size) break;
    }
    return best;
  }

  #extend(size: number): number {
    const tail = this.#freeByEnd.get(this.#end) ?? this.#end;
    const least = tail + size;
    const wanted = Math.min(this.#maximum, Math.max(least, this.#end + Math.max(GROWTH, this.#end / 4)));
    const end = Math.ceil(wanted / ALIGNMENT) * ALIGNMENT;
    const reached = [end, least].find((to) => to <= this.#maximum && to >= least && this.#grow(to));
    if (reached === undefined) {
      throw new EngineError(
        `the kernels' memory is full: ${megabytes(size)} more do not fit beside ${megabytes(this.#inUse)} in use ` +
          `(limit ${megabytes(this.#maximum)})`,
      );
    }
    const before = this.#end;
    this.#end = reached;
    this.#join(before, reached - before);
    return this.#freeByEnd.get(reached)!;
  }

  #join(start: number, size: number): void {
    let from = start;
    let length = size;
    const left = this.#freeByEnd.get(start);
    if (left !== undefined) {
      length += start - left;
      this.#remove(left, start - left);
      from = left;
    }
    const right = this.#free.get(start + size);
    if (right !== undefined) {
      this.#remove(start + size, right);
      length += right;
    }
    this.#insert(from, length);
  }

  #insert(start: number, size: number): void {
    this.#free.set(start, size);
    this.#freeByEnd.set(start + size, start);
  }

  #remove(start: number, size: number): void {
    this.#free.delete(start);
    this.#freeByEnd.delete(start + size);
  }
}
