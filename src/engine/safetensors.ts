/**
 * The safetensors format: 8 bytes little-endian header length, a JSON header, the tensors' bytes without
 * holes or overlap. Nothing here touches a file system; every error names the file and the tensor.
 */
import { ConfigError } from '../errors.ts';

/** As the reference implementation: a larger header is a lie or an attack. */
const MAX_HEADER_BYTES = 100_000_000;

const BYTES = { F32: 4, F16: 2, BF16: 2 } as const;
type Precision = keyof typeof BYTES;

export interface TensorEntry {
  readonly name: string;
  readonly dtype: Precision;
  readonly shape: readonly number[];
  /** Byte offsets in the file. */
  readonly begin: number;
  readonly end: number;
}

export interface SafetensorsHeader {
  readonly entries: ReadonlyMap<string, TensorEntry>;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Length of the JSON header, from the first 8 bytes of a file of `fileBytes` bytes. */
export function headerLength(first8: Uint8Array, fileBytes: number, file: string): number {
  if (first8.length < 8)
    throw new ConfigError(`${file}: ${fileBytes} bytes is too short for a safetensors file`);
  const length = Number(new DataView(first8.buffer, first8.byteOffset, 8).getBigUint64(0, true));
  if (length > MAX_HEADER_BYTES || length < 2) {
    throw new ConfigError(`${file}: not a safetensors file (its header would be ${length} bytes long)`);
  }
  if (8 + length > fileBytes) {
    throw new ConfigError(
      `${file}: truncated: its header is ${length} bytes long, the file has ${fileBytes} bytes`,
    );
  }
  return length;
}

export function parseSafetensorsHeader(
  header: Uint8Array,
  fileBytes: number,
  file: string,
): SafetensorsHeader {
  const json = parseJson(header, file);
  const dataStart = 8 + header.length;
  const entries = new Map<string, TensorEntry>();
  let metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(json)) {
    if (name === '__metadata__') metadata = readMetadata(value, file);
    else entries.set(name, readEntry(name, value, dataStart, file));
  }
  checkLayout([...entries.values()], dataStart, fileBytes, file);
  return { entries, metadata };
}

function parseJson(header: Uint8Array, file: string): Record<string, unknown> {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(header));
  } catch (cause) {
    throw new ConfigError(`${file}: the safetensors header is not JSON`, { cause });
  }
  if (isObject(json)) return json;
  throw new ConfigError(`${file}: the safetensors header is not a JSON object`);
}

function readMetadata(value: unknown, file: string): Record<string, string> {
  if (isObject(value) && Object.values(value).every((entry) => typeof entry === 'string')) {
    return value as Record<string, string>;
  }
  throw new ConfigError(`${file}: __metadata__ must map names to strings`);
}

function readEntry(name: string, value: unknown, dataStart: number, file: string): TensorEntry {
  const wrong = (what: string) => new ConfigError(`${file}: tensor ${JSON.stringify(name)}: ${what}`);
  if (!isObject(value)) throw wrong('its header entry is not an object');
  const { dtype, shape, data_offsets: offsets } = value;
  if (typeof dtype !== 'string' || !Object.hasOwn(BYTES, dtype)) {
    throw wrong(`dtype ${JSON.stringify(dtype)} is not implemented; F32, F16 and BF16 are`);
  }
  if (!isCounts(shape)) throw wrong(`shape ${JSON.stringify(shape)} is not a list of sizes`);
  if (!isCounts(offsets) || offsets.length !== 2 || offsets[0]! > offsets[1]!) {
    throw wrong(`data_offsets ${JSON.stringify(offsets)} are not [begin, end]`);
  }
  const bytes = shape.reduce((product, size) => product * size, 1) * BYTES[dtype as Precision];
  if (bytes !== offsets[1]! - offsets[0]!) {
    throw wrong(
      `${dtype} of shape [${shape.join(', ')}] takes ${bytes} bytes, data_offsets give ${offsets[1]! - offsets[0]!}`,
    );
  }
  const begin = dataStart + offsets[0]!;
  return { name, dtype: dtype as Precision, shape, begin, end: begin + bytes };
}

