import { createRandom } from '../lib/random.ts';

/**
 * A random order of `count` rows, the same for the same seed.
 *
 * Where any row is as cheap as any other, or all rows fit in `window`, every order is equally likely
 * (Fisher–Yates). A larger file that is decoded in runs is shuffled in two levels: the runs in a random order,
 * then the rows of as many consecutive runs as fit in `window` among themselves. Memory stays at one window, and
 * no row is decoded twice.
 */
export function permutation(
  count: number,
  seed: number,
  runs: readonly number[] | undefined,
  window: number,
): Int32Array {
  const random = createRandom(seed);
  const order = Int32Array.from({ length: count }, (_, row) => row);
  if (!runs || runs.length < 2 || count <= window) {
    shuffleBetween(order, 0, count, random.integer);
    return order;
  }
  const lengthOf = (run: number) => (runs[run + 1] ?? count) - runs[run]!;
  let filled = 0;
  let windowStart = 0;
  for (const run of random.shuffle(runs.map((_, which) => which).filter((which) => runs[which]! < count))) {
    const length = Math.min(lengthOf(run), count - runs[run]!);
    if (filled > windowStart && filled + length - windowStart > window) {
      shuffleBetween(order, windowStart, filled, random.integer);
      windowStart = filled;
    }
    for (let row = 0; row < length; row++) order[filled++] = runs[run]! + row;
  }
  shuffleBetween(order, windowStart, filled, random.integer);
  return order;
}

function shuffleBetween(
  order: Int32Array,
  from: number,
  to: number,
  integer: (below: number) => number,
): void {
  for (let last = to - 1; last > from; last--) {
    const other = from + integer(last - from + 1);
    const held = order[last]!;
    order[last] = order[other]!;
    order[other] = held;
  }
}
