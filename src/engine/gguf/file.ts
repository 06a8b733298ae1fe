/**
 * GGUF files (versions 2 and 3): metadata, then the names, shapes and places of tensors, then their bytes. A file is data
 * from somewhere: every length in it is checked against the file before anything is made of it.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { ConfigError } from '../../errors.ts';
import { BLOCK_TYPES, type BlockType } from './blocks.ts';

export type GgufValue = number | bigint | boolean | string | readonly GgufValue[];

interface GgufTensor {
  readonly name: string;
  /** As Hugging Face writes it: rows first. */
  readonly shape: readonly number[];
  readonly type: BlockType;
  /** Byte offset in the file. */
  readonly begin: number;
}

const MAGIC = 0x46554747;
const CHUNK_BYTES = 1 << 20;
const MOST_ENTRIES = 1 << 24;
const MOST_DEPTH = 4;

/** An open GGUF file; its header has been read and checked. */
export class GgufFile {
  readonly path: string;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
  readonly #descriptor: number;

  constructor(path: string) {
    this.path = path;
    try {
      this.#descriptor = openSync(path, 'r');
    } catch (cause) {
      throw new ConfigError(`${path}: cannot be opened (${(cause as NodeJS.ErrnoException).code})`, {
        cause,
      });
    }
    try {
      const header = readHeader(new Cursor(this.#descriptor, path));
      this.metadata = header.metadata;
      this.tensors = header.tensors;
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** A tensor as f32; numbers that are not finite are refused. */
  read(name: string): Float32Array<ArrayBuffer> {
    const tensor = this.tensors.get(name);
    if (!tensor) throw new ConfigError(`${this.path}: tensor ${name} is missing`);
    const target = new Float32Array(elementsOf(tensor.shape));
    const { type } = tensor;
    const perChunk = Math.max(1, Math.floor(CHUNK_BYTES / type.bytes)) * type.elements;
    for (let from = 0; from < target.length; from += perChunk) {
      const part = target.subarray(from, from + perChunk);
      const source = new Uint8Array((part.length / type.elements) * type.bytes);
      readFully(this.#descriptor, source, tensor.begin + (from / type.elements) * type.bytes, this.path);
      type.decode(source, part);
    }
    const bad = target.findIndex((value) => value - value !== 0);
    if (bad >= 0)
      throw new ConfigError(
        `${this.path}: tensor ${name}: element ${bad} is ${target[bad]}; weights must be finite`,
      );
    return target;
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

const elementsOf = (shape: readonly number[]) => shape.reduce((product, size) => product * size, 1);

function readHeader(cursor: Cursor): Pick<GgufFile, 'metadata' | 'tensors'> {
  const { path } = cursor;
  if (cursor.size < 24 || cursor.u32() !== MAGIC) throw new ConfigError(`${path}: not a GGUF file`);
  const version = cursor.u32();
  if (version !== 2 && version !== 3) {
    throw new ConfigError(`${path}: GGUF version ${version} is not implemented; 2 and 3 are`);
  }
  const tensorCount = cursor.count('tensors');
  const entries = cursor.count('metadata entries');
  const metadata = new Map<string, GgufValue>();
  for (let index = 0; index < entries; index++) {
    const key = cursor.text();
    metadata.set(key, readValue(cursor, cursor.u32(), 0));
  }
  const found = Array.from({ length: tensorCount }, () => readTensor(cursor));
  const alignment = Number(metadata.get('general.alignment') ?? 32);
  if (!Number.isSafeInteger(alignment) || alignment < 1 || alignment > 1 << 20) {
    throw new ConfigError(`${path}: general.alignment is ${alignment}; a small power of two is right`);
  }
  const dataStart = Math.ceil(cursor.position / alignment) * alignment;
  const tensors = new Map<string, GgufTensor>();
  for (const { offset, ...tensor } of found) {
    const { name, shape, type } = tensor;
    const begin = dataStart + offset;
    const end = begin + (elementsOf(shape) / type.elements) * type.bytes;
    if (end > cursor.size) {
      throw new ConfigError(
        `${path}: truncated: tensor ${name} ends at byte ${end}, the file has ${cursor.size} bytes`,
      );
    }
    if (tensors.has(name)) throw new ConfigError(`${path}: tensor ${name} is there twice`);
    tensors.set(name, { ...tensor, begin });
  }
  return { metadata, tensors };
}

function readTensor(cursor: Cursor): Omit<GgufTensor, 'begin'> & { readonly offset: number } {
  const name = cursor.text();
  const dimensions = cursor.u32();
  if (dimensions > 4) throw new ConfigError(`${cursor.path}: tensor ${name} has ${dimensions} dimensions`);
  const shape = Array.from({ length: dimensions }, () => cursor.u64()).reverse();
  const code = cursor.u32();
  const type = BLOCK_TYPES.get(code);
  if (!type) {
    const known = [...BLOCK_TYPES.values()].map((one) => one.name).join(', ');
    throw new ConfigError(
      `${cursor.path}: tensor ${name} is of GGUF type ${code}, which is not implemented; ${known} are`,
    );
  }
  const row = shape.at(-1) ?? 1;
  if (row % type.elements !== 0) {
    throw new ConfigError(
      `${cursor.path}: tensor ${name}: rows of ${row} numbers are not whole blocks of ${type.name}`,
    );
  }
  return { name, shape, type, offset: cursor.u64() };
}

/** The types of metadata values, by number. */
function readValue(cursor: Cursor, type: number, depth: number): GgufValue {
  switch (type) {
    case 0:
      return cursor.bytes(1).getUint8(0);
    case 1:
      return cursor.bytes(1).getInt8(0);
    case 2:
      return cursor.bytes(2).getUint16(0, true);
    case 3:
      return cursor.bytes(2).getInt16(0, true);
    case 4:
      return cursor.u32();
    case 5:
      return cursor.bytes(4).getInt32(0, true);
    case 6:
      return cursor.bytes(4).getFloat32(0, true);
    case 7:
      return cursor.bytes(1).getUint8(0) !== 0;
    case 8:
      return cursor.text();
    case 9: {
      if (depth >= MOST_DEPTH) throw new ConfigError(`${cursor.path}: metadata lists nested too deep`);
      const element = cursor.u32();
      const length = cursor.count('elements of a metadata list');
      const list: GgufValue[] = [];
      for (let index = 0; index < length; index++) list.push(readValue(cursor, element, depth + 1));
      return list;
    }
    case 10:
      return cursor.bytes(8).getBigUint64(0, true);
    case 11:
      return cursor.bytes(8).getBigInt64(0, true);
    case 12:
      return cursor.bytes(8).getFloat64(0, true);
    default:
      throw new ConfigError(
        `${cursor.path}: metadata of the unknown type ${type} at byte ${cursor.position}`,
      );
  }
}

/** Reads a file from its beginning. */
class Cursor {
  readonly path: string;
  readonly size: number;
  position = 0;
  readonly #descriptor: number;
  #chunk = new Uint8Array(0);
  #chunkStart = 0;

  constructor(descriptor: number, path: string) {
    this.#descriptor = descriptor;
    this.path = path;
    this.size = fstatSync(descriptor).size;
  }

  bytes(length: number): DataView {
    if (length > this.size - this.position) {
      throw new ConfigError(
        `${this.path}: truncated: ${length} bytes at byte ${this.position}, the file has ${this.size} bytes`,
      );
    }
    if (this.position + length > this.#chunkStart + this.#chunk.length) {
      const rest = this.size - this.position;
      this.#chunk = new Uint8Array(Math.min(rest, Math.max(CHUNK_BYTES, length)));
      this.#chunkStart = this.position;
      readFully(this.#descriptor, this.#chunk, this.position, this.path);
    }
    const view = new DataView(this.#chunk.buffer, this.position - this.#chunkStart, length);
    this.position += length;
    return view;
  }

  u32(): number {
    return this.bytes(4).getUint32(0, true);
  }

  u64(): number {
    const value = this.bytes(8).getBigUint64(0, true);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new ConfigError(`${this.path}: a size of ${value}`);
    return Number(value);
  }

  /** A number of things that each take at least a byte. */
  count(what: string): number {
    const count = this.u64();
    if (count <= Math.min(MOST_ENTRIES, this.size - this.position)) return count;
    throw new ConfigError(`${this.path}: ${count} ${what} do not fit in a file of ${this.size} bytes`);
  }

  text(): string {
    return new TextDecoder().decode(this.bytes(this.u64()));
  }
}

function readFully(descriptor: number, target: Uint8Array, position: number, path: string): void {
  for (let done = 0; done < target.length; ) {
    const read = readSync(descriptor, target, done, target.length - done, position + done);
    if (read === 0) throw new ConfigError(`${path}: truncated at byte ${position + done} while reading`);
    done += read;
  }
}
