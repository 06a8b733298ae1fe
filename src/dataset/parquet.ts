import {
  type Compressors,
  type FileMetaData,
  parquetMetadataAsync,
  parquetSchema,
  type RowGroup,
  type SchemaTree,
} from 'hyparquet';
import { DatasetError } from '../errors.ts';
import { loadOptional } from '../lib/optional-package.ts';
import { type FileBytes, openBytes } from './file-bytes.ts';
import { ParquetColumn } from './parquet-column.ts';
import { compileField, type ReadValue } from './parquet-rows.ts';
import type { DataRow, Source } from './source.ts';

/** Decompressed row groups kept, the least recently used dropped first; the current one is always kept. */
const CACHE_BYTES = 64 * 2 ** 20;

/**
 * Rows of a parquet file, a row group decoded at a time: memory is a few row groups, whatever the file's size.
 * Binary columns come as bytes; 64-bit integers as numbers where a number holds them exactly.
 */
export async function parquetSource(path: string, columns?: readonly string[]): Promise<Source> {
  const file = await openBytes(path);
  const { metadata, tree } = await readMetadata(path, file);
  const fields = tree.children.filter(({ element }) => !/^__index_level_\d+__$/.test(element.name));
  const names = fields.map(({ element }) => element.name);
  for (const column of columns ?? []) {
    if (!names.includes(column)) {
      await file.close();
      throw new DatasetError(`${path}: has no column ${column}; its columns are ${names.join(', ')}`);
    }
  }
  const wanted = fields.filter(({ element }) => columns?.includes(element.name) ?? true);
  const compressors = await compressorsFor(path, metadata, wanted).catch(async (error: unknown) => {
    await file.close();
    throw error;
  });
  const count = Number(metadata.num_rows);
  const groups = metadata.row_groups.filter((group) => group.num_rows > 0n);
  const starts: number[] = [];
  let total = 0;
  for (const group of groups) {
    starts.push(total);
    total += Number(group.num_rows);
  }
  const bytesOf = (group: number) =>
    groups[group]!.columns.reduce(
      (sum, { meta_data }) => sum + Number(meta_data?.total_uncompressed_size ?? 0),
      0,
    );
  const bytesPerRow = groups.reduce((sum, _, group) => sum + bytesOf(group), 0) / Math.max(count, 1);

  const cache = new Map<number, Promise<RowReader> | RowReader>();
  let cachedBytes = 0;
  const load = (group: number): Promise<RowReader> | RowReader => {
    const held = cache.get(group);
    if (held) {
      cache.delete(group);
      cache.set(group, held);
      return held;
    }
    for (const oldest of cache.keys()) {
      if (cachedBytes + bytesOf(group) <= CACHE_BYTES) break;
      cachedBytes -= bytesOf(oldest);
      cache.delete(oldest);
    }
    cachedBytes += bytesOf(group);
    const where = `${path}, rows ${starts[group]}–${starts[group]! + Number(groups[group]!.num_rows) - 1}`;
    const loading = openGroup(file, groups[group]!, tree, wanted, where, compressors).then((reader) => {
      if (cache.get(group) === loading) cache.set(group, reader);
      return reader;
    });
    cache.set(group, loading);
    return loading;
  };

  let current = 0;
  let reader: RowReader | undefined;
  return {
    name: path,
    count,
    runs: starts,
    rowsAtHand: Math.floor(CACHE_BYTES / Math.max(bytesPerRow, 1)),
    read: (index) => {
      const inside = index - starts[current]!;
      if (reader && inside >= 0 && inside < reader.rows) return reader.read(inside);
      const group = runContaining(starts, index);
      const loaded = load(group);
      const use = (ready: RowReader) => {
        current = group;
        reader = ready;
        return ready.read(index - starts[group]!);
      };
      return loaded instanceof Promise ? loaded.then(use) : use(loaded);
    },
    where: (index) => `${path}, row ${index}`,
    close: file.close,
  };
}

interface RowReader {
  readonly rows: number;
  read(row: number): DataRow;
}

interface Footer {
  readonly metadata: FileMetaData;
  readonly tree: SchemaTree;
}

