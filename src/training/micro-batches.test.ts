import fc from 'fast-check';
import { expect, test } from 'vitest';
import { packMicroBatches, splitGroups } from './micro-batches.ts';

const members = fc.array(
  fc.record({
    family: fc.integer({ min: 0, max: 3 }),
    reply: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 20 }),
    tokens: fc.integer({ min: 0, max: 30 }),
  }),
  { minLength: 1, maxLength: 15 },
);
const promptOf = (family: number) => Array.from({ length: 10 + family }, (_, i) => (i * (family + 2)) % 7);

test('every sequence is in exactly one micro-batch, none over budget unless alone, prefixes are true', () => {
  fc.assert(
    fc.property(
      members,
      fc.integer({ min: 1, max: 120 }),
      fc.boolean(),
      fc.boolean(),
      (list, budget, balance, share) => {
        const packable = list.map(({ family, reply }, number) => {
          const prompt = promptOf(family);
          return {
            number,
            family,
            ids: Int32Array.from([...prompt, ...reply]),
            trained: Uint8Array.from([...prompt.map(() => 0), ...reply.map(() => 1)]),
          };
        });
        const packed = packMicroBatches(packable, {
          tokensPerMicroBatch: budget,
          balance,
          ...(share ? { familyOf: ({ family }) => family } : {}),
        });
        const seen = packed.flatMap((micro) => micro.members.map(({ number }) => number));
        expect(seen.toSorted((a, b) => a - b)).toEqual(packable.map(({ number }) => number));
        for (const { rows } of packed) {
          const tokens = rows.reduce((sum, { ids, prefix }) => sum + ids.length - (prefix?.length ?? 0), 0);
          expect(tokens <= budget || rows.length === 1).toBe(true);
          rows.forEach(({ ids, targets, prefix }, r) => {
            if (!prefix) return;
            const root = rows[prefix.row]!;
            expect(prefix.row).toBeLessThan(r);
            expect(root.prefix).toBeUndefined();
            expect([...ids.slice(0, prefix.length)]).toEqual([...root.ids.slice(0, prefix.length)]);
            expect(targets.slice(0, prefix.length).includes(1)).toBe(false);
          });
        }
      },
    ),
  );
});

test('balanced micro-batches are even', () => {
  const lengths = [90, 10, 80, 20, 70, 30, 60, 40];
  const packed = packMicroBatches(
    lengths.map((length) => ({ ids: new Int32Array(length), trained: new Uint8Array(length) })),
    { tokensPerMicroBatch: 110, balance: true },
  );
  const loads = packed.map(({ rows }) => rows.reduce((sum, { ids }) => sum + ids.length, 0));
  expect(loads).toEqual([100, 100, 100, 100]);
});

test('images count as many tokens as they expand to, and different images are not shared', () => {
  const image = (blob: string) => ({
    at: 2,
    image: { blob, mime: 'image/png', width: 8, height: 8, tokens: 50 },
  });
  const row = (blob: string) => ({
    ids: Int32Array.from({ length: 20 }, (_, i) => i),
    trained: Uint8Array.from({ length: 20 }, (_, i) => (i > 15 ? 1 : 0)),
    images: [image(blob)],
  });
  const packed = packMicroBatches([row('a'), row('b'), row('a')], {
    tokensPerMicroBatch: 1000,
    balance: false,
    familyOf: () => 0,
  });
  expect(packed[0]!.rows.map(({ prefix }) => prefix)).toEqual([undefined, undefined, { row: 0, length: 16 }]);
  expect(packMicroBatches([row('a'), row('b')], { tokensPerMicroBatch: 100, balance: true })).toHaveLength(2);
});

test('groups are dealt whole and evenly, in an order that only the seed decides', () => {
  expect(splitGroups([0, 1, 2, 3, 4], 2)).toEqual([
    [0, 1],
    [2, 3, 4],
  ]);
  expect(splitGroups([7, 8], 5)).toEqual([[7], [8]]);
  expect(splitGroups([], 3)).toEqual([]);
  const shuffled = splitGroups([0, 1, 2, 3, 4, 5], 2, 9);
  expect(shuffled).toEqual(splitGroups([0, 1, 2, 3, 4, 5], 2, 9));
  expect(shuffled.flat().toSorted()).toEqual([0, 1, 2, 3, 4, 5]);
});
