import fc from 'fast-check';
import { expect, test } from 'vitest';
import { StopStrings, type TokenDecoder } from './stop-strings.ts';

/** Ids are UTF-8 bytes. */
const bytes: TokenDecoder = { decode: (ids) => new TextDecoder().decode(Uint8Array.from(ids)) };
/** Like a sentencepiece decoder: words begin with a space that is trimmed at the very start. */
const words = ['a', ' b', 'END', ' E', 'ND'];
const trimming: TokenDecoder = {
  decode: (ids) =>
    ids
      .map((id) => words[id])
      .join('')
      .replace(/^ /, ''),
};

function firstStop(stops: string[], decoder: TokenDecoder, ids: Iterable<number>, prompt: number[] = []) {
  const matcher = new StopStrings(stops, decoder, Int32Array.from(prompt));
  let count = 0;
  for (const id of ids) {
    count++;
    if (matcher.push(id)) return count;
  }
  return -1;
}

test('a stop string is found at the token that completes it, across tokens', () => {
  expect(firstStop(['END'], trimming, [0, 1, 3, 4, 0])).toBe(4);
  expect(firstStop(['END'], trimming, [0, 2])).toBe(2);
});

test('the prompt is context for decoding and never matches', () => {
  expect(firstStop(['END'], trimming, [0, 1], [2])).toBe(-1);
  expect(firstStop([' b'], trimming, [1], [0])).toBe(1); // after a prompt the leading space is there
});

test('a character in several tokens matches when its last byte is there', () => {
  expect(firstStop(['é!'], bytes, new TextEncoder().encode('caf é! no'))).toBe(7);
  expect(firstStop(['🙂'], bytes, new TextEncoder().encode('a🙂b'))).toBe(5);
});

test('text found token by token is the text found in the whole', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', 'b', 'é', '🙂', '\n'), maxLength: 30 }),
      fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'é', '🙂'), minLength: 1, maxLength: 3 }), {
        minLength: 1,
        maxLength: 3,
      }),
      (text, stops) => {
        const encoded = new TextEncoder().encode(text);
        let expected = -1;
        for (let end = 1; end <= encoded.length && expected < 0; end++) {
          const seen = new TextDecoder().decode(encoded.subarray(0, end));
          if (stops.some((stop) => seen.includes(stop))) expected = end;
        }
        expect(firstStop(stops, bytes, encoded)).toBe(expected);
      },
    ),
  );
});
