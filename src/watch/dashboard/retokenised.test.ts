import fc from 'fast-check';
import { expect, test } from 'vitest';
import { tokenDifferences } from './retokenised.ts';

/** Tokens whose id says their text, so that equal texts are equal tokens. */
const written = (texts: readonly string[]) => ({
  texts,
  ids: texts.map((text) => Number.parseInt(Buffer.from(text).toString('hex') || '0', 16)),
});

test('two places where the text was cut otherwise are two differences', () => {
  const sampled = written(['He', 'llo', ' ', 'wor', 'ld', '!']);
  const again = written(['Hello', ' ', 'world', '!']);
  expect(tokenDifferences(sampled, again)).toMatchObject([
    { start: 0, end: 2, texts: ['Hello'] },
    { start: 3, end: 5, texts: ['world'] },
  ]);
  expect(tokenDifferences(again, sampled)).toMatchObject([
    { start: 0, end: 1, texts: ['He', 'llo'] },
    { start: 2, end: 3, texts: ['wor', 'ld'] },
  ]);
  expect(tokenDifferences(sampled, sampled)).toEqual([]);
});

test('tokens without a text of their own, the first bytes of a character, do not confuse it', () => {
  const sampled = { ids: [1, 2, 3, 4], texts: ['a', '', '\uFFFDb', 'c'] };
  const again = { ids: [1, 7, 8, 9, 3, 4], texts: ['a', '', '', '\uFFFD', 'b', 'c'] };
  expect(tokenDifferences(sampled, again)).toEqual([
    { start: 1, end: 2, ids: [7, 8, 9], texts: ['', '', '\uFFFD'] },
  ]);
});

test('putting every difference in gives the other tokens', () => {
  const cuts = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 0, maxLength: 20 });
  const cut = (text: string, lengths: readonly number[]) => {
    const pieces: string[] = [];
    let at = 0;
    for (const length of [...lengths, text.length]) {
      if (at < text.length) pieces.push(text.slice(at, at + length));
      at += length;
    }
    return pieces;
  };
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 24 }),
      cuts,
      cuts,
      (text, one, other) => {
        const [sampled, again] = [written(cut(text, one)), written(cut(text, other))];
        const result = [...sampled.texts];
        for (const { start, end, texts } of tokenDifferences(sampled, again).reverse())
          result.splice(start, end - start, ...texts);
        expect(result).toEqual(again.texts);
      },
    ),
  );
});
