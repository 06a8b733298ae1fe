import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { taskRow } from '../verl/task-row.ts';
import { arrayDataset, datasetOf } from './dataset.ts';
import { permutation } from './permutation.ts';
import { arraySource } from './source.ts';

const numbers = (count: number) => arrayDataset(Array.from({ length: count }, (_, n) => ({ n })));
async function read<T>(rows: AsyncIterable<{ row: T }>): Promise<T[]> {
  const list: T[] = [];
  for await (const { row } of rows) list.push(row);
  return list;
}

test('reading goes on at any position in the same order', async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(40), fc.nat(), fc.nat(40), async (count, seed, stop) => {
      const order = numbers(count).shuffle(seed);
      const whole = await read(order.rows());
      let position = 0;
      const before: unknown[] = [];
      for await (const { row, next } of order.rows()) {
        if (before.length >= stop) break;
        before.push(row);
        position = next;
      }
      expect([...before, ...(await read(order.rows(position)))]).toEqual(whole);
      expect(whole.map(({ n }) => n).sort((a, b) => a - b)).toEqual(
        Array.from({ length: count }, (_, n) => n),
      );
    }),
  );
});

test('the same seed gives the same order, another seed another', () => {
  const order = (seed: number) => [...numbers(50).permutation(seed)];
  expect(order(1)).toEqual(order(1));
  expect(order(1)).not.toEqual(order(2));
});

test('every row comes first about as often as any other', () => {
  const first = new Array(6).fill(0);
  for (let seed = 0; seed < 6000; seed++) first[permutation(6, seed * 7919, undefined, 0)[0]!]++;
  // Chi-squared with 5 degrees of freedom: 20.5 is the 0.999 quantile.
  expect(first.reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0)).toBeLessThan(20.5);
});

describe('a file decoded in runs, larger than the window', () => {
  test('is shuffled so that no run is decoded twice and every row comes once', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 2, maxLength: 12 }),
        fc.nat(),
        fc.integer({ min: 1, max: 30 }),
        (lengths, seed, window) => {
          const runs = lengths.map((_, at) => lengths.slice(0, at).reduce((sum, length) => sum + length, 0));
          const count = lengths.reduce((sum, length) => sum + length, 0);
          const order = [...permutation(count, seed, runs, window)];
          expect([...order].sort((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, row) => row));
          // With a memory of one window, runs that have been left never come back.
          const runOf = (row: number) => runs.findLastIndex((start) => start <= row);
          const lastSeen = new Map(order.map((row, place) => [runOf(row), place]));
          let open = 0;
          const opened = new Set<number>();
          order.forEach((row, place) => {
            const run = runOf(row);
            if (!opened.has(run)) {
              opened.add(run);
              open += lengths[run]!;
            }
            expect(open).toBeLessThanOrEqual(Math.max(window, Math.max(...lengths)));
            if (lastSeen.get(run) === place) open -= lengths[run]!;
          });
        },
      ),
    );
  });

  test('in a random order of runs', () => {
    const runs = [0, 100, 200, 300];
    const starts = [1, 2, 3, 4, 5, 6].map((seed) => Math.floor(permutation(400, seed, runs, 100)[0]! / 100));
    expect(new Set(starts).size).toBeGreaterThan(1);
  });
});

test('take, map, select and filter keep the numbers of the rows', async () => {
  const dataset = numbers(10).map(({ n }) => n * 10);
  const even = await dataset.filter((value) => value % 20 === 0);
  expect(even.length).toBe(5);
  const items = [];
  for await (const { index, row } of even.select(Int32Array.of(4, 0)).take(5).rows())
    items.push([index, row]);
  expect(items).toEqual([
    [8, 80],
    [0, 0],
  ]);
  expect(await read(dataset.take(2).rows())).toEqual([0, 10]);
  expect(await dataset.map(async (value) => value + 1).at(3)).toBe(31);
});

test('what a map throws names the file and the row', async () => {
  const dataset = datasetOf(arraySource([{ n: 1 }, { n: 2 }], 'train.jsonl')).map((row) => {
    if (row.n === 2) throw new Error('is two');
    return row;
  });
  await expect(read(dataset.rows())).rejects.toThrow('train.jsonl, row 1: is two');
  await expect(dataset.at(2)).rejects.toThrow('there is no row at place 2; places go from 0 to 1');
});

test('a bad task names file, row and column', async () => {
  const dataset = datasetOf(arraySource([{ prompt: 'a' }, { prompt: '<image> b' }], 'train.parquet')).map(
    (row) => taskRow(row),
  );
  await expect(read(dataset.rows())).rejects.toThrow(
    'train.parquet, row 1: column prompt[0].content has an <image> without an image; it is "<image> b"',
  );
});
