import { stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { extname, resolve } from 'node:path';
import { DatasetError } from '../errors.ts';
import { csvSource } from './csv.ts';
import { type Dataset, type DatasetOptions, datasetOf } from './dataset.ts';
import { jsonlSource, jsonSource } from './jsonl.ts';
import { parquetSource } from './parquet.ts';
import { type DataRow, joinSources, type Source } from './source.ts';

type Paths = string | readonly string[];

/** A dataset of one JSON object a line. */
export const jsonl = (path: Paths, options?: DatasetOptions) => openWith(path, jsonlSource, options);
/** A dataset of CSV rows; the first line names the columns. */
export const csv = (path: Paths, options?: DatasetOptions) => openWith(path, csvSource, options);
/** A dataset of parquet rows, read in row groups. */
export const parquet = (path: Paths, options?: DatasetOptions & { readonly columns?: readonly string[] }) =>
  openWith(path, (file) => parquetSource(file, options?.columns), options);

const READERS: Readonly<Record<string, (path: string) => Promise<Source>>> = {
  '.jsonl': jsonlSource,
  '.ndjson': jsonlSource,
  '.json': jsonSource,
  '.csv': csvSource,
  '.parquet': parquetSource,
};

/** Opens one or several files, each by what its name ends in. */
export function openDataset(path: Paths, options?: DatasetOptions): Promise<Dataset<DataRow>> {
  return openWith(
    path,
    (file) => {
      const reader = READERS[extname(file).toLowerCase()];
      if (!reader) {
        throw new DatasetError(
          `${file}: a dataset is a file that ends in ${Object.keys(READERS).join(', ')}`,
        );
      }
      return reader(file);
    },
    options,
  );
}

async function openWith(
  path: Paths,
  open: (file: string) => Promise<Source>,
  options?: DatasetOptions,
): Promise<Dataset<DataRow>> {
  const files = (typeof path === 'string' ? [path] : path).map(expandHome);
  if (files.length === 0) throw new DatasetError('a dataset needs at least one file; the list is empty');
  const sources: Source[] = [];
  for (const file of files) {
    const found = await stat(file).catch(() => undefined);
    if (!found) throw new DatasetError(`${file}: there is no such file (looked in ${resolve(file)})`);
    if (!found.isFile()) throw new DatasetError(`${file}: is not a file; name the files inside it`);
    sources.push(await open(file));
  }
  return datasetOf(joinSources(sources), options);
}

/** `~` and `$HOME` as a shell would have made them: paths also come from YAML. */
export function expandHome(path: string): string {
  return path.replace(/^(~|\$HOME|\$\{HOME\})(?=\/|$)/, homedir());
}
