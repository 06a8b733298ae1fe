/**
 * Randomness by coordinate. A seed is a hash of what it is for, such as (run seed, step, task, attempt,
 * turn), never of arrival order, so the same coordinates give the same numbers whatever ran before.
 */

/** FNV-1a over the parts' text, then a finalizer; an unsigned 32-bit integer. */
export function hashSeed(...parts: readonly (string | number)[]): number {
  let hash = 0x811c9dc5;
  for (const char of parts.join('\u0000')) {
    hash = Math.imul(hash ^ char.codePointAt(0)!, 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** A generator of numbers in [0, 1) (mulberry32). Its whole state is one integer, so it can be saved. */
export interface Random {
  next(): number;
  integer(below: number): number;
  pick<T>(items: readonly T[]): T;
  shuffle<T>(items: readonly T[]): T[];
  readonly state: number;
}

/** A random source that always gives the same numbers for the same seed. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x100000000;
  };
  const integer = (below: number) => Math.floor(next() * below);
  return {
    next,
    integer,
    pick: (items) => items[integer(items.length)]!,
    shuffle: (items) => {
      const shuffled = [...items];
      for (let last = shuffled.length - 1; last > 0; last--) {
        const other = integer(last + 1);
        [shuffled[last], shuffled[other]] = [shuffled[other]!, shuffled[last]!];
      }
      return shuffled;
    },
    get state() {
      return state;
    },
  };
}
