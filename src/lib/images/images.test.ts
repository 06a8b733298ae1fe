import { readFileSync } from 'node:fs';
import CRC from 'crc-32';
import { expect, test } from 'vitest';
import { decodeImage } from './decode.ts';
import { decodePng, encodePng } from './png.ts';
import { expandPlaceholder, fixedViews, gridPatches, imageTokens, parseImageProcessor } from './processor.ts';

interface Golden {
  readonly pictures: readonly string[];
  readonly jpeg: string;
  readonly jpegPixels: string;
  readonly pngs: readonly { what: string; file: string; pixels: string; size: [number, number] }[];
  readonly families: Readonly<
    Record<
      string,
      {
        settings: Record<string, unknown>;
        whole: Record<string, unknown>;
        placeholder: string;
        cases: readonly { tokens: string[]; shape: number[]; step: number; values: number[]; sum: number }[];
      }
    >
  >;
}

/** Made with transformers, torchvision and Pillow by test/golden/images/make.py. */
const golden = JSON.parse(
  readFileSync(new URL('../../../test/golden/images/golden.json', import.meta.url), 'utf8'),
) as Golden;
const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'base64'));
const largest = (a: ArrayLike<number>, b: ArrayLike<number>) => {
  let most = a.length === b.length ? 0 : Number.POSITIVE_INFINITY;
  for (let i = 0; i < b.length; i++) most = Math.max(most, Math.abs(a[i]! - b[i]!));
  return most;
};

test.each(golden.pngs)('a PNG with $what has the pixels that Pillow reads', ({ file, pixels, size }) => {
  const image = decodePng(bytesOf(file));
  expect([image.width, image.height]).toEqual(size);
  expect(largest(image.rgb, bytesOf(pixels))).toBe(0);
});

test('a JPEG has the pixels that Pillow reads, within rounding', () => {
  const { rgb } = decodeImage(bytesOf(golden.jpeg), 'image/jpeg');
  const pixels = bytesOf(golden.jpegPixels);
  expect(largest(rgb, pixels)).toBeLessThanOrEqual(3);
});

test('what encodePng writes decodes to the same pixels', () => {
  const image = decodePng(bytesOf(golden.pictures[1]!));
  expect(decodePng(encodePng(image))).toEqual(image);
});

test.each(Object.entries(golden.families))(
  '%s: tokens and numbers equal those of the Hugging Face processor',
  (_, { settings, whole, placeholder, cases }) => {
    const processor = parseImageProcessor(settings, whole, 'golden')!;
    for (const [index, { tokens, shape, step, values, sum }] of cases.entries()) {
      const image = decodePng(bytesOf(golden.pictures[index]!));
      const parts = expandPlaceholder(processor, image, placeholder);
      expect(parts.join('')).toBe(tokens.join(''));
      expect(imageTokens(processor, image)).toBe(tokens.length);
      const numbers =
        processor.kind === 'grid'
          ? gridPatches(processor, image).values
          : Float32Array.from(fixedViews(processor, image).flatMap((view) => [...view]));
      expect(numbers.length).toBe(shape.reduce((product, size) => product * size, 1));
      const sampled = values.map((_, at) => numbers[at * step]!);
      // One level of 255 may round the other way in a resize.
      const level = 1.001 / 255 / Math.min(...processor.deviation);
      expect(largest(sampled, values)).toBeLessThan(level);
      const total = numbers.reduce((all, value) => all + value, 0);
      expect(Math.abs(total - sum) / numbers.length).toBeLessThan(1e-3);
    }
  },
);

test('broken, cut, empty and animated images are refused in words', () => {
  const good = bytesOf(golden.pictures[0]!);
  const empty = Uint8Array.from(good);
  empty.fill(0, 16, 20);
  const damaged = Uint8Array.from(good);
  damaged[100]! ^= 255;
  const frames = Buffer.from('\0\0\0\x08acTL\0\0\0\x02\0\0\0\0\0\0\0\0', 'latin1');
  frames.writeInt32BE(CRC.buf(frames.subarray(4, 16)), 16);
  const animated = Buffer.concat([good.subarray(0, 33), frames, good.subarray(33)]);
  const huge = Uint8Array.from(good);
  huge.fill(0x7f, 16, 24);
  expect(() => decodeImage(good.subarray(0, 300), 'image/png')).toThrow(/cut after 300 bytes/);
  expect(() => decodeImage(damaged, 'image/png')).toThrow(/damaged/);
  expect(() => decodeImage(empty, 'image/png')).toThrow(/0 × 40 pixels/);
  expect(() => decodeImage(huge, 'image/png')).toThrow(/2139062143 × 2139062143 pixels; 67108864/);
  expect(() => decodeImage(good, 'image/gif')).toThrow(/PNG and JPEG can/);
  expect(() => decodePng(animated)).toThrow(/animated/);
  expect(() => decodeImage(bytesOf(golden.jpeg).subarray(0, 200), 'image/jpeg')).toThrow();
});
