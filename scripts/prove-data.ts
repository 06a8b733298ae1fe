import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { openDataset } from '../src/dataset/open.ts';
import { createRandom } from '../src/lib/random.ts';
import { atLeast, atMost, conclude, holds } from './verdict.ts';

/**
 * A parquet file of a million rows in verl's columns, written by DuckDB: it streams in bounded memory, at a rate
 * that is compared with DuckDB's own for the same columns to JavaScript rows in the same run, and reading goes on at
 * any row in the same order. With GSM8K beside the repository, its preparation in every style, read by DuckDB.
 * A part alone: `stream FILE`, `duckdb FILE`, `resume FILE`.
 */

const [task, file] = process.argv.slice(2).filter((word) => !word.startsWith('--'));
const ROWS = Number(process.env.ROWS ?? (process.argv.includes('--quick') ? 200_000 : 1_000_000));
const SELF = import.meta.filename;

async function prove(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-prove-data-'));
  const path = join(folder, 'million.parquet');
  try {
    await makeFile(path);
    console.log(`${ROWS} rows, ${(statSync(path).size / 2 ** 20).toFixed(0)} MiB, ${cpus().length} cores`);
    // Interleaved, each in its own process, so that neither warms the other's memory.
    const ours: Streamed[] = [];
    const theirs: Streamed[] = [];
    for (let round = 0; round < 2; round++) {
      ours.push(measure('stream', path));
      theirs.push(measure('duckdb', path));
      console.log(`round ${round + 1}: ours ${shown(ours[round]!)}; DuckDB ${shown(theirs[round]!)}`);
    }
    if (ours[0]!.checksum !== theirs[0]!.checksum) throw new Error('DuckDB and we read different rows');
    const rate = Math.max(...ours.map(({ rowsPerSecond }) => rowsPerSecond));
    const theirRate = Math.max(...theirs.map(({ rowsPerSecond }) => rowsPerSecond));
    const growth = Math.max(...ours.map(({ rssGrowthMiB }) => rssGrowthMiB));
    const resumed = await proveResume(path);
    const gsm8k = await proveGsm8k(folder);
    const figures = {
      rows: ROWS,
      rssGrowthMiB: Math.round(growth),
      rowsPerSecond: Math.round(rate),
      duckdbRowsPerSecond: Math.round(theirRate),
      ratio: Number((rate / theirRate).toFixed(2)),
      resumedAt: resumed,
      gsm8k,
    };
    conclude(
      [
        atMost('growth of resident memory in MiB', growth, 300),
        atLeast("rows a second against DuckDB's", rate / theirRate, 0.5),
        holds('rows are the same as DuckDB reads, and reading resumes at any row', true, resumed.length),
      ],
      figures,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Streamed {
  readonly rowsPerSecond: number;
  readonly rssGrowthMiB: number;
  readonly checksum: string;
}

const shown = ({ rowsPerSecond, rssGrowthMiB }: Streamed) =>
  `${Math.round(rowsPerSecond)} rows/s, RSS +${Math.round(rssGrowthMiB)} MiB`;

function measure(what: string, path: string): Streamed {
  const output = execFileSync(process.execPath, ['--import', './bin/register.js', SELF, what, path], {
    encoding: 'utf8',
    timeout: 600_000,
    env: { ...process.env, ROWS: String(ROWS) },
  });
  return JSON.parse(output.trim().split('\n').at(-1)!) as Streamed;
}

async function makeFile(path: string): Promise<void> {
  const connection = await (await DuckDBInstance.create()).connect();
  await connection.run(`copy (
    select 'openai/gsm8k' as data_source,
      [{role: 'system', content: 'You solve problems step by step.'},
       {role: 'user', content: 'What is ' || i || ' plus ' || (i * 7919 % 100003) || '? Think step by step, then answer.'}] as prompt,
      'math' as ability,
      {style: 'rule', ground_truth: (i + i * 7919 % 100003)::varchar} as reward_model,
      {split: 'train', index: i, tools_kwargs: {calculator: {create_kwargs: {ground_truth: i::varchar}}}} as extra_info,
      'tool_agent' as agent_name
    from range(${ROWS}) t(i)) to '${path}' (format parquet, compression snappy)`);
  connection.closeSync();
}

/** Touches every field, so that nothing may be left undecoded. */
class Checksum {
  #sum = 0;
  add(index: number, user: string, truth: string): void {
    this.#sum = (this.#sum * 31 + index * 7 + user.length + Number(truth)) % 1_000_000_007;
  }
  get text(): string {
    return String(this.#sum);
  }
}

interface VerlRow {
  readonly prompt: readonly { readonly content: string }[];
  readonly reward_model: { readonly ground_truth: string };
  readonly extra_info: { readonly index: number | bigint | string };
}

async function stream(path: string): Promise<void> {
  const watch = watchMemory();
  const started = performance.now();
  const checksum = new Checksum();
  let rows = 0;
  for await (const { row } of (await openDataset(path)).rows()) {
    const { prompt, reward_model, extra_info } = row as unknown as VerlRow;
    checksum.add(Number(extra_info.index), prompt[1]!.content, reward_model.ground_truth);
    if (++rows % 5000 === 0) watch.look();
  }
  report(rows, started, watch.growth(), checksum);
}

async function streamByDuckdb(path: string): Promise<void> {
  const watch = watchMemory();
  const started = performance.now();
  const checksum = new Checksum();
  const connection = await (await DuckDBInstance.create()).connect();
  const result = await connection.stream(`select * from '${path}'`);
  let rows = 0;
  for await (const chunk of result.yieldRowObjectJs()) {
    for (const row of chunk) {
      const { prompt, reward_model, extra_info } = row as unknown as VerlRow;
      checksum.add(Number(extra_info.index), prompt[1]!.content, reward_model.ground_truth);
      rows++;
    }
    watch.look();
  }
  report(rows, started, watch.growth(), checksum);
}

function watchMemory() {
  const before = process.memoryUsage.rss();
  let most = before;
  return {
    look: () => {
      most = Math.max(most, process.memoryUsage.rss());
    },
    growth: () => (most - before) / 2 ** 20,
  };
}

function report(rows: number, started: number, rssGrowthMiB: number, checksum: Checksum): void {
  if (rows !== ROWS) throw new Error(`${rows} rows came, ${ROWS} are there`);
  const rowsPerSecond = rows / ((performance.now() - started) / 1000);
  console.log(JSON.stringify({ rowsPerSecond, rssGrowthMiB, checksum: checksum.text }));
}

/** In the file's order and in a shuffled one: from any position, the next rows are those of an uninterrupted pass. */
async function proveResume(path: string): Promise<number[]> {
  const random = createRandom(7);
  const positions = [0, 1, ROWS - 3, ...Array.from({ length: 5 }, () => random.integer(ROWS - 10))];
  const shuffled = (await openDataset(path)).shuffle(11);
  const again = (await openDataset(path)).shuffle(11);
  const order = Array.from({ length: ROWS }, (_, place) => again.indexAt(place));
  if (new Set(order).size !== ROWS) throw new Error('a shuffled pass does not have every row once');
  for (const position of positions) {
    for (const dataset of [await openDataset(path), shuffled]) {
      let place = position;
      for await (const { row, index, next } of dataset.rows(position)) {
        const expected = dataset === shuffled ? order[place]! : place;
        if (index !== expected || Number((row as unknown as VerlRow).extra_info.index) !== expected) {
          throw new Error(`at ${place} row ${index} came instead of ${expected}`);
        }
        place = next;
        if (place >= Math.min(position + 5, ROWS)) break;
      }
    }
  }
  return positions;
}

async function proveGsm8k(folder: string): Promise<Record<string, unknown> | string> {
  const original = '../shared/data/gsm8k';
  if (!existsSync(join(original, 'train.jsonl'))) return `skipped: no ${original}`;
  const connection = await (await DuckDBInstance.create()).connect();
  const found: Record<string, unknown> = {};
  for (const style of ['plain', 'tool', 'interaction', 'agent-loop']) {
    const target = join(folder, style);
    const run = spawnSync(
      process.execPath,
      [
        'bin/rollcall.js',
        'data',
        'gsm8k',
        '--style',
        style,
        '--local_dataset_path',
        original,
        '--local_save_dir',
        target,
      ],
      { encoding: 'utf8' },
    );
    if (run.status !== 0) throw new Error(run.stderr);
    const ask = async (split: string) => {
      const answer = await connection.runAndReadAll(
        `select count(*)::int n, count(distinct extra_info.index)::int m, sum(len(prompt))::int p from '${target}/${split}.parquet'`,
      );
      const { n, m, p } = answer.getRowObjectsJson()[0] as { n: number; m: number; p: number };
      if (n !== m || p !== n * (style === 'plain' ? 1 : 2))
        throw new Error(`${style}/${split}: rows ${n}, indices ${m}, messages ${p}`);
      return n;
    };
    found[style] = [await ask('train'), await ask('test')];
  }
  return found;
}

if (task === 'stream') await stream(file!);
else if (task === 'duckdb') await streamByDuckdb(file!);
else if (task === 'resume') console.log(await proveResume(file!));
else await prove();
