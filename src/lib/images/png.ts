/**
 * PNG, all of its colour types and depths, to RGB and back; what shines through is laid on white. Node has zlib, and the
 * rest is a page, so no library is used.
 */
import { deflateSync, inflateSync } from 'node:zlib';
import CRC from 'crc-32';
import type { Pixels } from './pixels.ts';

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
/** Samples of a pixel, by colour type. */
const SAMPLES: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };
const DEPTHS: Readonly<Record<number, readonly number[]>> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
};
/** First column, first row, step right, step down of Adam7's seven passes. */
const ADAM7 = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

interface Head {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly colour: number;
  readonly interlaced: boolean;
}

/** Throws an Error whose message says what is wrong with the bytes. */
export const decodePng = (bytes: Uint8Array): Pixels => readPng(bytes).pixels;

/**
 * The picture as a file that every program reads alike; undefined where it is one. Of transparent pixels some programs show
 * what lies under them, others white, and 16 bits of grey are cut off at 255 by some.
 */
export function plainPng(bytes: Uint8Array): Uint8Array | undefined {
  const { pixels, readsAlike } = readPng(bytes);
  return readsAlike ? undefined : encodePng(pixels);
}

function readPng(bytes: Uint8Array): { readonly pixels: Pixels; readonly readsAlike: boolean } {
  const { head, palette, clear, data } = readChunks(bytes);
  const { width, height, depth, colour, interlaced } = head;
  const samples = SAMPLES[colour]!;
  const passes = interlaced ? ADAM7 : ([[0, 0, 1, 1]] as const);
  const sizes = passes.map(([x, y, dx, dy]) => ({
    columns: Math.max(0, Math.ceil((width - x) / dx)),
    rows: Math.max(0, Math.ceil((height - y) / dy)),
  }));
  const lineBytes = (columns: number) => Math.ceil((columns * samples * depth) / 8);
  const wanted = sizes.reduce(
    (sum, { columns, rows }) => sum + (columns ? rows * (1 + lineBytes(columns)) : 0),
    0,
  );
  const raw = inflate(data, wanted);
  const isPlain = colour === 2 && depth === 8 && !interlaced && !clear;
  let isOpaque = true;
  const rgb = new Uint8Array(width * height * 3);
  let at = 0;
  for (const [index, [x0, y0, dx, dy]] of passes.entries()) {
    const { columns, rows } = sizes[index]!;
    if (columns === 0) continue;
    const line = lineBytes(columns);
    unfilter(raw, at, rows, line, Math.max(1, (samples * depth) / 8));
    for (let row = 0; row < rows; row++) {
      const from = at + row * (1 + line) + 1;
      if (isPlain) {
        rgb.set(raw.subarray(from, from + line), row * line);
        continue;
      }
      for (let column = 0; column < columns; column++) {
        const to = 3 * ((y0 + row * dy) * width + x0 + column * dx);
        writePixel(raw, from, column, head, palette, rgb, to);
        const alpha = alphaOf(raw, from, column, head, clear);
        if (alpha === 255) continue;
        isOpaque = false;
        for (let part = to; part < to + 3; part++)
          rgb[part] = Math.round((rgb[part]! * alpha + 255 * (255 - alpha)) / 255);
      }
    }
    at += rows * (1 + line);
  }
  return { pixels: { width, height, rgb }, readsAlike: isOpaque && depth <= 8 };
}

interface Chunks {
  readonly head: Head;
  readonly palette: Uint8Array | undefined;
  /** tRNS: the alpha of each colour of the palette, or the one colour that is clear. */
  readonly clear: Uint8Array | undefined;
  readonly data: readonly Uint8Array[];
}

function readChunks(bytes: Uint8Array): Chunks {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (SIGNATURE.some((byte, at) => view[at] !== byte)) throw new Error('it does not begin as a PNG does');
  let head: Head | undefined;
  let palette: Uint8Array | undefined;
  let clear: Uint8Array | undefined;
  const data: Uint8Array[] = [];
  for (let at = 8; ; ) {
    if (at + 12 > view.length) throw new Error(`it is cut after ${view.length} bytes`);
    const length = view.readUInt32BE(at);
    const kind = view.toString('latin1', at + 4, at + 8);
    if (at + 12 + length > view.length) throw new Error(`it is cut after ${view.length} bytes, in ${kind}`);
    const body = view.subarray(at + 8, at + 8 + length);
    if (view.readInt32BE(at + 8 + length) !== CRC.buf(view.subarray(at + 4, at + 8 + length))) {
      throw new Error(`its part ${kind} is damaged: the checksum is wrong`);
    }
    if (kind === 'IHDR') head = readHead(body);
    else if (kind === 'acTL') throw new Error('it is animated (APNG); one frame is needed');
    else if (kind === 'PLTE') palette = body;
    else if (kind === 'tRNS') clear = body;
    else if (kind === 'IDAT') data.push(body);
    else if (kind === 'IEND') break;
    at += 12 + length;
  }
  if (!head) throw new Error('it has no head (IHDR)');
  if (head.colour === 3 && !palette) throw new Error('it has no palette (PLTE)');
  if (data.length === 0) throw new Error('it has no pixels (IDAT)');
  return { head, palette, clear, data };
}

