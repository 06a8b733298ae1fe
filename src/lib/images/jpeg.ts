/**
 * JPEG to RGB. jpeg-js, which is JavaScript alone, decodes the blocks; colours that are stored at half resolution are spread
 * here as libjpeg spreads them, and so Pillow and every server that reads with it. jpeg-js would repeat them, and be up to 80
 * levels off beside an edge.
 */
import jpeg from 'jpeg-js';
import type { Pixels } from './pixels.ts';
import type { Size } from './processor.ts';

/** What stands before the pixels. */
interface Head extends Size {
  /** Across and down, by component. */
  readonly factors: readonly (readonly [number, number])[];
  readonly isRgb: boolean;
  /** Adobe's part, from its marker to its end; jpeg-js converts colours by it, whatever it is told. */
  readonly adobe: readonly [number, number] | undefined;
}

/** Throws an Error whose message says what is wrong with the bytes; `check` may throw for the size. */
export function decodeJpeg(bytes: Uint8Array, check: (size: Size) => void): Pixels {
  const head = readHead(bytes);
  check(head);
  const { width, height, factors, isRgb, adobe } = head;
  if (factors.length !== 3) return { width, height, rgb: decoded(bytes) };
  const plain = adobe ? Buffer.concat([bytes.subarray(0, adobe[0]), bytes.subarray(adobe[1])]) : bytes;
  const data = decoded(plain, { colorTransform: false });
  if (!isRgb) {
    const [[across, down]] = factors as [readonly [number, number]];
    for (const part of [1, 2]) {
      const [x, y] = factors[part]!;
      spread(data, part, head, across / x, down / y);
    }
    convert(data);
  }
  return { width, height, rgb: data };
}

function decoded(bytes: Uint8Array, more: { readonly colorTransform?: boolean } = {}): Uint8Array {
  const limits = { maxResolutionInMP: 1000, maxMemoryUsageInMB: 1024 }; // the size has been checked
  try {
    return jpeg.decode(bytes, { useTArray: true, formatAsRGBA: false, ...limits, ...more }).data;
  } catch (cause) {
    const what = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`it is cut or damaged: its pixels cannot be decoded (${what})`, { cause });
  }
}

function readHead(bytes: Uint8Array): Head {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const is = (at: number, text: string) => view.toString('latin1', at, at + text.length) === text;
  let adobe: Head['adobe'];
  let [isJfif, isConverted] = [false, true];
  try {
    for (let at = 2; ; ) {
      while (view.readUInt8(at + 1) === 0xff) at++; // padding
      const marker = view.readUInt8(at + 1);
      const end = at + 2 + view.readUInt16BE(at + 2);
      if (marker === 0xe0 && is(at + 4, 'JFIF')) isJfif = true;
      if (marker === 0xee && is(at + 4, 'Adobe')) {
        adobe = [at, end];
        isConverted = view.readUInt8(at + 15) !== 0;
      }
      if (marker >= 0xc0 && marker <= 0xc2) {
        const count = view.readUInt8(at + 9);
        const parts = Array.from({ length: count }, (_, part) => at + 10 + 3 * part);
        const names = String.fromCharCode(...parts.map((part) => view.readUInt8(part)));
        return {
          height: view.readUInt16BE(at + 5),
          width: view.readUInt16BE(at + 7),
          factors: parts.map((part) => {
            const factor = view.readUInt8(part + 1);
            return [factor >> 4, factor & 15];
          }),
          isRgb: !isJfif && (adobe ? !isConverted : names === 'RGB'),
          adobe,
        };
      }
      if (marker === 0xda) throw new Error('it is damaged: its pixels begin before its size is said');
      const isOther = marker > 0xc2 && marker < 0xd0 && ![0xc4, 0xc8, 0xcc].includes(marker);
      if (isOther)
        throw new Error('it is of a rare kind (lossless or arithmetic); baseline or progressive is needed');
      at = end;
    }
  } catch (cause) {
    if (cause instanceof RangeError) throw new Error(`it is cut after ${view.length} bytes`, { cause });
    throw cause;
  }
}

/** libjpeg's "fancy upsampling": each new sample is 3/4 of the nearer old one and 1/4 of the farther, in both directions. */
function spread(data: Uint8Array, part: number, { width, height }: Size, across: number, down: number): void {
  const columns = Math.ceil(width / across);
  const rows = Math.ceil(height / down);
  const isSpread = down === 2 ? across === 1 || across === 2 : down === 1 && across === 2;
  if (!isSpread || (across === 2 && columns <= 2)) return; // repeated, as libjpeg does too
  const old = new Uint8Array(columns * rows);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      old[row * columns + column] = data[3 * (row * down * width + column * across) + part]!;
  const sums = new Int32Array(columns); // of the two rows, four times a sample, or a sample
  const [near, far, all] = down === 2 ? [3, 1, 4] : [1, 0, 1];
  for (let y = 0; y < height; y++) {
    const row = Math.floor(y / down);
    const other = Math.min(rows - 1, Math.max(0, y % 2 === 1 ? row + 1 : row - 1));
    for (let column = 0; column < columns; column++)
      sums[column] = near * old[row * columns + column]! + far * old[other * columns + column]!;
    // What is added before the division differs from side to side, so that roundings do not all go one way.
    const [left, right] = down === 2 ? [8, 7] : [1, 2];
    for (let x = 0; x < width; x++) {
      const to = 3 * (y * width + x) + part;
      if (across === 1) {
        data[to] = (sums[x]! + (y % 2 === 1 ? 2 : 1)) >> 2;
        continue;
      }
      const column = x >> 1;
      const isRight = x % 2 === 1;
      const beside = sums[Math.min(columns - 1, Math.max(0, isRight ? column + 1 : column - 1))]!;
      data[to] = Math.floor((3 * sums[column]! + beside + (isRight ? right : left)) / (4 * all));
    }
  }
}

/** Brightness and two differences of colour become red, green and blue, in place. */
function convert(data: Uint8Array): void {
  const clamp = (value: number) => Math.max(0, Math.min(255, Math.round(value)));
  for (let at = 0; at < data.length; at += 3) {
    const light = data[at]!;
    const blue = data[at + 1]! - 128;
    const red = data[at + 2]! - 128;
    data[at] = clamp(light + 1.402 * red);
    data[at + 1] = clamp(light - 0.344136 * blue - 0.714136 * red);
    data[at + 2] = clamp(light + 1.772 * blue);
  }
}
