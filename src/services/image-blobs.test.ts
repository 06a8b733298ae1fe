import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodePng } from '../lib/images/png.ts';
import { parseImageProcessor } from '../lib/images/processor.ts';
import { describeImage, imageBlobs, memoryImages } from './image-blobs.ts';

const canvas = await import('@napi-rs/canvas').catch(() => undefined);
const drawing = canvas ? test : test.skip;
const why = canvas ? '' : ' (skipped: the optional package @napi-rs/canvas is not installed)';

/** Made by another program, Skia, in the size asked for. */
async function drawn(
  mime: 'image/png' | 'image/jpeg' | 'image/webp' | 'image/gif',
  width: number,
  height: number,
) {
  const picture = canvas!.createCanvas(width, height);
  picture.getContext('2d').fillRect(0, 0, width / 2, height);
  const format = mime.slice('image/'.length) as 'png';
  return new Uint8Array(await picture.encode(format));
}

drawing(`the size of an image is that which another program drew${why}`, async () => {
  const side = fc.integer({ min: 1, max: 700 });
  const mimes = fc.constantFrom('image/png', 'image/jpeg', 'image/webp', 'image/gif');
  await fc.assert(
    fc.asyncProperty(mimes, side, side, async (mime, width, height) => {
      expect(describeImage(await drawn(mime, width, height))).toEqual({ mime, width, height });
    }),
    { numRuns: 40 },
  );
  // Lossless and extended WebP, by the container's description: sizes are stored less one.
  const header = (kind: string, rest: readonly number[]) =>
    Uint8Array.from([...Buffer.from(`RIFF\0\0\0\0WEBP${kind}\0\0\0\0`, 'latin1'), ...rest]);
  const lossless = 299 | (199 << 14);
  expect(
    describeImage(header('VP8L', [0x2f, ...new Uint8Array(Uint32Array.of(lossless).buffer)])),
  ).toMatchObject({ width: 300, height: 200 });
  expect(describeImage(header('VP8X', [0, 0, 0, 0, 43, 1, 0, 199, 0, 0]))).toMatchObject({
    width: 300,
    height: 200,
  });
});

drawing(`what is cut or is not an image is described as nothing, and never throws${why}`, async () => {
  const whole = await drawn('image/jpeg', 30, 20);
  fc.assert(
    fc.property(fc.nat(whole.length - 1), (length) => {
      const found = describeImage(whole.subarray(0, length));
      expect(found === undefined || found.width === 30).toBe(true);
    }),
  );
  fc.assert(fc.property(fc.uint8Array(), (bytes) => void describeImage(bytes)));
});

drawing(`an image is kept once, under the hash of its bytes, however it is given${why}`, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-blobs-'));
  const blobs = imageBlobs(join(folder, 'blobs'));
  const bytes = await drawn('image/png', 56, 84);
  const file = join(folder, 'picture.png');
  await writeFile(file, bytes);
  const url = `data:image/png;base64,${Buffer.from(bytes).toString('base64')}`;
  const given = [bytes, { bytes }, { path: file }, { path: url }];
  const refs = await Promise.all(given.map((source) => blobs.put(source)));
  const blob = createHash('sha256').update(bytes).digest('hex');
  for (const ref of refs) expect(ref).toEqual({ blob, mime: 'image/png', width: 56, height: 84, tokens: 6 });
  expect(await readdir(join(folder, 'blobs'))).toEqual([blob]);
  expect(Buffer.from(await blobs.read(refs[0]!)).equals(Buffer.from(bytes))).toBe(true);
});

test('what is not an image is refused with its first bytes; a file that is not there by its name', async () => {
  const blobs = imageBlobs(await mkdtemp(join(tmpdir(), 'rollcall-blobs-')));
  await expect(blobs.put(Buffer.from('<svg></svg>'))).rejects.toThrow(
    'what was given is not a known kind of image: it begins with "<svg></s"; use PNG, JPEG, GIF or WebP',
  );
  await expect(blobs.put({ path: '/nowhere/a.png' })).rejects.toThrow(
    /the image \/nowhere\/a\.png cannot be read/,
  );
});

test('a transparent PNG is kept on white where a trainer reads it: servers do not agree on what shines through', async () => {
  const { cases } = JSON.parse(
    readFileSync(new URL('../../test/golden/images/transparent.json', import.meta.url), 'utf8'),
  ) as { cases: { file: string; pixels: string }[] };
  const given = new Uint8Array(Buffer.from(cases[0]!.file, 'base64'));
  const rgb = new Uint8Array(Buffer.from(cases[0]!.pixels, 'base64'));
  const kept = memoryImages({ decodes: true });
  const image = await kept.put(given);
  expect(await kept.read(image)).toEqual(encodePng({ width: image.width, height: image.height, rgb }));
  const asGiven = memoryImages();
  expect(await asGiven.read(await asGiven.put(given))).toEqual(given);
});

test('what the embedded engine could not show is refused when it is put, by name and reason', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-blobs-'));
  const processor = parseImageProcessor({ patch_size: 14, merge_size: 2 }, {}, 'a model')!;
  const blobs = imageBlobs(folder, { processor, decodes: true });
  const square = (width: number, height: number) =>
    encodePng({ width, height, rgb: new Uint8Array(3 * width * height) });
  const good = square(56, 84);
  expect(await blobs.put(good)).toMatchObject({ width: 56, height: 84, tokens: 6 });
  const file = join(folder, 'cut.png');
  await writeFile(file, good.subarray(0, 60));
  await expect(blobs.put({ path: file })).rejects.toThrow(
    `${file} is an image that cannot be shown: it is cut`,
  );
  await expect(blobs.put(square(3, 900))).rejects.toThrow('3 × 900 pixels is too long; 200 to 1');
  const empty = Uint8Array.from(good).fill(0, 16, 20);
  await expect(blobs.put(empty)).rejects.toThrow('is an image of 0 × 84 pixels');
  const gif = Buffer.from('GIF89a\x08\0\x08\0', 'latin1');
  await expect(blobs.put(gif)).rejects.toThrow('image/gif cannot be decoded here; PNG and JPEG can');
  const memory = memoryImages({ processor, limit: 1 });
  const first = await memory.put(good);
  expect(await memory.read(first)).toEqual(good);
  await memory.put(square(28, 28));
  await expect(memory.read(first)).rejects.toThrow('no longer in memory; 1 are kept');
});
