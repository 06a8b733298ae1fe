import { DatasetError } from '../../errors.ts';
import { openDataset } from '../open.ts';
import type { DataRow } from '../source.ts';
import { findFiles, type Origin } from './find-files.ts';

/** A row in verl's columns, ready to be written. */
export interface PreparedRow extends DataRow {
  readonly data_source: string;
  readonly prompt: readonly { readonly role: string; readonly content: string }[];
  readonly ability: string;
  readonly reward_model: { readonly style: 'rule'; readonly ground_truth: unknown };
  readonly extra_info: Readonly<Record<string, unknown>>;
}

/** Rows of each split, made one at a time. */
export type Preparation = Readonly<Record<string, AsyncIterable<PreparedRow>>>;

const FILE = '[^/]*\\.(parquet|jsonl|json|csv)$';

/** Reads a split's original rows and changes each; a row that cannot be changed is named by file and number. */
export async function prepareSplit(
  origin: Origin,
  split: string,
  change: (row: DataRow, index: number) => PreparedRow,
  /** Preferred, where the original has several variants. */
  folder = '',
): Promise<AsyncIterable<PreparedRow>> {
  const anywhere = new RegExp(`(^|/)${split}${FILE}`);
  let files = folder ? await findFiles(origin, new RegExp(`^${folder}/(.*/)?${split}${FILE}`)) : [];
  if (files.length === 0) files = await findFiles(origin, anywhere);
  if (files.length === 0) {
    throw new DatasetError(
      `${origin.path ?? origin.hub}: has no file for the split ${split}; looked for ${split}*.parquet, .jsonl, .json or .csv`,
    );
  }
  const dataset = await openDataset(files);
  return (async function* () {
    try {
      for await (const { row } of dataset.map(change).rows()) yield row;
    } finally {
      await dataset.close();
    }
  })();
}

/** A text column of an original row. */
export function textOf(row: DataRow, column: string): string {
  const value = row[column];
  if (typeof value === 'string') return value;
  throw new DatasetError(
    `column ${column} is ${JSON.stringify(value) ?? 'missing'}, not text; the columns are ${Object.keys(row).join(', ')}`,
  );
}
