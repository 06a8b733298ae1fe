import type { Random } from '../../src/lib/random.ts';

const EDGES = [
  0,
  1,
  2,
  7,
  8,
  16,
  31,
  32,
  63,
  64,
  100,
  127,
  128,
  255,
  256,
  1000,
  1024,
  4096,
  32767,
  65535,
  2 ** 31 - 1,
];
const NUMBERS = ['0', '-1', '1e999', '99999999999', '-0.0', '2147483648', '9007199254740993', '1e-7', 'NaN'];
const LONGEST = 4096;

/** A neighbour of `input`: one to eight small changes, some of them taken from `other`. */
export function mutate(input: Buffer, other: Buffer, words: readonly Buffer[], random: Random): Buffer {
  let bytes = input;
  const changes = 1 << random.integer(4);
  for (let change = 0; change < changes; change++) {
    const way = WAYS[random.integer(words.length > 0 ? WAYS.length : WAYS.length - 2)]!;
    bytes = way(bytes, { other, words, random });
  }
  const most = Math.max(LONGEST, input.length);
  return bytes.length > most ? bytes.subarray(0, most) : bytes;
}

interface Means {
  readonly other: Buffer;
  readonly words: readonly Buffer[];
  readonly random: Random;
}

type Way = (bytes: Buffer, means: Means) => Buffer;

/** Puts `part` in place of the bytes from `from` to `to`. */
const replaced = (bytes: Buffer, from: number, to: number, part: Uint8Array) =>
  Buffer.concat([bytes.subarray(0, from), part, bytes.subarray(to)]);

function changed(bytes: Buffer, change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(bytes);
  change(copy);
  return copy;
}

/** A stretch, more often a short one. */
function stretch({ length }: Buffer, random: Random): [from: number, to: number] {
  const from = random.integer(length + 1);
  const most = random.integer(4) === 0 ? length : 16;
  return [from, Math.min(length, from + 1 + random.integer(most))];
}

const WAYS: readonly Way[] = [
  function flipBit(bytes, { random }) {
    if (bytes.length === 0) return bytes;
    return changed(bytes, (copy) => {
      copy[random.integer(copy.length)]! ^= 1 << random.integer(8);
    });
  },
  function anyByte(bytes, { random }) {
    if (bytes.length === 0) return bytes;
    return changed(bytes, (copy) => {
      copy[random.integer(copy.length)] = random.integer(256);
    });
  },
  function edgeNumber(bytes, { random }) {
    const size = [1, 2, 4, 8][random.integer(4)]!;
    if (bytes.length < size) return bytes;
    const edge = BigInt(EDGES[random.integer(EDGES.length)]!) * (random.integer(3) === 0 ? -1n : 1n);
    const at = random.integer(bytes.length - size + 1);
    const number = Buffer.alloc(8);
    number.writeBigInt64LE(edge);
    return changed(bytes, (copy) => number.copy(copy, at, 0, size));
  },
  function addLittle(bytes, { random }) {
    if (bytes.length === 0) return bytes;
    return changed(bytes, (copy) => {
      copy[random.integer(copy.length)]! += random.integer(33) - 16;
    });
  },
  function takeOut(bytes, { random }) {
    const [from, to] = stretch(bytes, random);
    return replaced(bytes, from, to, NOTHING);
  },
  function repeat(bytes, { random }) {
    const [from, to] = stretch(bytes, random);
    const times = [1, 1, 1, 1, 1, 2, 40, 2000][random.integer(8)]!;
    const part = bytes.subarray(from, to);
    const length = Math.min(LONGEST, times * part.length);
    return part.length === 0 ? bytes : replaced(bytes, from, from, Buffer.alloc(length, part));
  },
  function move(bytes, { random }) {
    const [from, to] = stretch(bytes, random);
    const at = random.integer(bytes.length + 1);
    return replaced(bytes, at, at, bytes.subarray(from, to));
  },
  function fromOther(bytes, { other, random }) {
    const [from, to] = stretch(other, random);
    const [at, end] = stretch(bytes, random);
    return replaced(bytes, at, random.integer(2) === 0 ? at : end, other.subarray(from, to));
  },
  function cut(bytes, { random }) {
    return random.integer(4) === 0 ? bytes.subarray(0, random.integer(bytes.length + 1)) : bytes;
  },
  function otherNumber(bytes, { random }) {
    const places = [...bytes.toString('latin1').matchAll(/\d+/g)];
    const place = places[random.integer(Math.max(1, places.length))];
    if (!place) return bytes;
    const text = NUMBERS[random.integer(NUMBERS.length)]!;
    return replaced(bytes, place.index, place.index + place[0].length, Buffer.from(text));
  },
  function word(bytes, { words, random }) {
    const at = random.integer(bytes.length + 1);
    return replaced(bytes, at, at, words[random.integer(words.length)]!);
  },
  function wordInstead(bytes, { words, random }) {
    const [from, to] = stretch(bytes, random);
    return replaced(bytes, from, to, words[random.integer(words.length)]!);
  },
];

const NOTHING = Buffer.alloc(0);
