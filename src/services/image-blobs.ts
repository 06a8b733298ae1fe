import { createHash } from 'node:crypto';
import { access, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatasetError } from '../errors.ts';
import { makeFolder, writeFileAtomically } from '../lib/files.ts';
import { readAlike } from '../lib/images/decode.ts';
import { type ImageProcessor, imageTokens } from '../lib/images/processor.ts';
import type { ImageRef } from '../types.ts';

/** The bytes of an image, or the path of its file. */
export type ImageSource = Uint8Array | { readonly bytes: Uint8Array } | { readonly path: string };

/** Images by the hash of their bytes: the run directory's `blobs/`. */
export interface ImageBlobs {
  /** Stores an image once; throws a DatasetError for what is not an image. */
  put(source: ImageSource): Promise<ImageRef>;
  read(image: ImageRef): Promise<Uint8Array>;
}

/** Side of a token in pixels where nothing else is said: Qwen's vision models merge 2 × 2 patches of 14. */
const PIXELS_PER_TOKEN = 28;

/** How many tokens an image takes: as the model's own processor says, or about as many as its size in pixels. */
export interface ImageBlobsOptions {
  readonly processor?: ImageProcessor | undefined;
  readonly pixelsPerToken?: number | undefined;
  /**
   * Refuses at once what cannot be decoded here: the embedded engine could not show it either. A PNG that servers read in
   * different ways, transparent or with 16 bits, is kept as an opaque one with 8.
   */
  readonly decodes?: boolean;
}

function tokenCounter({ processor, pixelsPerToken = PIXELS_PER_TOKEN }: ImageBlobsOptions) {
  const side = (pixels: number) => Math.max(1, Math.round(pixels / pixelsPerToken));
  return (size: Pick<ImageRef, 'width' | 'height'>) =>
    processor ? imageTokens(processor, size) : side(size.width) * side(size.height);
}

/** Keeps the images that were shown last in memory, for lessons and measurements that leave no run behind. */
export function memoryImages({
  limit = 10_000,
  ...options
}: ImageBlobsOptions & { readonly limit?: number } = {}): ImageBlobs {
  const tokensOf = tokenCounter(options);
  const kept = new Map<string, Uint8Array>();
  return {
    put: async (source) => {
      const { bytes, found } = await readImage(source, options.decodes);
      const tokens = tokensOf(found);
      const blob = createHash('sha256').update(bytes).digest('hex');
      kept.delete(blob);
      kept.set(blob, bytes);
      const [oldest] = kept.keys();
      if (kept.size > limit) kept.delete(oldest!);
      return { blob, ...found, tokens };
    },
    read: async ({ blob }) => {
      const bytes = kept.get(blob);
      if (bytes) return bytes;
      throw new DatasetError(`the image ${blob} is no longer in memory; ${limit} are kept`);
    },
  };
}

/** Stores images in a folder under the hash of their content. */
export function imageBlobs(folder: string, options: ImageBlobsOptions = {}): ImageBlobs {
  const tokensOf = tokenCounter(options);
  const kept = new Map<string, Promise<void>>();
  const keep = async (file: string, bytes: Uint8Array) => {
    const isThere = await access(file).then(
      () => true,
      () => false,
    );
    if (isThere) return;
    await makeFolder(folder);
    await writeFileAtomically(file, bytes);
  };
  return {
    put: async (source) => {
      const { bytes, found } = await readImage(source, options.decodes);
      const tokens = tokensOf(found);
      const blob = createHash('sha256').update(bytes).digest('hex');
      const writing = kept.get(blob) ?? keep(join(folder, blob), bytes);
      kept.set(blob, writing);
      await writing.catch((error: unknown) => {
        kept.delete(blob);
        throw error;
      });
      return { blob, ...found, tokens };
    },
    read: ({ blob }) => readFile(join(folder, blob)),
  };
}