function checkLayout(entries: TensorEntry[], dataStart: number, fileBytes: number, file: string): void {
  let end = dataStart;
  for (const entry of entries.sort((a, b) => a.begin - b.begin || a.end - b.end)) {
    const wrong = (what: string) => new ConfigError(`${file}: tensor ${JSON.stringify(entry.name)}: ${what}`);
    if (entry.begin < end) throw wrong('its data_offsets overlap another tensor');
    if (entry.begin > end) throw wrong(`${entry.begin - end} bytes before it belong to no tensor`);
    if (entry.end > fileBytes) {
      throw wrong(`truncated: it ends at byte ${entry.end}, the file has ${fileBytes} bytes`);
    }
    end = entry.end;
  }
  if (end !== fileBytes) {
    throw new ConfigError(`${file}: ${fileBytes - end} bytes after the last tensor belong to no tensor`);
  }
}

/** A tensor to be written: float32, or bfloat16 as its bits. */
export interface StoredTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array | Uint16Array;
}

/** Header bytes, padded with spaces so that the data begins at a multiple of 8, and each tensor's place. */
export function encodeSafetensorsHeader(
  tensors: readonly StoredTensor[],
  metadata: Readonly<Record<string, string>>,
): Uint8Array {
  const json: Record<string, unknown> = { __metadata__: metadata };
  let offset = 0;
  for (const { name, shape, data } of tensors) {
    const end = offset + data.byteLength;
    const dtype: Precision = data instanceof Uint16Array ? 'BF16' : 'F32';
    json[name] = { dtype, shape, data_offsets: [offset, end] };
    offset = end;
  }
  const text = new TextEncoder().encode(JSON.stringify(json));
  const length = Math.ceil(text.length / 8) * 8;
  const header = new Uint8Array(8 + length).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(length), true);
  header.set(text, 8);
  return header;
}

export const bytesPerElement = (dtype: Precision): number => BYTES[dtype];

/** Little-endian bytes of `dtype` into f32. `source` holds exactly `target.length` elements. */
export function decodeTensor(source: Uint8Array, dtype: Precision, target: Float32Array): void {
  if (dtype === 'F32') {
    new Uint8Array(target.buffer, target.byteOffset, target.byteLength).set(source);
    return;
  }
  const halves = new Uint16Array(source.buffer, source.byteOffset, target.length);
  const bits = new Uint32Array(target.buffer, target.byteOffset, target.length);
  if (dtype === 'BF16') {
    for (let i = 0; i < bits.length; i++) bits[i] = halves[i]! << 16;
  } else {
    const table = halfTable();
    for (let i = 0; i < bits.length; i++) bits[i] = table[halves[i]!]!;
  }
}

/** F32 as little-endian bytes of `dtype`, rounded to the nearest, ties to even. */
export function encodeTensor(source: Float32Array, dtype: Precision): Uint8Array {
  if (dtype === 'F32') return new Uint8Array(source.buffer, source.byteOffset, source.byteLength).slice();
  if (dtype === 'F16') throw new ConfigError('F16 weights are read, not written; convert the model to BF16');
  const bits = new Uint32Array(source.slice().buffer);
  const halves = new Uint16Array(source.length);
  for (let i = 0; i < bits.length; i++) halves[i] = (bits[i]! + 0x7fff + ((bits[i]! >>> 16) & 1)) >>> 16;
  return new Uint8Array(halves.buffer);
}

let halfBits: Uint32Array | undefined;

/** F32 bits of every F16. */
function halfTable(): Uint32Array {
  if (halfBits) return halfBits;
  const table = new Float32Array(65536);
  for (let half = 0; half < 65536; half++) {
    const sign = half & 0x8000 ? -1 : 1;
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    if (exponent === 31) table[half] = fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
    else if (exponent === 0) table[half] = sign * fraction * 2 ** -24;
    else table[half] = sign * (1024 + fraction) * 2 ** (exponent - 25);
  }
  halfBits = new Uint32Array(table.buffer);
  return halfBits;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && (size as number) >= 0);
}
