import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EngineError } from '../../errors.ts';
import { Allocator } from './heap.ts';
import { onEveryBuild } from './testing/tensors.ts';

test('allocations never overlap, are aligned, and all memory comes back', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(5000), fc.boolean(), fc.nat()), { maxLength: 200 }), (steps) => {
      const heap = new Allocator(100, 400_000, () => true);
      const live: [number, number][] = [];
      for (const [bytes, release, which] of steps) {
        if (release && live.length > 0) heap.free(live.splice(which % live.length, 1)[0]![0]);
        else {
          const start = heap.alloc(bytes);
          expect(start % 64).toBe(0);
          expect(start).toBeGreaterThanOrEqual(100);
          expect(start + bytes).toBeLessThanOrEqual(heap.end);
          for (const [other, size] of live)
            expect(start + bytes <= other || other + size <= start).toBe(true);
          live.push([start, Math.max(1, bytes)]);
        }
      }
      for (const [start] of live) heap.free(start);
      expect(heap.inUse).toBe(0);
      expect(heap.alloc(400_000 - 128 - 64)).toBe(128);
    }),
    { numRuns: 60, seed: 1 },
  );
});

test('what does not fit is refused with the figures', () => {
  const heap = new Allocator(64, 10 * 2 ** 20, () => true);
  heap.alloc(4 * 2 ** 20);
  expect(() => heap.alloc(7 * 2 ** 20)).toThrow(
    '7.0 MiB more do not fit beside 4.0 MiB in use (limit 10.0 MiB)',
  );
  expect(() => heap.alloc(-1)).toThrow(EngineError);
  expect(() => heap.free(100)).toThrow('cannot free 100');
});

await onEveryBuild((kernels) => {
  test('views stay valid when the heap grows', () => {
    const small = kernels.alloc(400);
    const view = kernels.f32(small, 100);
    view.fill(2);
    const large = kernels.alloc(300 * 2 ** 20);
    view[0] = 3;
    expect(kernels.sumOfSquares({ x: small, count: 100 })).toBe(9 + 99 * 4);
    kernels.f32(large, 10)[9] = 1;
    expect(kernels.bytesInUse).toBeGreaterThan(300 * 2 ** 20);
    kernels.free(large);
    kernels.free(small);
  });

  test('a view outside the heap and a bad argument are refused by name', () => {
    expect(() => kernels.f32(2 ** 40, 1)).toThrow(EngineError);
    expect(() => kernels.f32(-4, 1)).toThrow(EngineError);
    expect(() => kernels.scale({ alpha: 1, x: 2 ** 40, count: 1 })).toThrow(
      /kernel scale: x is 1099511627776/,
    );
    expect(() => kernels.packedBytes(-4, 2)).toThrow('kernel packedBytes: n is -4');
    expect(() => kernels.alloc(2 ** 50)).toThrow(/more do not fit/);
    const ids = kernels.alloc(64);
    kernels.i32(ids, 2).set([1, 9]);
    const table = kernels.alloc(64);
    const call = { table, rows: 2, width: 1, ids, count: 2, out: table + 16 };
    expect(() => kernels.gather(call)).toThrow('kernel gather: ids[1] is 9');
    kernels.free(ids);
    kernels.free(table);
  });
});
