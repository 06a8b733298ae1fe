/** Model folders in the Hugging Face layout: what is on disk, and how it is replaced atomically. */
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { ConfigError } from '../../errors.ts';
import {
  bytesPerElement,
  decodeTensor,
  encodeSafetensorsHeader,
  headerLength,
  parseSafetensorsHeader,
  type SafetensorsHeader,
  type StoredTensor,
  type TensorEntry,
} from '../safetensors.ts';
import { type ModelConfig, parseModelConfig } from './config.ts';
import { isIgnoredWeight, type WeightSpec, weightSpecs } from './weights.ts';

/** What a model folder carries along besides weights. */
export const TOKENIZER_FILES = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'chat_template.jinja',
  'generation_config.json',
  'preprocessor_config.json',
  'processor_config.json',
] as const;

const CHUNK_BYTES = 4 << 20;

export interface NamedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

/** An open safetensors file; its header has been read and checked. */
export class SafetensorsFile {
  readonly path: string;
  readonly header: SafetensorsHeader;
  readonly #descriptor: number;

  constructor(path: string) {
    this.path = path;
    this.#descriptor = openForReading(path);
    try {
      const size = fstatSync(this.#descriptor).size;
      const length = headerLength(this.#bytes(0, Math.min(8, size)), size, path);
      this.header = parseSafetensorsHeader(this.#bytes(8, length), size, path);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Reads a tensor as f32 and refuses numbers that are not finite. */
  read(entry: TensorEntry, target: Float32Array): void {
    const width = bytesPerElement(entry.dtype);
    const perChunk = CHUNK_BYTES / width;
    for (let from = 0; from < target.length; from += perChunk) {
      const part = target.subarray(from, from + perChunk);
      decodeTensor(this.#bytes(entry.begin + from * width, part.length * width), entry.dtype, part);
      const bad = part.findIndex((value) => value - value !== 0);
      if (bad >= 0) {
        throw new ConfigError(
          `${this.path}: tensor ${entry.name}: element ${from + bad} is ${part[bad]}; weights must be finite`,
        );
      }
    }
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #bytes(position: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    let done = 0;
    while (done < length) {
      const read = readSync(this.#descriptor, bytes, done, length - done, position + done);
      if (read === 0)
        throw new ConfigError(`${this.path}: truncated at byte ${position + done} while reading`);
      done += read;
    }
    return bytes;
  }
}

export function readModelConfig(directory: string): ModelConfig {
  const file = join(directory, 'config.json');
  return parseModelConfig(readJson(file), file);
}

export function readJson(file: string): unknown {
  if (!existsSync(file)) throw new ConfigError(`${file}: no such file`);
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new ConfigError(`${file}: not JSON (${(cause as Error).message})`, { cause });
  }
}

/**
 * Reads every weight of a model folder into `target(spec)`. A missing, mis-shaped or unknown tensor is
 * refused before anything is read.
 */
export function readWeights(
  directory: string,
  config: ModelConfig,
  target: (spec: WeightSpec) => Float32Array,
): void {
  withWeightFiles(directory, config, (places) => {
    for (const spec of weightSpecs(config)) {
      const { file, entry } = places.get(spec.name)!;
      file.read(entry, target(spec));
    }
  });
}

/** The precisions a folder's weights are stored in; names and shapes are checked, nothing else is read. */
export function readWeightPrecisions(directory: string, config: ModelConfig): string[] {
  return withWeightFiles(directory, config, (places) => [
    ...new Set([...places.values()].map(({ entry }) => entry.dtype)),
  ]);
}

function withWeightFiles<T>(
  directory: string,
  config: ModelConfig,
  use: (places: ReadonlyMap<string, Place>) => T,
): T {
  const files: SafetensorsFile[] = [];
  try {
    for (const path of weightFiles(directory)) files.push(new SafetensorsFile(path));
    return use(locate(files, weightSpecs(config), config, directory));
  } finally {
    for (const file of files) file.close();
  }
}

type Place = { readonly file: SafetensorsFile; readonly entry: TensorEntry };

function locate(
  files: readonly SafetensorsFile[],
  specs: readonly WeightSpec[],
  config: ModelConfig,
  directory: string,
): Map<string, Place> {
  const places = new Map<string, Place>();
  for (const file of files) {
    for (const entry of file.header.entries.values()) {
      const other = places.get(entry.name);
      if (other)
        throw new ConfigError(`tensor ${entry.name} is both in ${other.file.path} and in ${file.path}`);
      places.set(entry.name, { file, entry });
    }
  }
  for (const spec of specs) {
    const place = places.get(spec.name);
    if (!place)
      throw new ConfigError(`${directory}: tensor ${spec.name} is missing from its safetensors files`);
    if (place.entry.shape.join() !== spec.shape.join()) {
      throw new ConfigError(
        `${place.file.path}: tensor ${spec.name} has shape [${place.entry.shape.join(', ')}]; ` +
          `config.json asks for [${spec.shape.join(', ')}]`,
      );
    }
  }
  const known = new Set(specs.map((spec) => spec.name));
  for (const [name, { file }] of places) {
    if (!known.has(name) && !isIgnoredWeight(name, config)) {
      throw new ConfigError(
        `${file.path}: tensor ${name} is unknown to a ${config.family} model of this config.json`,
      );
    }
  }
  return places;
}

/** `model.safetensors`, or the shards that `model.safetensors.index.json` names. */
export function weightFiles(directory: string): string[] {
  const single = join(directory, 'model.safetensors');
  if (existsSync(single)) return [single];
  const index = join(directory, 'model.safetensors.index.json');
  if (!existsSync(index)) {
    throw new ConfigError(
      `${directory}: neither model.safetensors nor model.safetensors.index.json is there`,
    );
  }
  const json = readJson(index) as { weight_map?: unknown } | null;
  const map = json?.weight_map;
  if (typeof map !== 'object' || map === null) throw new ConfigError(`${index}: weight_map is missing`);
  return [...new Set(Object.values(map))].map((shard) => {
    if (typeof shard !== 'string' || /[/\\]|^\.\.?$/.test(shard)) {
      throw new ConfigError(
        `${index}: weight_map names ${JSON.stringify(shard)}; a file beside it is needed`,
      );
    }
    return join(directory, shard);
  });
}

/** Reads a small safetensors file whole (adapters, value heads, optimizer state). */
export function readTensors(path: string): {
  tensors: NamedTensor[];
  metadata: Readonly<Record<string, string>>;
} {
  const file = new SafetensorsFile(path);
  try {
    const tensors = [...file.header.entries.values()].map((entry) => {
      const data = new Float32Array(entry.shape.reduce((product, size) => product * size, 1));
      file.read(entry, data);
      return { name: entry.name, shape: entry.shape, data };
    });
    return { tensors, metadata: file.header.metadata };
  } finally {
    file.close();
  }
}

/** Files of one save, also in folders below: all are written beside their names, then all renamed. */
export class FileSet {
  readonly #directory: string;
  readonly #names: string[] = [];

  constructor(directory: string) {
    this.#directory = directory;
  }

  text(name: string, text: string | Uint8Array): void {
    this.#write(name, [typeof text === 'string' ? new TextEncoder().encode(text) : text]);
  }

  tensors(
    name: string,
    tensors: readonly StoredTensor[],
    metadata: Readonly<Record<string, string>> = { format: 'pt' },
  ): void {
    const parts = tensors.map(({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    this.#write(name, [encodeSafetensorsHeader(tensors, metadata), ...parts]);
  }

  /** Copies those of `names` that `from` has. */
  copy(from: string, names: readonly string[]): void {
    for (const name of names) {
      const source = join(from, name);
      if (existsSync(source)) this.text(name, readFileSync(source));
    }
  }

  commit(): void {
    for (const name of this.#names) {
      renameSync(this.#partial(name), join(this.#directory, name));
    }
  }

  #partial(name: string): string {
    return join(this.#directory, dirname(name), `.${basename(name)}.partial`);
  }

  #write(name: string, parts: readonly Uint8Array[]): void {
    mkdirSync(join(this.#directory, dirname(name)), { recursive: true });
    const descriptor = openSync(this.#partial(name), 'w');
    try {
      for (const part of parts) {
        for (let done = 0; done < part.length; )
          done += writeSync(descriptor, part, done, part.length - done);
      }
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    this.#names.push(name);
  }
}

function openForReading(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (cause) {
    throw new ConfigError(`${path}: cannot be opened (${(cause as NodeJS.ErrnoException).code})`, { cause });
  }
}
