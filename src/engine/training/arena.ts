import type { Kernels, Pointer } from '../kernels/kernels.ts';

const ALIGNMENT = 64;
const SMALLEST_SLAB = 8 << 20;

/** Free stretches of one slab, by address. */
interface Slab {
  readonly at: Pointer;
  readonly bytes: number;
  readonly free: { at: number; bytes: number }[];
}

/**
 * Memory for activations, taken from the heap in slabs and never given back before `close`: after its largest
 * step a trainer allocates nothing. Neighbouring free stretches are joined; there are few live tensors, so
 * a linear search for the first fit is cheap.
 */
export class Arena {
  readonly #kernels: Kernels;
  readonly #slabs: Slab[] = [];
  readonly #live = new Map<Pointer, { slab: Slab; bytes: number }>();

  constructor(kernels: Kernels) {
    this.#kernels = kernels;
  }

  /** Memory for `count` floats or int32s; contents undefined. */
  take(count: number): Pointer {
    const bytes = Math.max(ALIGNMENT, Math.ceil((count * 4) / ALIGNMENT) * ALIGNMENT);
    for (const slab of this.#slabs) {
      const at = this.#takeFrom(slab, bytes);
      if (at) return at;
    }
    return this.#takeFrom(this.#grow(bytes), bytes);
  }

  giveBack(at: Pointer): void {
    const taken = this.#live.get(at);
    if (!taken) throw new Error(`arena: ${at} is not in use`);
    this.#live.delete(at);
    const { free } = taken.slab;
    let index = free.findIndex((stretch) => stretch.at > at);
    if (index < 0) index = free.length;
    const before = free[index - 1];
    const after = free[index];
    const joinsBefore = before !== undefined && before.at + before.bytes === at;
    const joinsAfter = after !== undefined && at + taken.bytes === after.at;
    if (joinsBefore && joinsAfter) {
      before.bytes += taken.bytes + after.bytes;
      free.splice(index, 1);
    } else if (joinsBefore) {
      before.bytes += taken.bytes;
    } else if (joinsAfter) {
      after.at = at;
      after.bytes += taken.bytes;
    } else {
      free.splice(index, 0, { at, bytes: taken.bytes });
    }
  }

  get bytesReserved(): number {
    return this.#slabs.reduce((sum, slab) => sum + slab.bytes, 0);
  }

  get tensorsInUse(): number {
    return this.#live.size;
  }

  close(): void {
    for (const slab of this.#slabs) this.#kernels.free(slab.at);
    this.#slabs.length = 0;
    this.#live.clear();
  }

  #takeFrom(slab: Slab, bytes: number): Pointer {
    const index = slab.free.findIndex((stretch) => stretch.bytes >= bytes);
    const stretch = slab.free[index];
    if (!stretch) return 0;
    const { at } = stretch;
    stretch.at += bytes;
    stretch.bytes -= bytes;
    if (stretch.bytes === 0) slab.free.splice(index, 1);
    this.#live.set(at, { slab, bytes });
    return at;
  }

  #grow(bytes: number): Slab {
    const size = Math.max(bytes, SMALLEST_SLAB, Math.ceil(this.bytesReserved / 4 / ALIGNMENT) * ALIGNMENT);
    const at = this.#kernels.alloc(size);
    const slab = { at, bytes: size, free: [{ at, bytes: size }] };
    this.#slabs.push(slab);
    return slab;
  }
}

/** What one pass has taken, so that all of it can be given back at once. */
export class ArenaScope {
  readonly #arena: Arena;
  readonly #taken = new Set<Pointer>();

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  take(count: number): Pointer {
    const at = this.#arena.take(count);
    this.#taken.add(at);
    return at;
  }

  giveBack(at: Pointer): void {
    this.#arena.giveBack(at);
    this.#taken.delete(at);
  }

  release(): void {
    for (const at of this.#taken) this.#arena.giveBack(at);
    this.#taken.clear();
  }
}
