import {
  type AsyncBuffer,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
  type SchemaTree,
} from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { DatasetError } from '../errors.ts';
import { openBytes } from './file-bytes.ts';
import type { Row, Source } from './source.ts';

/** Rows decoded together where the file has a page index; without one, a nested column is decoded a row group at a time. */
const SLICE_ROWS = 4096;
/** Decoded rows kept, the least recently used run dropped first; one run is always kept. */
const CACHE_ROWS = 200_000;

/**
 * Rows of a parquet file, decoded a run at a time: memory is a few runs, whatever the file's size.
 * Binary columns come as bytes; 64-bit integers as numbers where a number holds them exactly.
 */
export async function parquetSource(path: string, columns?: readonly string[]): Promise<Source> {
  const file = await openBuffer(path);
  let metadata: FileMetaData;
  try {
    metadata = await parquetMetadataAsync(file);
  } catch (cause) {
    await file.close();
    throw new DatasetError(
      `${path}: not a readable parquet file (${file.byteLength} bytes): ${(cause as Error).message}; a copy or download that stopped early looks like this`,
      { cause },
    );
  }
  const tree = parquetSchema(metadata);
  const names = tree.children
    .map((child) => child.element.name)
    .filter((name) => !/^__index_level_\d+__$/.test(name));
  for (const column of columns ?? []) {
    if (!names.includes(column)) {
      await file.close();
      throw new DatasetError(`${path}: has no column ${column}; its columns are ${names.join(', ')}`);
    }
  }
  const wanted = columns ? [...columns] : names;
  const withIntegers = tree.children
    .filter((child) => wanted.includes(child.element.name) && hasInt64(child))
    .map((child) => child.element.name);
  const runs = runsOf(metadata, wanted);
  const count = Number(metadata.num_rows);
  const cache = new Map<number, Promise<Row[]> | Row[]>();
  let cachedRows = 0;

  const decode = async (run: number): Promise<Row[]> => {
    const rowStart = runs[run]!;
    const rowEnd = runs[run + 1] ?? count;
    const range = { file, metadata, compressors, utf8: false, useOffsetIndex: true, rowStart, rowEnd };
    try {
      const rows = (await parquetReadObjects({ ...range, columns: wanted })) as Record<string, unknown>[];
      if (rows.length !== rowEnd - rowStart) {
        throw new Error(`${rowEnd - rowStart} rows are announced and ${rows.length} are there`);
      }
      for (const row of rows) for (const name of withIntegers) row[name] = withoutBigInt(row[name]);
      return rows;
    } catch (cause) {
      const column = await firstBadColumn(range, wanted);
      throw new DatasetError(
        `${path}, rows ${rowStart}–${rowEnd - 1}${column ? `, column ${column}` : ''}: cannot be decoded: ${(cause as Error).message}`,
        { cause },
      );
    }
  };

  const load = (run: number): Promise<Row[]> | Row[] => {
    const held = cache.get(run);
    if (held) {
      cache.delete(run);
      cache.set(run, held);
      return held;
    }
    const rows = (runs[run + 1] ?? count) - runs[run]!;
    for (const oldest of cache.keys()) {
      if (cachedRows + rows <= CACHE_ROWS) break;
      cachedRows -= (runs[oldest + 1] ?? count) - runs[oldest]!;
      cache.delete(oldest);
    }
    cachedRows += rows;
    const loading = decode(run).then((decoded) => {
      if (cache.get(run) === loading) cache.set(run, decoded);
      return decoded;
    });
    cache.set(run, loading);
    return loading;
  };

  let current = 0;
  return {
    name: path,
    count,
    runs,
    read: (index) => {
      if (runs[current]! > index || (runs[current + 1] ?? count) <= index)
        current = runContaining(runs, index);
      const start = runs[current]!;
      const rows = load(current);
      return Array.isArray(rows) ? rows[index - start]! : rows.then((ready) => ready[index - start]!);
    },
    where: (index) => `${path}, row ${index}`,
    close: () => file.close(),
  };
}

async function openBuffer(path: string): Promise<AsyncBuffer & { close(): Promise<void> }> {
  const file = await openBytes(path);
  return {
    byteLength: file.size,
    slice: async (start, end = file.size) => {
      const bytes = await file.read(start, end - start);
      const whole = bytes.byteOffset === 0 && bytes.length === bytes.buffer.byteLength;
      return (whole ? bytes.buffer : Uint8Array.from(bytes).buffer) as ArrayBuffer;
    },
    close: file.close,
  };
}

/** Row groups, cut into slices where every wanted column chunk says where its pages begin. */
function runsOf(metadata: FileMetaData, wanted: readonly string[]): number[] {
  const runs: number[] = [];
  let start = 0;
  for (const group of metadata.row_groups) {
    const rows = Number(group.num_rows);
    const indexed = group.columns.every(
      (chunk) => chunk.offset_index_offset || !wanted.includes(chunk.meta_data?.path_in_schema[0] ?? ''),
    );
    for (let inside = 0; inside < rows; inside += indexed ? SLICE_ROWS : rows) runs.push(start + inside);
    start += rows;
  }
  return runs;
}

function runContaining(runs: readonly number[], index: number): number {
  let low = 0;
  let high = runs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (runs[middle]! <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}

const hasInt64 = (node: SchemaTree): boolean => node.element.type === 'INT64' || node.children.some(hasInt64);

function withoutBigInt(value: unknown): unknown {
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }
  if (Array.isArray(value)) return value.map(withoutBigInt);
  if (typeof value === 'object' && value !== null && value.constructor === Object) {
    const fields = value as Record<string, unknown>;
    for (const name in fields) fields[name] = withoutBigInt(fields[name]);
  }
  return value;
}

async function firstBadColumn(
  range: Parameters<typeof parquetReadObjects>[0],
  columns: readonly string[],
): Promise<string | undefined> {
  for (const column of columns) {
    try {
      await parquetReadObjects({ ...range, columns: [column] });
    } catch {
      return column;
    }
  }
  return undefined;
}
