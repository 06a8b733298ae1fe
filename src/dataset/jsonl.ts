import { readFile } from 'node:fs/promises';
import { DatasetError } from '../errors.ts';
import { recordSource } from './line-source.ts';
import { arraySource, type DataRow, type Source } from './source.ts';

/** One JSON object a line. */
export function jsonlSource(path: string): Promise<Source> {
  return recordSource(path, { quoted: false, header: 0, parser: () => parseLine });
}

function parseLine(text: string, where: string): DataRow {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new DatasetError(
      `${where}: not JSON: ${(cause as Error).message}; the line is ${JSON.stringify(text.slice(0, 80))}`,
      { cause },
    );
  }
  return asRow(value, where);
}

/** A `.json` file with one list of objects. Read whole: JSONL is the form for large files. */
export async function jsonSource(path: string): Promise<Source> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (cause) {
    throw new DatasetError(`${path}: cannot be read as JSON: ${(cause as Error).message}`, { cause });
  }
  if (!Array.isArray(value)) {
    throw new DatasetError(
      `${path}: holds ${typeof value}, not a list of objects; one object a line is .jsonl`,
    );
  }
  return arraySource(
    value.map((row, index) => asRow(row, `${path}, row ${index}`)),
    path,
  );
}

function asRow(value: unknown, where: string): DataRow {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as DataRow;
  throw new DatasetError(`${where}: a row is an object, not ${JSON.stringify(value)?.slice(0, 80)}`);
}
