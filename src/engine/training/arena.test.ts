import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Kernels } from '../kernels/kernels.ts';
import { Arena, ArenaScope } from './arena.ts';

/** A heap that only counts: addresses grow, nothing is stored. */
function countingHeap() {
  let next = 64;
  const live = new Map<number, number>();
  const heap = {
    alloc(bytes: number) {
      const at = next;
      next += bytes + 4096;
      live.set(at, bytes);
      return at;
    },
    free: (at: number) => void live.delete(at),
  };
  return { live, kernels: heap as unknown as Kernels };
}

test('live stretches never overlap, stay inside the heap, and all memory can be taken again', () => {
  const action = fc.oneof(
    fc.record({ take: fc.integer({ min: 1, max: 3_000_000 }) }),
    fc.record({ giveBack: fc.nat(100) }),
  );
  fc.assert(
    fc.property(fc.array(action, { maxLength: 80 }), (actions) => {
      const { live, kernels } = countingHeap();
      const arena = new Arena(kernels);
      const held: { at: number; bytes: number }[] = [];
      const inHeap = (at: number, bytes: number) =>
        [...live].some(([start, size]) => at >= start && at + bytes <= start + size);
      for (const step of actions) {
        if ('take' in step) {
          const bytes = 4 * step.take;
          const at = arena.take(step.take);
          expect(at % 64).toBe(0);
          expect(inHeap(at, bytes)).toBe(true);
          for (const other of held) expect(at + bytes <= other.at || other.at + other.bytes <= at).toBe(true);
          held.push({ at, bytes });
        } else if (held.length > 0) {
          arena.giveBack(held.splice(step.giveBack % held.length, 1)[0]!.at);
        }
      }
      for (const { at } of held) arena.giveBack(at);
      const reserved = arena.bytesReserved;
      const whole = [...live.values()];
      for (const bytes of whole) arena.take(bytes / 4);
      expect(arena.bytesReserved).toBe(reserved); // every slab is one free stretch again
      arena.close();
      expect(live.size).toBe(0);
    }),
    { numRuns: 60 },
  );
});

test('a scope gives back all it still holds', () => {
  const arena = new Arena(countingHeap().kernels);
  const scope = new ArenaScope(arena);
  const first = scope.take(10);
  scope.take(20);
  scope.giveBack(first);
  expect(arena.tensorsInUse).toBe(1);
  scope.release();
  expect(arena.tensorsInUse).toBe(0);
  expect(() => arena.giveBack(first)).toThrow(/not in use/);
});
