/** Frames of the protocol with the PyTorch worker (docs/torch-protocol.md): a JSON header and raw arrays. */
import { TrainerError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';

export interface WireArray {
  readonly shape: readonly number[];
  readonly data: Int32Array | Uint8Array | Float32Array;
}

export interface Frame {
  readonly header: Readonly<Record<string, unknown>>;
  readonly arrays: ReadonlyMap<string, WireArray>;
}

export const PROTOCOL = 1;
const MAGIC = 'RCT1';
const PREFIX_BYTES = 16;
const MOST_HEADER_BYTES = 2 ** 20;
const MOST_BODY_BYTES = 2 ** 31;
const ALIGNMENT = 8;
const TYPES = { i32: Int32Array, u8: Uint8Array, f32: Float32Array } as const;
type TypeName = keyof typeof TYPES;

/** The frame in pieces, to be written one after another. */
export function encodeFrame({ header, arrays }: Frame): Uint8Array[] {
  const entries: { name: string; type: TypeName; shape: readonly number[] }[] = [];
  const parts: Uint8Array[] = [];
  let bodyBytes = 0;
  for (const [name, { shape, data }] of arrays) {
    entries.push({ name, type: typeOf(data), shape });
    const padding = paddingAfter(data.byteLength);
    parts.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), new Uint8Array(padding));
    bodyBytes += data.byteLength + padding;
  }
  const text = new TextEncoder().encode(JSON.stringify({ ...header, arrays: entries }));
  checkSizes(text.length, bodyBytes);
  const prefix = new Uint8Array(PREFIX_BYTES);
  prefix.set(new TextEncoder().encode(MAGIC));
  const view = new DataView(prefix.buffer);
  view.setUint32(4, text.length, true);
  view.setBigUint64(8, BigInt(bodyBytes), true);
  return [prefix, text, ...parts];
}

/** Puts frames together from the chunks of a stream. */
export class FrameReader {
  #chunks: Uint8Array[] = [];
  #length = 0;
  /** Bytes of the frame that is being received, once its first bytes say. */
  #sizes: { readonly header: number; readonly body: number } | undefined;

  /** The frames that are whole with this chunk. */
  push(chunk: Uint8Array): Frame[] {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    const frames: Frame[] = [];
    for (;;) {
      if (!this.#sizes) {
        if (this.#length < PREFIX_BYTES) return frames;
        this.#sizes = parsePrefix(this.#take(PREFIX_BYTES));
      }
      const { header, body } = this.#sizes;
      if (this.#length < header + body) return frames;
      frames.push(decodeFrame(this.#take(header), this.#take(body)));
      this.#sizes = undefined;
    }
  }

  #take(count: number): Uint8Array<ArrayBuffer> {
    const whole = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    this.#chunks = [whole.subarray(count)];
    this.#length -= count;
    return new Uint8Array(whole.subarray(0, count)); // a copy: the slice of a Buffer is not
  }
}

function parsePrefix(bytes: Uint8Array): { header: number; body: number } {
  const magic = new TextDecoder('latin1').decode(bytes.subarray(0, 4));
  if (magic !== MAGIC) throw refused(`a frame begins with ${JSON.stringify(magic)}; "${MAGIC}" is needed`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const sizes = { header: view.getUint32(4, true), body: Number(view.getBigUint64(8, true)) };
  checkSizes(sizes.header, sizes.body);
  return sizes;
}

function decodeFrame(headerBytes: Uint8Array, body: Uint8Array<ArrayBuffer>): Frame {
  const { arrays: entries = [], ...header } = parseHeader(headerBytes);
  if (!Array.isArray(entries)) throw refused('arrays must be a list');
  const arrays = new Map<string, WireArray>();
  let at = 0;
  for (const entry of entries) {
    const { name, type, shape } = parseEntry(entry);
    const count = shape.reduce((product, size) => product * size, 1);
    const end = at + count * TYPES[type].BYTES_PER_ELEMENT;
    if (end > body.length) throw refused(`array ${name} ends at byte ${end} of a body of ${body.length}`);
    const bytes = body.slice(at, end); // a copy lies at the start of its buffer, where any element may
    arrays.set(name, { shape, data: new TYPES[type](bytes.buffer, 0, count) });
    at = end + paddingAfter(end);
  }
  if (at !== body.length) throw refused(`a body of ${body.length} bytes has arrays of ${at}`);
  return { header, arrays };
}

function parseHeader(bytes: Uint8Array): Record<string, unknown> {
  try {
    const header: unknown = JSON.parse(new TextDecoder().decode(bytes));
    if (typeof header === 'object' && header !== null) return header as Record<string, unknown>;
  } catch (error) {
    throw refused(`a header is not JSON: ${messageOf(error)}`);
  }
  throw refused('a header must be a JSON object');
}

function parseEntry(entry: unknown): { name: string; type: TypeName; shape: number[] } {
  const { name, type, shape } = (entry ?? {}) as Record<string, unknown>;
  if (typeof name !== 'string' || typeof type !== 'string' || !Object.hasOwn(TYPES, type)) {
    throw refused(`an array is named ${String(name)} of type ${String(type)}; types are i32, u8, f32`);
  }
  const isSize = (size: unknown) => Number.isInteger(size) && Number(size) >= 0;
  if (!Array.isArray(shape) || !shape.every(isSize)) {
    throw refused(`array ${name} has shape ${JSON.stringify(shape)}; a list of sizes is needed`);
  }
  return { name, type: type as TypeName, shape };
}

function typeOf(data: WireArray['data']): TypeName {
  if (data instanceof Int32Array) return 'i32';
  return data instanceof Float32Array ? 'f32' : 'u8';
}

function checkSizes(header: number, body: number): void {
  if (header > MOST_HEADER_BYTES)
    throw refused(`a header of ${header} bytes; ${MOST_HEADER_BYTES} is the most`);
  if (body > MOST_BODY_BYTES) throw refused(`a body of ${body} bytes; ${MOST_BODY_BYTES} is the most`);
}

const paddingAfter = (bytes: number) => (ALIGNMENT - (bytes % ALIGNMENT)) % ALIGNMENT;
const refused = (what: string) => new TrainerError(`the PyTorch worker's protocol: ${what}`);
