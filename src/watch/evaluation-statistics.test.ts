import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createRandom } from '../lib/random.ts';
import {
  bestAt,
  majorityAt,
  meanInterval,
  passAt,
  shareInterval,
  sizesUpTo,
  worstAt,
} from './evaluation-statistics.ts';

const scores = fc.array(fc.constantFrom(0, 0.25, 1), { minLength: 1, maxLength: 6 });

/** Every way to draw k with replacement, counted. */
function enumerate(values: readonly number[], k: number, of: (drawn: number[]) => number) {
  let draws: number[][] = [[]];
  for (let at = 0; at < k; at++) draws = draws.flatMap((drawn) => values.map((value) => [...drawn, value]));
  const all = draws.map(of);
  const mean = all.reduce((sum, value) => sum + value, 0) / all.length;
  return { mean, std: Math.sqrt(all.reduce((sum, value) => sum + (value - mean) ** 2, 0) / all.length) };
}

test('best and worst at k are the means over every way to draw k', () => {
  fc.assert(
    fc.property(scores, fc.integer({ min: 1, max: 4 }), (values, k) => {
      for (const [computed, of] of [
        [bestAt(values, k), (drawn: number[]) => Math.max(...drawn)],
        [worstAt(values, k), (drawn: number[]) => Math.min(...drawn)],
      ] as const) {
        const counted = enumerate(values, k, of);
        expect(computed.mean).toBeCloseTo(counted.mean, 10);
        expect(computed.std).toBeCloseTo(counted.std, 6);
      }
    }),
  );
});

test('pass@k is the share of k-subsets that hold a success', () => {
  const subsets = (items: number[], k: number): number[][] =>
    k === 0
      ? [[]]
      : items.flatMap((item, at) => subsets(items.slice(at + 1), k - 1).map((rest) => [item, ...rest]));
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 7 }),
      fc.nat(7),
      fc.integer({ min: 1, max: 7 }),
      (n, some, size) => {
        const [c, k] = [Math.min(some, n), Math.min(size, n)];
        const all = subsets(
          Array.from({ length: n }, (_, at) => at),
          k,
        );
        const hit = all.filter((subset) => subset.some((at) => at < c)).length / all.length;
        expect(passAt(c, n, k)).toBeCloseTo(hit, 12);
      },
    ),
  );
});

describe('majority at k', () => {
  test('of one attempt is the mean score', () => {
    const attempts = [1, 0, 0, 1, 1].map((score, at) => ({ answer: String(at), score }));
    expect(majorityAt(attempts, 1, 7, 20_000).mean).toBeCloseTo(0.6, 1);
  });
  test('follows the answer of most, and the seed decides the draws', () => {
    const attempts = [...Array(7).fill({ answer: '4', score: 1 }), { answer: '5', score: 0 }];
    expect(majorityAt(attempts, 8, 1).mean).toBeGreaterThan(0.99);
    expect(majorityAt(attempts, 3, 1)).toEqual(majorityAt(attempts, 3, 1));
  });
});

test('a 95 % interval holds the truth about 95 times in 100', () => {
  const random = createRandom(3);
  const trials = 400;
  const truth = 0.2;
  const held = (interval: (draws: number[]) => readonly [number, number]) => {
    let inside = 0;
    for (let trial = 0; trial < trials; trial++) {
      const draws = Array.from({ length: 50 }, () => (random.next() < truth ? 1 : 0));
      const [low, high] = interval(draws);
      if (low <= truth && truth <= high) inside++;
    }
    return inside / trials;
  };
  expect(held((draws) => shareInterval(draws.filter(Boolean).length, draws.length))).toBeGreaterThan(0.91);
  expect(held(meanInterval)).toBeGreaterThan(0.88);
});

test('attempts are summed up at powers of two and at their number', () => {
  expect([1, 2, 5, 8].map(sizesUpTo)).toEqual([[], [2], [2, 4, 5], [2, 4, 8]]);
});
