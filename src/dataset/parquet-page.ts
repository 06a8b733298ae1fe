/**
 * One data page: its levels and values. Run lengths, counts and sizes are checked against the bytes that are there before
 * anything is allocated or repeated; the library believes them, and a page of ten bytes could keep it busy for hours.
 */
import type { Compressors, PageHeader } from 'hyparquet';
import { decompressPage } from 'hyparquet/src/datapage.js';
import { deltaBinaryUnpack, deltaByteArray, deltaLengthByteArray } from 'hyparquet/src/delta.js';
import { byteStreamSplit } from 'hyparquet/src/encoding.js';
import { readPlain } from 'hyparquet/src/plain.js';

/** Values of one column in one row group, nulls and empty lists counted. */
const MOST_VALUES = 2 ** 26;
/** A page larger than this must be packed no better than deflate can (1,032 to 1). */
const LARGE_PAGE_BYTES = 64 * 2 ** 20;
const BEST_PACKING = 1032;

/** `left`: bytes after the header; `before`: values of the column so far. */
export function checkPage(header: PageHeader, left: number, before: number): void {
  const { compressed_page_size: packed, uncompressed_page_size: whole } = header;
  if (!(packed >= 0 && packed <= left)) {
    throw new Error(`a page says that it has ${packed} bytes, and ${left} are left`);
  }
  if (!(whole >= 0 && whole <= Math.max(LARGE_PAGE_BYTES, BEST_PACKING * packed))) {
    throw new Error(`a page of ${packed} bytes says that it unfolds to ${whole}`);
  }
  const { data_page_header: one, data_page_header_v2: two, dictionary_page_header: words } = header;
  const count = (one ?? two ?? words)?.num_values;
  if (count === undefined) throw new Error(`a page of type ${header.type} has no header of its own`);
  if (!(count >= 0 && before + count <= MOST_VALUES)) {
    throw new Error(`a page says that it has ${count} values`);
  }
}

export interface OpenedPage {
  /** Undefined: all are 0, or all values are there. */
  readonly repetitions: Uint8Array | undefined;
  readonly definitions: Uint8Array | undefined;
  readonly encoding: string;
  /** How many values are there, nulls not counted. */
  readonly present: number;
  /** The page unpacked, and where its values begin. */
  readonly bytes: Uint8Array;
  readonly from: number;
}

export interface PageMeta {
  readonly codec: Parameters<typeof decompressPage>[2];
  readonly compressors: Compressors;
  readonly maxDefinition: number;
  readonly maxRepetition: number;
}

/** Unpacks a data page of either version and reads its levels. */
export function openPage(packed: Uint8Array, header: PageHeader, meta: PageMeta): OpenedPage {
  const { data_page_header: one, data_page_header_v2: two } = header;
  const unpack = (bytes: Uint8Array, size: number) =>
    decompressPage(bytes, size, meta.codec, meta.compressors);
  const widths = [meta.maxRepetition, meta.maxDefinition].map((most) => 32 - Math.clz32(most));
  const levels: (Uint8Array | undefined)[] = [];
  let bytes = packed;
  let at = 0;
  const count = (one ?? two)!.num_values;
  const read = (width: number, length: number) => {
    if (!(length >= 0 && at + length <= bytes.length)) throw new Error('its levels go on after its end');
    const output = width === 0 ? undefined : new Uint8Array(count);
    if (output) readHybrid(bytes, at, at + length, width, output);
    levels.push(output);
    at += length;
  };
  if (one) {
    bytes = unpack(packed, header.uncompressed_page_size);
    for (const width of widths) {
      const length = width === 0 ? 0 : lengthAt(bytes, at);
      if (width > 0) at += 4;
      read(width, length);
    }
  } else {
    const lengths = [two!.repetition_levels_byte_length, two!.definition_levels_byte_length];
    widths.forEach((width, level) => {
      read(width, lengths[level]!);
    });
    const rest = packed.subarray(at);
    const size = header.uncompressed_page_size - at;
    if (size < 0) throw new Error('its levels are longer than the page');
    bytes = two!.is_compressed === false ? rest : unpack(rest, size);
    at = 0;
  }
  const [repetitions, definitions] = levels;
  const present = count - nullsIn(definitions, meta.maxDefinition);
  return { repetitions, definitions, encoding: (one ?? two)!.encoding, present, bytes, from: at };
}

function lengthAt(bytes: Uint8Array, at: number): number {
  if (at + 4 > bytes.length) throw new Error('it ends within its levels');
  return viewOf(bytes).getUint32(at, true);
}

