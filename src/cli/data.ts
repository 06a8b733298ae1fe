import { mkdir, writeFile } from 'node:fs/promises';
import { extname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Command, Option } from 'commander';
import { expandHome, openDataset } from '../dataset/open.ts';
import {
  CODE_LANGUAGES,
  CODE_SETS,
  type CodeLanguage,
  type CodeSet,
  prepareCode,
} from '../dataset/prepare/code.ts';
import { type CustomOptions, prepareCustom } from '../dataset/prepare/custom.ts';
import type { Origin } from '../dataset/prepare/find-files.ts';
import { GEO3K_STYLES, type Geo3kStyle, prepareGeo3k } from '../dataset/prepare/geo3k.ts';
import { GSM8K_STYLES, type Gsm8kStyle, prepareGsm8k } from '../dataset/prepare/gsm8k.ts';
import type { Preparation } from '../dataset/prepare/preparation.ts';
import { prepareSearchR1 } from '../dataset/prepare/search-r1.ts';
import type { DataRow } from '../dataset/source.ts';
import { writeParquet } from '../dataset/write-parquet.ts';
import { ConfigError } from '../errors.ts';
import { taskRow } from '../verl/task-row.ts';
import { whole } from './number.ts';

interface OriginFlags {
  readonly local_dataset_path?: string;
  readonly local_save_dir: string;
  readonly hub: string;
}

/** `rollcall data …`: makes, shows and changes dataset files. The flags are those of verl's preparation scripts. */
export function registerData(program: Command): void {
  const data = program.command('data').description('make, show and change dataset files');

  prepared(data, 'gsm8k', 'openai/gsm8k', 'grade-school maths, 7473 train and 1319 test problems')
    .addOption(new Option('--style <style>', 'what the model may do').choices(GSM8K_STYLES).default('plain'))
    .action(async (flags: OriginFlags & { style: Gsm8kStyle }) =>
      write(await prepareGsm8k(originOf(flags), flags.style), flags.local_save_dir),
    );
  prepared(data, 'geo3k', 'hiyouga/geometry3k', 'geometry problems with a diagram each')
    .addOption(new Option('--style <style>', 'what the model may do').choices(GEO3K_STYLES).default('plain'))
    .action(async (flags: OriginFlags & { style: Geo3kStyle }) =>
      write(await prepareGeo3k(originOf(flags), flags.style), flags.local_save_dir),
    );
  prepared(data, 'search-r1', 'PeterJinGo/nq_hotpotqa_train', 'questions that need a search').action(
    async (flags: OriginFlags) => write(await prepareSearchR1(originOf(flags)), flags.local_save_dir),
  );
  prepared(data, 'code', 'mxeval/mbxp', 'short functions with tests: MBPP, or HumanEval in the same form')
    .addOption(new Option('--set <set>', 'which problems').choices(CODE_SETS).default('mbpp'))
    .addOption(
      new Option('--language <language>', 'of the code').choices(CODE_LANGUAGES).default('typescript'),
    )
    .action(async (flags: OriginFlags & { language: CodeLanguage; set: CodeSet }) =>
      write(await prepareCode(originOf(flags), flags.language, flags.set), flags.local_save_dir),
    );

  data
    .command('jsonl')
    .description('any JSONL, CSV, JSON or parquet file with a question and an answer')
    .argument('<files...>')
    .option('--question <column>', 'column of the question', 'question')
    .option('--answer <column>', 'column of the right answer', 'answer')
    .option('--data-source <name>', 'chooses the reward, groups the metrics', 'custom')
    .option('--ability <name>', 'for statistics', 'general')
    .option('--system <text>', 'a system message before each question')
    .option('--agent-name <name>', 'which agent runs the tasks')
    .option('--split <name>', 'name of the file written', 'train')
    .option('--local_save_dir <folder>', 'where to write', '~/data/custom')
    .action(async (files: string[], flags: CustomOptions & { split: string; local_save_dir: string }) =>
      write(await prepareCustom(files, flags.split, flags), flags.local_save_dir),
    );

  data
    .command('show')
    .description('rows of a dataset file as JSON, and what is wrong with them')
    .argument('<files...>')
    .option('--rows <count>', 'how many rows to print', whole(0), 1)
    .option('--from <row>', 'the first row to print', whole(0), 0)
    .option('--check', 'read every row as a task and count the bad ones')
    .option('--skip-bad', 'pass over bad rows instead of stopping at the first')
    .action(show);

  data
    .command('map')
    .description('apply your function to every row: (row, index) => row, list of rows, or null to drop it')
    .argument('<module>', 'a .ts or .js file; the default export, or the one named `map`')
    .argument('<in>')
    .argument('<out>', 'a .parquet or .jsonl file')
    .option('--skip-bad', 'pass over bad rows and count them')
    .action(mapRows);
}

