import fc from 'fast-check';
import { expect, test } from 'vitest';
import { shortenToCharacters, shortenToTokens } from './shorten.ts';

const bytes = {
  encode: (text: string) => new TextEncoder().encode(text),
  decode: (ids: readonly number[]) => new TextDecoder().decode(Uint8Array.from(ids)),
};

test('each way of shortening keeps the part it is named after', () => {
  expect(shortenToCharacters('abcdefghij', 4, 'head')).toBe('abcd…(6 characters left out)');
  expect(shortenToCharacters('abcdefghij', 4, 'tail')).toBe('(6 characters left out)…ghij');
  expect(shortenToCharacters('abcdefghij', 5, 'both ends')).toBe('abc…(5 characters left out)…ij');
  expect(shortenToTokens('abcdefghij', 4, 'tail', bytes)).toBe('(6 tokens left out)…ghij');
  expect(shortenToTokens('abcd', 4, 'tail', bytes)).toBe('abcd');
});

test('a limit in tokens holds for any text and never leaves half a character', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', maxLength: 60 }).filter((text) => !text.includes('\uFFFD')),
      fc.integer({ min: 0, max: 40 }),
      fc.constantFrom('head' as const, 'tail' as const, 'both ends' as const),
      (text, limit, keep) => {
        const short = shortenToTokens(text, limit, keep, bytes);
        const whole = bytes.encode(text).length <= limit;
        expect(short === text).toBe(whole);
        expect(short).not.toContain('\uFFFD');
        const kept = short.replace(/…?\(\d+ tokens left out\)…?/, '');
        if (!whole) expect(bytes.encode(kept).length).toBeLessThanOrEqual(limit);
      },
    ),
  );
});