function nullsIn(definitions: Uint8Array | undefined, most: number): number {
  let nulls = 0;
  for (let at = 0; at < (definitions?.length ?? 0); at++) if (definitions![at]! < most) nulls++;
  return nulls;
}

/** The numbers of words in the dictionary. */
export function readLookUps({ bytes, from, present }: OpenedPage, words: number): Int32Array {
  const numbers = new Int32Array(present);
  if (present === 0) return numbers;
  const width = bytes[from] ?? 0;
  if (width > 32) throw new Error(`the numbers of its words have ${width} bits`);
  if (width > 0) readHybrid(bytes, from + 1, bytes.length, width, numbers);
  for (let at = 0; at < present; at++) {
    if (!(numbers[at]! >= 0 && numbers[at]! < words)) {
      throw new Error(`value ${at} is word ${numbers[at]} of a dictionary of ${words}`);
    }
  }
  return numbers;
}

type ValueType = Parameters<typeof readPlain>[1];

/** Values that are written out, as the library decodes them. */
export function readValues(
  { bytes, from, present, encoding }: OpenedPage,
  type: ValueType,
  typeLength: number | undefined,
): ArrayLike<unknown> {
  const reader = { view: viewOf(bytes), offset: from };
  const needsEight = encoding === 'PLAIN' || encoding === 'BYTE_STREAM_SPLIT';
  if (needsEight && present > 8 * (bytes.length - from)) {
    throw new Error(`${present} values do not fit in ${bytes.length - from} bytes`);
  }
  switch (encoding) {
    case 'PLAIN':
      return readPlain(reader as never, type, present, typeLength);
    case 'RLE': {
      const flags = new Uint8Array(present);
      if (present > 0) readHybrid(bytes, from + 4, bytes.length, 1, flags); // after its length
      return Array.from(flags, (flag) => flag === 1);
    }
    case 'BYTE_STREAM_SPLIT':
      return byteStreamSplit(reader as never, present, type, typeLength);
    case 'DELTA_BINARY_PACKED': {
      const numbers = type === 'INT32' ? new Int32Array(present) : new BigInt64Array(present);
      deltaBinaryUnpack(reader as never, present, numbers);
      return numbers;
    }
    case 'DELTA_LENGTH_BYTE_ARRAY':
    case 'DELTA_BYTE_ARRAY': {
      const texts: Uint8Array[] = new Array(present);
      const unpack = encoding === 'DELTA_BYTE_ARRAY' ? deltaByteArray : deltaLengthByteArray;
      unpack(reader as never, present, texts);
      return texts;
    }
    default:
      throw new Error(`the encoding ${encoding} is not known`);
  }
}

/** Runs of one number and stretches of packed ones, in turn, until `output` is full. */
function readHybrid(
  bytes: Uint8Array,
  from: number,
  end: number,
  width: number,
  output: Uint8Array | Int32Array,
): void {
  let at = from;
  let filled = 0;
  const next = () => {
    if (at >= end) throw new Error('its runs end before its values do');
    return bytes[at++]!;
  };
  while (filled < output.length) {
    let header = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = next();
      if (shift > 28) throw new Error('the length of a run has no end');
      header = (header | ((byte & 0x7f) << shift)) >>> 0;
      if (byte < 0x80) break;
    }
    const left = output.length - filled;
    if (header & 1) {
      const count = Math.min(8 * (header >>> 1), left);
      if (count === 0) throw new Error('a run has no values');
      if (at + Math.ceil((count * width) / 8) > end) throw new Error('its packed values end before its end');
      unpackBits(bytes, at, width, output, filled, count);
      at += (header >>> 1) * width;
      filled += count;
    } else {
      const count = Math.min(header >>> 1, left);
      if (count === 0) throw new Error('a run has no values');
      let value = 0;
      for (let shift = 0; shift < width; shift += 8) value |= next() << shift;
      output.fill(value, filled, filled + count);
      filled += count;
    }
  }
}

/** Numbers of `width` bits, the lowest bit first. */
function unpackBits(
  bytes: Uint8Array,
  from: number,
  width: number,
  output: Uint8Array | Int32Array,
  at: number,
  count: number,
): void {
  let bit = 0;
  let byte = from;
  for (let index = 0; index < count; index++) {
    let value = 0;
    for (let have = 0; have < width; ) {
      const take = Math.min(8 - bit, width - have);
      value |= ((bytes[byte]! >> bit) & ((1 << take) - 1)) << have;
      have += take;
      bit += take;
      if (bit === 8) {
        bit = 0;
        byte++;
      }
    }
    output[at + index] = value;
  }
}

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array) =>
  new DataView(buffer, byteOffset, byteLength);
