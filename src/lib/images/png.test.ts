import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { decodePng, encodePng, plainPng } from './png.ts';

/** Made with Pillow by test/golden/images/make-transparent.py. */
const { cases } = JSON.parse(
  readFileSync(new URL('../../../test/golden/images/transparent.json', import.meta.url), 'utf8'),
) as { cases: { what: string; file: string; pixels: string }[] };
const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'base64'));

test.each(cases)(
  'a PNG with $what is read on white, and becomes one that all read alike',
  ({ file, pixels }) => {
    const picture = decodePng(bytesOf(file));
    expect([...picture.rgb]).toEqual([...bytesOf(pixels)]);
    const plain = plainPng(bytesOf(file))!;
    expect(plain).toEqual(encodePng(picture));
    expect(plainPng(plain)).toBeUndefined();
  },
);
