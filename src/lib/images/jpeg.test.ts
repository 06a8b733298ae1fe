import { readFileSync } from 'node:fs';
import { inflateSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { decodeImage } from './decode.ts';

/** Made with Pillow and libjpeg's own program by test/golden/images/make-jpeg.py. */
const { cases } = JSON.parse(
  readFileSync(new URL('../../../test/golden/images/jpeg.json', import.meta.url), 'utf8'),
) as { cases: { what: string; file: string; size: [number, number]; pixels: string }[] };
const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'base64'));

test.each(cases)(
  'a JPEG with $what has the pixels that Pillow reads, within rounding',
  ({ file, size, pixels }) => {
    const { width, height, rgb } = decodeImage(bytesOf(file), 'image/jpeg');
    expect([width, height]).toEqual(size);
    const differences = inflateSync(bytesOf(pixels)).map((value, at) => Math.abs(value - rgb[at]!));
    expect(Math.max(...differences)).toBeLessThanOrEqual(3);
    expect(differences.reduce((sum, value) => sum + value, 0) / differences.length).toBeLessThan(0.7);
  },
);

test('a JPEG that is cut, damaged, too large or of a rare kind is refused in words, wherever it is cut', () => {
  const good = bytesOf(cases[0]!.file);
  for (let length = 0; length < good.length - 2; length += 7)
    expect(() => decodeImage(good.subarray(0, length), 'image/jpeg')).toThrow(/cut|damaged/);
  const frame = good.findIndex((byte, at) => byte === 0xff && good[at + 1] === 0xc0);
  const huge = Uint8Array.from(good).fill(0xff, frame + 5, frame + 9);
  expect(() => decodeImage(huge, 'image/jpeg')).toThrow(/65535 × 65535 pixels; 67108864 are the most/);
  const empty = Uint8Array.from(good).fill(0, frame + 5, frame + 7);
  expect(() => decodeImage(empty, 'image/jpeg')).toThrow(/61 × 0 pixels; it needs some/);
  const arithmetic = Uint8Array.from(good).fill(0xc9, frame + 1, frame + 2);
  expect(() => decodeImage(arithmetic, 'image/jpeg')).toThrow(/rare kind/);
});
