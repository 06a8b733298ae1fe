import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type CachePath, PrefixCache } from './prefix-cache.ts';

const BLOCK = 4;

/** A cache over storage that records which token was written in which row, in place of K/V. */
function recordingCache(blocks: number) {
  const rows = new Int32Array(blocks * BLOCK).fill(-1);
  const cache = new PrefixCache({
    blocks,
    blockTokens: BLOCK,
    copyBlock: (from, to) => rows.copyWithin(to * BLOCK, from * BLOCK, (from + 1) * BLOCK),
  });
  const read = (path: CachePath) =>
    Array.from(
      { length: path.length },
      (_, t) => rows[path.table[Math.floor(t / BLOCK)]! * BLOCK + (t % BLOCK)]!,
    );
  /** Computes tokens up to `end`; false when blocks ran out. */
  const write = (path: CachePath, ids: Int32Array, end: number) => {
    const count = end - path.length;
    if (count <= 0) return true;
    if (!cache.reserve(path, count)) return false;
    for (let t = path.length; t < end; t++) {
      rows[path.table[Math.floor(t / BLOCK)]! * BLOCK + (t % BLOCK)] = ids[t]!;
    }
    cache.advance(path, ids, count);
    return true;
  };
  return { cache, read, write };
}

const ids = (...values: number[]) => Int32Array.from(values);

test('a second sequence takes over what the first has computed, to the token', () => {
  const { cache, read, write } = recordingCache(16);
  const first = cache.open('', ids(1, 2, 3, 4, 5, 6, 7), 6);
  expect(first.length).toBe(0);
  write(first, ids(1, 2, 3, 4, 5, 6, 7), 7);
  const second = cache.open('', ids(1, 2, 3, 4, 5, 6, 9, 9), 7);
  expect(second.length).toBe(6);
  expect(read(second)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(second.table[0]).toBe(first.table[0]); // a full block is shared
  expect(second.table[1]).not.toBe(first.table[1]); // of a part, the rows are copied
  expect(cache.open('adapter', ids(1, 2, 3, 4), 3).length).toBe(0); // other weights, other K/V
});

test('a later turn goes on in the block where the last one ended', () => {
  const { cache, write } = recordingCache(4);
  const turn = cache.open('', ids(1, 2, 3, 4, 5, 6), 5);
  write(turn, ids(1, 2, 3, 4, 5, 6), 6);
  const block = turn.table[1];
  cache.release(turn);
  const next = cache.open('', ids(1, 2, 3, 4, 5, 6, 7, 8, 9), 8);
  expect(next.length).toBe(6);
  expect(next.table[1]).toBe(block);
  expect(cache.usedBlocks).toBe(2);
});

test('two sequences that compute the same block end up sharing one', () => {
  const { cache, write } = recordingCache(8);
  const a = cache.open('', ids(1, 2, 3, 4, 5), 4);
  const b = cache.open('', ids(1, 2, 3, 4, 5), 4);
  write(a, ids(1, 2, 3, 4, 5), 5);
  write(b, ids(1, 2, 3, 4, 5), 5);
  expect(b.table[0]).toBe(a.table[0]);
  expect(cache.usedBlocks).toBe(3);
});

test('when space is needed the leaf that was used longest ago goes first, and never one in use', () => {
  const { cache, write } = recordingCache(4);
  const oldest = cache.open('', ids(1, 1, 1, 1), 4);
  write(oldest, ids(1, 1, 1, 1), 4);
  const newest = cache.open('', ids(2, 2, 2, 2), 4);
  write(newest, ids(2, 2, 2, 2), 4);
  const running = cache.open('', ids(3, 3, 3, 3), 4);
  write(running, ids(3, 3, 3, 3), 4);
  cache.release(oldest);
  cache.release(newest);
  expect(cache.availableBlocks).toBe(3);
  const wide = cache.open('', ids(4, 4, 4, 4, 4), 4);
  expect(write(wide, ids(4, 4, 4, 4, 4), 5)).toBe(true);
  expect(cache.peek('', ids(1, 1, 1, 1), 4).length).toBe(0);
  expect(cache.peek('', ids(2, 2, 2, 2), 4).length).toBe(4);
  expect(cache.peek('', ids(3, 3, 3, 3), 4).length).toBe(4);
  expect(cache.evictions).toBe(1);
  cache.release(wide);
  cache.release(running);
  cache.flush();
  expect(cache.usedBlocks).toBe(0);
});

test('whatever opens, grows and closes, every path reads back its own ids and no block is lost', () => {
  const action = fc.record({
    act: fc.constantFrom('open', 'write', 'write', 'release'),
    which: fc.nat(5),
    ids: fc.array(fc.nat(1), { minLength: 1, maxLength: 22 }),
    more: fc.integer({ min: 1, max: 9 }),
  });
  fc.assert(
    fc.property(fc.array(action, { maxLength: 60 }), fc.integer({ min: 2, max: 12 }), (actions, blocks) => {
      const { cache, read, write } = recordingCache(blocks);
      const open: { path: CachePath; ids: Int32Array }[] = [];
      for (const { act, which, ids: values, more } of actions) {
        const chosen = open[which % Math.max(1, open.length)];
        if (act === 'open') {
          const wanted = Int32Array.from(values);
          const cached = cache.peek('', wanted, wanted.length).length;
          const path = cache.open('', wanted, wanted.length);
          expect(path.length).toBeLessThanOrEqual(cached);
          open.push({ path, ids: wanted });
        } else if (chosen && act === 'write') {
          write(chosen.path, chosen.ids, Math.min(chosen.ids.length, chosen.path.length + more));
        } else if (chosen) {
          cache.release(chosen.path);
          open.splice(open.indexOf(chosen), 1);
        }
        for (const { path, ids: own } of open) expect(read(path)).toEqual([...own.subarray(0, path.length)]);
        expect(cache.availableBlocks).toBeGreaterThanOrEqual(0);
      }
      for (const { path } of open) cache.release(path);
      expect(cache.availableBlocks).toBe(blocks);
      cache.flush();
      expect(cache.usedBlocks).toBe(0);
    }),
    { numRuns: 300 },
  );
});
