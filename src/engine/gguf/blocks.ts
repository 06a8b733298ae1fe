/** Quantized blocks of GGUF files as f32, with the roundings of ggml's own code. */
import { decodeTensor } from '../safetensors.ts';

/** A storage type: every `elements` numbers of a row take `bytes`. */
export interface BlockType {
  readonly name: string;
  readonly elements: number;
  readonly bytes: number;
  decode(source: Uint8Array, target: Float32Array): void;
}

const { fround } = Math;

/** A view with what blocks are made of. */
class Block {
  readonly bytes: Uint8Array;
  readonly #half = new Float32Array(1);
  #offset = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  at(offset: number): this {
    this.#offset = offset;
    return this;
  }

  byte(index: number): number {
    return this.bytes[this.#offset + index]!;
  }

  signed(index: number): number {
    return (this.byte(index) << 24) >> 24;
  }

  half(index: number): number {
    const at = this.bytes.byteOffset + this.#offset + index;
    decodeTensor(new Uint8Array(this.bytes.buffer.slice(at, at + 2)), 'F16', this.#half);
    return this.#half[0]!;
  }
}

type Unpack = (block: Block, target: Float32Array, at: number) => void;

const blocks = (name: string, elements: number, bytes: number, unpack: Unpack): BlockType => ({
  name,
  elements,
  bytes,
  decode(source, target) {
    const block = new Block(source);
    for (let index = 0; index * elements < target.length; index++) {
      unpack(block.at(index * bytes), target, index * elements);
    }
  },
});

const plain = (dtype: 'F32' | 'F16' | 'BF16', bytes: number): BlockType => ({
  name: dtype,
  elements: 1,
  bytes,
  decode: (source, target) => decodeTensor(source, dtype, target),
});

/** 32 numbers: a scale, perhaps a minimum, four bits each, perhaps a fifth bit elsewhere. */
const fourOrFive = (name: string, options: { readonly minimum: boolean; readonly fifth: boolean }) => {
  const high = options.minimum ? 4 : 2;
  const low = high + (options.fifth ? 4 : 0);
  const centre = options.minimum ? 0 : options.fifth ? 16 : 8;
  return blocks(name, 32, low + 16, (block, target, at) => {
    const scale = block.half(0);
    const minimum = options.minimum ? block.half(2) : 0;
    for (let index = 0; index < 32; index++) {
      const pair = block.byte(low + (index % 16));
      const fifth = options.fifth ? ((block.byte(high + (index >> 3)) >> (index & 7)) & 1) << 4 : 0;
      const value = ((index < 16 ? pair & 15 : pair >> 4) | fifth) - centre;
      const scaled = fround(value * scale);
      target[at + index] = options.minimum ? scaled + minimum : scaled;
    }
  });
};

/** Six bits each of scale and minimum of eight groups, in twelve bytes from byte 4. */
function scaleAndMinimum(block: Block, group: number): readonly [number, number] {
  const byte = (index: number) => block.byte(4 + index);
  if (group < 4) return [byte(group) & 63, byte(group + 4) & 63];
  return [
    (byte(group + 4) & 15) | ((byte(group - 4) >> 6) << 4),
    (byte(group + 4) >> 4) | ((byte(group) >> 6) << 4),
  ];
}

/** 256 numbers in eight groups of 32, whose scales and minima are themselves quantized. */
const grouped = (name: string, fifth: boolean) => {
  const low = fifth ? 48 : 16;
  return blocks(name, 256, low + 128, (block, target, at) => {
    const scales = block.half(0);
    const minima = block.half(2);
    for (let group = 0; group < 8; group++) {
      const [scale, minimum] = scaleAndMinimum(block, group);
      const step = fround(scales * scale);
      const least = fround(minima * minimum);
      for (let index = 0; index < 32; index++) {
        const pair = block.byte(low + (group >> 1) * 32 + index);
        const bit = fifth ? ((block.byte(16 + index) >> group) & 1) << 4 : 0;
        const value = (group & 1 ? pair >> 4 : pair & 15) | bit;
        target[at + group * 32 + index] = fround(step * value) - least;
      }
    }
  });
};

/** 256 numbers of six bits in sixteen groups with a signed scale each. */
const sixBits = blocks('Q6_K', 256, 210, (block, target, at) => {
  const scale = block.half(208);
  for (let index = 0; index < 256; index++) {
    const half = index >> 7;
    const quarter = (index >> 5) & 3;
    const place = index & 31;
    const pair = block.byte(half * 64 + (quarter & 1) * 32 + place);
    const low = quarter < 2 ? pair & 15 : pair >> 4;
    const high = (block.byte(128 + half * 32 + place) >> (2 * quarter)) & 3;
    const group = block.signed(192 + (index >> 4));
    target[at + index] = fround(scale * group) * ((low | (high << 4)) - 32);
  }
});

const eightBits = blocks('Q8_0', 32, 34, (block, target, at) => {
  const scale = block.half(0);
  for (let index = 0; index < 32; index++) target[at + index] = block.signed(2 + index) * scale;
});

/** By the number that a GGUF file gives a type. */
export const BLOCK_TYPES: ReadonlyMap<number, BlockType> = new Map([
  [0, plain('F32', 4)],
  [1, plain('F16', 2)],
  [2, fourOrFive('Q4_0', { minimum: false, fifth: false })],
  [3, fourOrFive('Q4_1', { minimum: true, fifth: false })],
  [6, fourOrFive('Q5_0', { minimum: false, fifth: true })],
  [7, fourOrFive('Q5_1', { minimum: true, fifth: true })],
  [8, eightBits],
  [12, grouped('Q4_K', false)],
  [13, grouped('Q5_K', true)],
  [14, sixBits],
  [30, plain('BF16', 2)],
]);
