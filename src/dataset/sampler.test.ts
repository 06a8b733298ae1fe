import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { arrayDataset } from './dataset.ts';
import { createSampler, type SamplerOptions } from './sampler.ts';

const tasks = (count: number) =>
  arrayDataset(Array.from({ length: count }, (_, n) => ({ n, level: String((n * 7) % count) })));

test('every epoch of a shuffle has each task once, and differs from the one before', async () => {
  const sampler = await createSampler(tasks(20), { kind: 'shuffle' }, 1);
  const first = sampler.next(20);
  const second = sampler.next(20);
  expect([...first].sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => n));
  expect(new Set(second).size).toBe(20);
  expect(second).not.toEqual(first);
});

test('sequential goes round', async () => {
  const sampler = await createSampler(tasks(3), { kind: 'sequential' }, 1);
  expect(sampler.next(7)).toEqual([0, 1, 2, 0, 1, 2, 0]);
});

test('by difficulty, text or number, easy first or hard first; a row without is named', async () => {
  const dataset = tasks(10);
  const order = await createSampler(dataset, { kind: 'difficulty', column: 'level' }, 1);
  const levels = order.next(10).map((place) => (place * 7) % 10);
  expect(levels).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  const hard = await createSampler(dataset, { kind: 'difficulty', column: 'level', hardFirst: true }, 1);
  expect(hard.next(1).map((place) => (place * 7) % 10)).toEqual([9]);
  await expect(createSampler(dataset, { kind: 'difficulty', column: 'hardness' }, 1)).rejects.toThrow(
    'row 0, column hardness: is missing; sampling by difficulty needs a number',
  );
});

test('a curriculum by success: the second epoch goes from easy to hard as measured in the first', async () => {
  const sampler = await createSampler(tasks(12), { kind: 'easy-to-hard' }, 3);
  const first = sampler.next(12);
  sampler.update(first.map((index) => ({ index, success: 1 - index / 12 })));
  expect(sampler.next(12)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});

test('in the zone: tasks that always or never succeed are passed over, and looked at again later', async () => {
  const dataset = tasks(9);
  const sampler = await createSampler(dataset, { kind: 'zone', low: 0.2, high: 0.8, recheckEpochs: 3 }, 3);
  const measure = (places: number[]) =>
    sampler.update(places.map((index) => ({ index, success: index < 3 ? 0 : index < 6 ? 0.5 : 1 })));
  const first = sampler.next(9);
  measure(first);
  expect(sampler.next(3).sort()).toEqual([3, 4, 5]);
  measure([3, 4, 5]);
  expect(sampler.next(3).sort()).toEqual([3, 4, 5]);
  measure([3, 4, 5]);
  expect(new Set(sampler.next(9)).size).toBe(9);
});

test('a zone that holds no task does not stall', async () => {
  const sampler = await createSampler(tasks(4), { kind: 'zone', low: 0.4, high: 0.6, recheckEpochs: 100 }, 3);
  sampler.update([0, 1, 2, 3].map((index) => ({ index, success: 1 })));
  expect(sampler.next(4)).toHaveLength(4);
});

describe('state', () => {
  const kinds: SamplerOptions[] = [
    { kind: 'shuffle' },
    { kind: 'sequential' },
    { kind: 'difficulty', column: 'level' },
    { kind: 'easy-to-hard' },
    { kind: 'zone', low: 0.3, high: 0.7 },
  ];
  test.each(kinds)('$kind: stored as JSON at any moment, the rest is the same', async (options) => {
    const step = fc.tuple(
      fc.integer({ min: 1, max: 7 }),
      fc.array(fc.double({ min: 0, max: 1, noNaN: true })),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), fc.nat(12), fc.nat(), async (steps, stop, seed) => {
        const dataset = tasks(11);
        const straight = await createSampler(dataset, options, seed);
        let resumed = await createSampler(dataset, options, seed);
        for (const [at, [count, successes]] of steps.entries()) {
          if (at === stop) {
            const state = JSON.parse(JSON.stringify(resumed.state()));
            resumed = await createSampler(dataset, options, seed);
            resumed.restore(state);
          }
          const places = straight.next(count);
          expect(resumed.next(count)).toEqual(places);
          const results = places.flatMap((index, n) =>
            successes[n] === undefined ? [] : [{ index, success: successes[n] }],
          );
          straight.update(results);
          resumed.update(results);
        }
      }),
      { numRuns: 40 },
    );
  });

  test('of another kind is refused', async () => {
    const shuffle = await createSampler(tasks(3), { kind: 'shuffle' }, 1);
    const sequential = await createSampler(tasks(3), { kind: 'sequential' }, 1);
    expect(() => sequential.restore(shuffle.state())).toThrow(
      'written with shuffle, the options say sequential',
    );
  });
});

test('an empty dataset and an impossible zone are refused', async () => {
  await expect(createSampler(arrayDataset([]), { kind: 'shuffle' }, 1)).rejects.toThrow(
    'has no rows to sample',
  );
  await expect(createSampler(tasks(2), { kind: 'zone', low: 0.9, high: 0.1 }, 1)).rejects.toThrow(
    'the zone from 0.9 to 0.1 is none',
  );
});