/** For work outside of a run: a folder of this machine, which all such work shares. */
export const temporaryImages = (): ImageBlobs => imageBlobs(join(tmpdir(), 'rollcall-images'));

/** The bytes of an image and what they say about it; throws a DatasetError for what is not an image. */
export async function readImage(source: ImageSource, decodes = false) {
  const bytes = await bytesOf(source);
  const found = describeImage(bytes);
  if (found && found.width > 0 && found.height > 0) {
    return { bytes: decodes ? decodable(source, bytes, found.mime) : bytes, found };
  }
  if (found) {
    throw new DatasetError(
      `${placeOf(source)} is an image of ${found.width} × ${found.height} pixels; it needs some`,
    );
  }
  throw new DatasetError(
    `${placeOf(source)} is not a known kind of image: it begins with ${JSON.stringify(startOf(bytes))}; ` +
      'use PNG, JPEG, GIF or WebP',
  );
}

function decodable(source: ImageSource, bytes: Uint8Array, mime: string): Uint8Array {
  try {
    return readAlike(bytes, mime);
  } catch (cause) {
    const { message } = cause as Error;
    throw new DatasetError(`${placeOf(source)} is an image that cannot be shown: ${message}`, { cause });
  }
}

async function bytesOf(source: ImageSource): Promise<Uint8Array> {
  if (source instanceof Uint8Array) return source;
  if ('bytes' in source) return source.bytes;
  const data = /^data:[^,]*;base64,(.*)$/s.exec(source.path)?.[1];
  if (data !== undefined) return Buffer.from(data, 'base64');
  try {
    return await readFile(source.path);
  } catch (cause) {
    throw new DatasetError(`the image ${source.path} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

const placeOf = (source: ImageSource) =>
  'path' in source && !source.path.startsWith('data:') ? source.path : 'what was given';
const startOf = (bytes: Uint8Array) => Buffer.from(bytes.subarray(0, 8)).toString('latin1');

/** What the first bytes of an image say of it; undefined for what is none. */
export function describeImage(bytes: Uint8Array): Pick<ImageRef, 'mime' | 'width' | 'height'> | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const is = (at: number, text: string) => view.toString('latin1', at, at + text.length) === text;
  try {
    if (is(0, '\x89PNG\r\n\x1a\n')) {
      return { mime: 'image/png', width: view.readUInt32BE(16), height: view.readUInt32BE(20) };
    }
    if (is(0, 'GIF8'))
      return { mime: 'image/gif', width: view.readUInt16LE(6), height: view.readUInt16LE(8) };
    if (is(0, '\xff\xd8\xff')) return describeJpeg(view);
    if (is(0, 'RIFF') && is(8, 'WEBP')) return describeWebp(view, is);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // it is cut
  }
  return undefined;
}

/** The frame header, found by walking from marker to marker. */
function describeJpeg(view: Buffer) {
  for (let at = 2; ; at += 2 + view.readUInt16BE(at + 2)) {
    while (view.readUInt8(at) === 0xff && view.readUInt8(at + 1) === 0xff) at++; // padding
    const marker = view.readUInt8(at + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame)
      return { mime: 'image/jpeg', height: view.readUInt16BE(at + 5), width: view.readUInt16BE(at + 7) };
  }
}

/** Lossy, lossless or extended: each says its size in another way. */
function describeWebp(view: Buffer, is: (at: number, text: string) => boolean) {
  const mime = 'image/webp';
  if (is(12, 'VP8 ')) {
    return { mime, width: view.readUInt16LE(26) & 0x3fff, height: view.readUInt16LE(28) & 0x3fff };
  }
  if (is(12, 'VP8L')) {
    const bits = view.readUInt32LE(21);
    return { mime, width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) };
  }
  if (is(12, 'VP8X')) return { mime, width: 1 + view.readUIntLE(24, 3), height: 1 + view.readUIntLE(27, 3) };
  return undefined;
}