function prepared(data: Command, name: string, hub: string, description: string): Command {
  return data
    .command(name)
    .description(description)
    .option('--local_dataset_path <path>', 'a local copy of the original files, instead of the hub')
    .option('--hub <name>', 'dataset on the hub', hub)
    .option('--local_save_dir <folder>', 'where to write', `~/data/${name}`);
}

const originOf = ({ local_dataset_path, hub }: OriginFlags): Origin => ({
  hub,
  ...(local_dataset_path !== undefined && { path: local_dataset_path }),
  ...(process.env.HF_ENDPOINT && { hubUrl: process.env.HF_ENDPOINT }),
  ...(process.env.HF_TOKEN && { token: process.env.HF_TOKEN }),
});

async function write(splits: Preparation, folder: string): Promise<void> {
  const target = expandHome(folder);
  let sample: DataRow | undefined;
  for (const [split, rows] of Object.entries(splits)) {
    const file = join(target, `${split}.parquet`);
    const { rows: count } = await writeParquet(
      file,
      (async function* () {
        for await (const row of rows) {
          sample ??= row;
          yield row;
        }
      })(),
    );
    console.log(`${file}: ${count} rows`);
  }
  console.log(`A row:\n${printed(sample)}`);
}

async function show(
  files: string[],
  flags: { rows: number; from: number; check?: boolean; skipBad?: boolean },
): Promise<void> {
  const dataset = await openDataset(files, { skipBad: flags.skipBad ?? false });
  try {
    console.log(`${dataset.name}: ${dataset.length} rows`);
    let left = flags.rows;
    if (left > 0) {
      for await (const { index, row } of dataset.rows(flags.from)) {
        console.log(`row ${index}:\n${printed(row)}`);
        if (--left === 0) break;
      }
    }
    if (flags.check) {
      const tasks = dataset.map((row) => taskRow(row));
      let good = 0;
      for await (const _ of tasks.rows()) good++;
      console.log(`${good} rows are tasks; ${tasks.bad.length} are bad`);
      for (const { error } of tasks.bad.slice(0, 10)) console.log(`  ${error.message}`);
    }
  } finally {
    await dataset.close();
  }
}

type RowChange = (row: DataRow, index: number) => unknown;

async function mapRows(
  module: string,
  from: string,
  to: string,
  flags: { skipBad?: boolean },
): Promise<void> {
  const loaded = (await import(pathToFileURL(resolve(module)).href)) as Record<string, unknown>;
  const change = loaded.default ?? loaded.map;
  if (typeof change !== 'function') {
    throw new ConfigError(`${module}: has neither a default export nor one named map that is a function`);
  }
  const dataset = (await openDataset(from, { skipBad: flags.skipBad ?? false })).map(async (row, index) => {
    const made: unknown = await (change as RowChange)(row, index);
    return made === null || made === undefined
      ? []
      : Array.isArray(made)
        ? (made as DataRow[])
        : [made as DataRow];
  });
  const rows = (async function* () {
    for await (const { row } of dataset.rows()) yield* row;
  })();
  try {
    const count = await writeRows(expandHome(to), rows);
    const skipped = dataset.bad.length > 0 ? `; ${dataset.bad.length} bad rows passed over` : '';
    console.log(`${to}: ${count} rows from ${dataset.length}${skipped}`);
  } finally {
    await dataset.close();
  }
}

async function writeRows(path: string, rows: AsyncIterable<DataRow>): Promise<number> {
  if (extname(path) === '.parquet') return (await writeParquet(path, rows)).rows;
  if (extname(path) !== '.jsonl') throw new ConfigError(`${path}: write to a .parquet or a .jsonl file`);
  await mkdir(resolve(path, '..'), { recursive: true });
  let count = 0;
  await writeFile(
    path,
    (async function* () {
      for await (const row of rows) {
        count++;
        yield `${JSON.stringify(row)}\n`;
      }
    })(),
  );
  return count;
}

/** JSON for people: bytes by their number, large integers as text. */
function printed(row: unknown): string {
  return JSON.stringify(
    row,
    (_, value: unknown) =>
      value instanceof Uint8Array
        ? `<${value.length} bytes>`
        : typeof value === 'bigint'
          ? value.toString()
          : value !== null && typeof value === 'object' && 'type' in value && value.type === 'Buffer'
            ? `<${(value as unknown as { data: number[] }).data.length} bytes>`
            : value,
    2,
  );
}
