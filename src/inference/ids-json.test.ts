import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jsonWithIds } from './ids-json.ts';

test('the bytes are the JSON that JSON.stringify would have made of the ids and the rest', () => {
  const id = fc.oneof(
    fc.integer({ min: 0, max: 2 ** 31 - 1 }),
    fc.constantFrom(0, 9, 10, 99, 100, 999_999_999, 1e9),
  );
  fc.assert(
    fc.property(
      fc.array(id, { maxLength: 300 }),
      fc.record({ text: fc.string(), value: fc.jsonValue() }, { requiredKeys: [] }),
      (ids, rest) => {
        const bytes = jsonWithIds('ids', Int32Array.from(ids), rest);
        expect(bytes.toString()).toBe(JSON.stringify({ ids, ...rest }));
      },
    ),
  );
});

test('a prompt longer than any before it is written whole', () => {
  const ids = new Int32Array(200_000).fill(123_456_789);
  const read = JSON.parse(jsonWithIds('input_ids', ids, { text: '東京' }).toString());
  expect(read).toEqual({ input_ids: Array.from(ids), text: '東京' });
});