function readHead(body: Buffer): Head {
  if (body.length < 13) throw new Error('its head (IHDR) is too short');
  const head = {
    width: body.readUInt32BE(0),
    height: body.readUInt32BE(4),
    depth: body[8]!,
    colour: body[9]!,
    interlaced: body[12] === 1,
  };
  if (!DEPTHS[head.colour]?.includes(head.depth)) {
    throw new Error(`its colour type ${head.colour} with ${head.depth} bits does not exist`);
  }
  if (head.width === 0 || head.height === 0) throw new Error(`it is ${head.width} × ${head.height} pixels`);
  return head;
}

function inflate(parts: readonly Uint8Array[], wanted: number): Uint8Array {
  let raw: Uint8Array;
  try {
    raw = inflateSync(Buffer.concat(parts), { maxOutputLength: wanted + 1 });
  } catch (cause) {
    throw new Error(`its pixels cannot be unpacked (${(cause as Error).message})`, { cause });
  }
  if (raw.length < wanted) throw new Error(`it has ${raw.length} bytes of pixels; ${wanted} are needed`);
  return raw;
}

/** Undoes the filter of each line in place: none, sub, up, average, Paeth. */
function unfilter(raw: Uint8Array, start: number, rows: number, line: number, step: number): void {
  for (let row = 0; row < rows; row++) {
    const at = start + row * (1 + line);
    const filter = raw[at]!;
    if (filter > 4) throw new Error(`line ${row} has the filter ${filter}, which does not exist`);
    if (filter === 0) continue;
    for (let i = 1; i <= line; i++) {
      const left = i > step ? raw[at + i - step]! : 0;
      const up = row > 0 ? raw[at + i - line - 1]! : 0;
      const corner = row > 0 && i > step ? raw[at + i - line - 1 - step]! : 0;
      if (filter === 1) raw[at + i]! += left;
      else if (filter === 2) raw[at + i]! += up;
      else if (filter === 3) raw[at + i]! += (left + up) >> 1;
      else if (filter === 4) raw[at + i]! += paeth(left, up, corner);
    }
  }
}

function paeth(left: number, up: number, corner: number): number {
  const guess = left + up - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

function writePixel(
  raw: Uint8Array,
  from: number,
  column: number,
  { depth, colour }: Head,
  palette: Uint8Array | undefined,
  rgb: Uint8Array,
  to: number,
): void {
  const samples = SAMPLES[colour]!;
  if (colour === 2 || colour === 6) {
    const width = depth / 8;
    for (let part = 0; part < 3; part++) rgb[to + part] = raw[from + (column * samples + part) * width]!;
    return;
  }
  const value = depth < 8 ? bitsAt(raw, from, column, depth) : raw[from + (column * samples * depth) / 8]!;
  if (colour === 3) {
    if (3 * value + 2 >= palette!.length) throw new Error(`colour ${value} is not in its palette`);
    for (let part = 0; part < 3; part++) rgb[to + part] = palette![3 * value + part]!;
    return;
  }
  const grey = depth < 8 ? (value * 255) / (2 ** depth - 1) : value;
  rgb.fill(grey, to, to + 3);
}

/** 255 where nothing shines through. */
function alphaOf(
  raw: Uint8Array,
  from: number,
  column: number,
  { depth, colour }: Head,
  clear: Uint8Array | undefined,
): number {
  const samples = SAMPLES[colour]!;
  const bytes = depth / 8;
  if (colour === 4 || colour === 6) return raw[from + (column * samples + samples - 1) * bytes]!;
  if (!clear) return 255;
  if (colour === 3) return clear[bitsAt(raw, from, column, depth)] ?? 255;
  for (let part = 0; part < samples; part++) {
    const wanted = 256 * clear[2 * part]! + clear[2 * part + 1]!;
    const at = from + (column * samples + part) * bytes;
    const value =
      depth === 16 ? 256 * raw[at]! + raw[at + 1]! : bitsAt(raw, from, column * samples + part, depth);
    if (value !== wanted) return 255;
  }
  return 0;
}

function bitsAt(raw: Uint8Array, from: number, column: number, depth: number): number {
  const bit = column * depth;
  return (raw[from + (bit >> 3)]! >> (8 - depth - (bit & 7))) & (2 ** depth - 1);
}

/** The picture as a PNG: the same pixels give the same bytes. */
export function encodePng({ width, height, rgb }: Pixels): Uint8Array {
  const lines = Buffer.alloc(height * (1 + 3 * width));
  for (let row = 0; row < height; row++) {
    lines.set(rgb.subarray(row * 3 * width, (row + 1) * 3 * width), row * (1 + 3 * width) + 1);
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const chunk = (kind: string, body: Uint8Array) => {
    const whole = Buffer.alloc(12 + body.length);
    whole.writeUInt32BE(body.length, 0);
    whole.write(kind, 4, 'latin1');
    whole.set(body, 8);
    whole.writeInt32BE(CRC.buf(whole.subarray(4, 8 + body.length)), 8 + body.length);
    return whole;
  };
  return Buffer.concat([
    Buffer.from(SIGNATURE),
    chunk('IHDR', head),
    chunk('IDAT', deflateSync(lines)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}