async function readMetadata(path: string, file: FileBytes): Promise<Footer> {
  try {
    const metadata = await parquetMetadataAsync({
      byteLength: file.size,
      slice: async (start, end = file.size) => Uint8Array.from(await file.read(start, end - start)).buffer,
    });
    const tree = parquetSchema(metadata);
    checkRows(metadata);
    return { metadata, tree };
  } catch (cause) {
    await file.close();
    throw new DatasetError(
      `${path}: not a readable parquet file (${file.size} bytes): ${(cause as Error).message}; a copy or download that stopped early looks like this`,
      { cause },
    );
  }
}

/** As many as pyarrow puts into one row group at most; more is a lie or an attack. */
const MOST_GROUP_ROWS = 2n ** 26n;

function checkRows({ num_rows: rows, row_groups: groups }: FileMetaData): void {
  const wrong = groups.find(({ num_rows: own }) => own < 0n || own > MOST_GROUP_ROWS);
  if (wrong) throw new Error(`a row group says that it has ${wrong.num_rows} rows`);
  const total = groups.reduce((sum, { num_rows: own }) => sum + own, 0n);
  if (total !== rows) throw new Error(`it says that it has ${rows} rows, and its row groups have ${total}`);
}

/** Pages that are not compressed, or compressed by snappy, are read by hyparquet alone. */
async function compressorsFor(
  path: string,
  metadata: FileMetaData,
  wanted: readonly SchemaTree[],
): Promise<Compressors> {
  const names = new Set(wanted.map(({ element }) => element.name));
  const columns = metadata.row_groups.flatMap((group) =>
    group.columns.flatMap((column) => column.meta_data ?? []),
  );
  const other = columns.find(
    ({ codec, path_in_schema: [name = ''] }) =>
      names.has(name) && codec !== 'UNCOMPRESSED' && codec !== 'SNAPPY',
  );
  if (!other) return {};
  const { compressors } = await loadOptional(
    `${path}: a parquet file compressed by ${other.codec}`,
    ['hyparquet-compressors'],
    () => import('hyparquet-compressors'),
  );
  return compressors;
}

async function openGroup(
  file: FileBytes,
  group: RowGroup,
  tree: SchemaTree,
  wanted: readonly SchemaTree[],
  where: string,
  compressors: Compressors,
): Promise<RowReader> {
  const rows = Number(group.num_rows);
  const leaves = new Map<string, ParquetColumn>();
  for (const { meta_data: meta } of group.columns) {
    const [field] = meta?.path_in_schema ?? [];
    if (!meta || !wanted.some(({ element }) => element.name === field)) continue;
    try {
      const start = Number(meta.dictionary_page_offset || meta.data_page_offset);
      const bytes = await file.read(start, Number(meta.total_compressed_size));
      leaves.set(
        meta.path_in_schema.join('.'),
        new ParquetColumn(bytes, meta, pathTo(tree, meta.path_in_schema), rows, compressors),
      );
    } catch (cause) {
      throw new DatasetError(`${where}, column ${field}: cannot be decoded: ${(cause as Error).message}`, {
        cause,
      });
    }
  }
  for (const leaf of wanted.flatMap(leafPaths)) {
    if (!leaves.has(leaf)) throw new DatasetError(`${where}: the column ${leaf} of the schema is not there`);
  }
  const columns = [...leaves.values()];
  const fields = wanted.map((field): [string, ReadValue] => [
    field.element.name,
    compileField(field, leaves),
  ]);
  return {
    rows,
    read: (row) => {
      try {
        for (const column of columns) column.seek(row);
        const values: Record<string, unknown> = {};
        for (const [name, read] of fields) values[name] = read();
        return values;
      } catch (cause) {
        throw new DatasetError(
          `${where}: row ${row} of these cannot be decoded: ${(cause as Error).message}`,
          {
            cause,
          },
        );
      }
    },
  };
}

function leafPaths({ children, path }: SchemaTree): string[] {
  return children.length === 0 ? [path.join('.')] : children.flatMap(leafPaths);
}

function pathTo(tree: SchemaTree, names: readonly string[]): SchemaTree[] {
  const path = [tree];
  for (const name of names) {
    const found = path.at(-1)!.children.find(({ element }) => element.name === name);
    if (!found) throw new Error(`the schema has no ${names.join('.')}`);
    path.push(found);
  }
  return path;
}

function runContaining(starts: readonly number[], index: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle]! <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}
