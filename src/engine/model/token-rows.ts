/** Single rows of a model's token tables, read and replaced in its safetensors files; nothing else is loaded. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { ConfigError } from '../../errors.ts';
import { bytesPerElement, encodeTensor, type TensorEntry } from '../safetensors.ts';
import { SafetensorsFile, weightFiles } from './files.ts';

/** The embedding, and the output head where it is not tied to the embedding. */
const TOKEN_TABLES = ['model.embed_tokens.weight', 'lm_head.weight'];

interface TokenTable {
  readonly name: string;
  /** Rows in the file; may exceed the tokenizer's vocabulary. */
  readonly rows: number;
  readonly width: number;
}

/** Calls `use` with each token table of a model folder and a reader of its rows. */
export function readTokenTables<R>(
  directory: string,
  use: (table: TokenTable, row: (id: number) => Float32Array) => R,
): R[] {
  const found: R[] = [];
  for (const path of weightFiles(directory)) {
    const file = new SafetensorsFile(path);
    try {
      for (const entry of tablesOf(file)) {
        const [rows, width] = entry.shape as [number, number];
        found.push(
          use({ name: entry.name, rows, width }, (id) => {
            const values = new Float32Array(width);
            file.read(rowOf(entry, id), values);
            return values;
          }),
        );
      }
    } finally {
      file.close();
    }
  }
  if (found.length === 0) {
    throw new ConfigError(`${directory}: none of its safetensors files has ${TOKEN_TABLES.join(' or ')}`);
  }
  return found;
}

/** Overwrites rows of a table in place, in the precision the file has. */
export function writeTokenRows(
  directory: string,
  table: string,
  rows: ReadonlyMap<number, Float32Array>,
): void {
  for (const path of weightFiles(directory)) {
    const file = new SafetensorsFile(path);
    const entry = file.header.entries.get(table);
    file.close();
    if (!entry) continue;
    const descriptor = openSync(path, 'r+');
    try {
      for (const [id, values] of rows) {
        const bytes = encodeTensor(values, entry.dtype);
        writeSync(descriptor, bytes, 0, bytes.length, rowOf(entry, id).begin);
      }
    } finally {
      closeSync(descriptor);
    }
  }
}

function tablesOf(file: SafetensorsFile): TensorEntry[] {
  return TOKEN_TABLES.flatMap((name) => file.header.entries.get(name) ?? []);
}

function rowOf(entry: TensorEntry, id: number): TensorEntry {
  const [rows, width] = entry.shape as [number, number];
  if (!(id >= 0 && id < rows)) throw new ConfigError(`${entry.name} has ${rows} rows; there is no row ${id}`);
  const bytes = width * bytesPerElement(entry.dtype);
  const begin = entry.begin + id * bytes;
  return { ...entry, shape: [width], begin, end: begin + bytes };
}
