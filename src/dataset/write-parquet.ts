import { mkdir, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileWriter, ParquetWriter } from 'hyparquet-writer';
import { DatasetError } from '../errors.ts';
import { type Columns, columnsOf, fitValue, isEmpty, schemaOf } from './columns.ts';

type AnyRow = Readonly<Record<string, unknown>>;

/** Rows that the column types are taken from where none are given: the rest must fit them. */
const SCHEMA_ROWS = 20_000;
const GROUP_ROWS = 8192;

/**
 * Writes rows as parquet that pandas, pyarrow, DuckDB and `parquet()` read: lists and structs are real nested
 * columns, not JSON text. Written beside and renamed, so a file of that name is always whole.
 */
export async function writeParquet(
  path: string,
  rows: Iterable<AnyRow> | AsyncIterable<AnyRow>,
  columns?: Columns,
): Promise<{ readonly rows: number; readonly columns: Columns }> {
  await mkdir(dirname(path), { recursive: true });
  const partial = `${path}.partial`;
  const buffer: AnyRow[] = [];
  let written = 0;
  let types = columns;
  let writer: ParquetWriter | undefined;

  const flush = (group: readonly AnyRow[]) => {
    if (!types) types = columnsOf(group);
    const kept = types;
    writer ??= new ParquetWriter({ writer: fileWriter(partial), schema: schemaOf(kept) });
    for (let from = 0; from < group.length; from += GROUP_ROWS) {
      const part = group.slice(from, from + GROUP_ROWS);
      part.forEach((row, at) => {
        refuseStrangers(path, row, written + at, kept);
      });
      const columnData = Object.entries(kept)
        .filter(([, type]) => !isEmpty(type))
        .map(([name, type]) => ({
          name,
          data: part.map((row, at) => {
            try {
              return fitValue(row[name], type);
            } catch (cause) {
              throw new DatasetError(
                `${path}, row ${written + at}, column ${name}: ${(cause as Error).message}`,
                {
                  cause,
                },
              );
            }
          }),
        }));
      writer.write({ columnData, rowGroupSize: GROUP_ROWS });
      written += part.length;
    }
  };

  for await (const row of rows) {
    buffer.push(row);
    if (buffer.length >= (types ? GROUP_ROWS : SCHEMA_ROWS)) flush(buffer.splice(0));
  }
  if (buffer.length > 0 || !writer) {
    if (buffer.length === 0 && !types) throw new DatasetError(`${path}: there are no rows to write`);
    flush(buffer);
  }
  await writer?.finish();
  await rename(partial, path);
  return { rows: written, columns: types ?? {} };
}

function refuseStrangers(path: string, row: AnyRow, index: number, types: Columns): void {
  for (const name of Object.keys(row)) {
    if (!(name in types) && row[name] !== null && row[name] !== undefined) {
      throw new DatasetError(`${path}, row ${index}: has the column ${name}, which no earlier row has`);
    }
  }
}
