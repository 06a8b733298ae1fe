/**
 * Feeds what reads bytes from outside with bytes that were made to break it: `npm run prove fuzz [-- --quick --minutes 60
 * --only NAME --corpus FOLDER --input FILE]`. Inputs grow from sound ones by mutation; those that run parts of the sources which
 * none ran before are kept and mutated further. An error of ours is an answer. Another error, a hang and memory without
 * bound are findings. docs/security.md tells what came of it.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashSeed } from '../src/lib/random.ts';
import { startWorker } from '../src/lib/worker.ts';
import { readFlags } from './flags.ts';
import { type FuzzReport, type FuzzWork, SHARED_HEAD } from './fuzz/shared.ts';
import type { FuzzTarget } from './fuzz/target.ts';
import { atLeast, atMost, conclude } from './verdict.ts';

const flags = readFlags(
  { minutes: '60', seed: '1', only: '', corpus: '', input: '', hangSeconds: '30' },
  { minutes: '8' },
);
const names = readdirSync(new URL('fuzz/targets', import.meta.url))
  .map((file) => file.replace('.ts', ''))
  .filter((name) => flags.only === '' || flags.only.split(',').includes(name));
if (names.length === 0) throw new Error(`no target is called ${flags.only}`);
const folder = flags.corpus || mkdtempSync(join(tmpdir(), 'rollcall-fuzz-'));

/** Mutations of a long input are long: words of 16 KiB are the most, and seeds of a target may be longer. */
const SHARED_BYTES = 4 * 2 ** 20;
/** Of one thread. What is allocated outside of its heap is measured in it, input by input. */
const HEAP_MEGABYTES = 768;

interface Tally {
  runs: number;
  parts: number;
  corpus: number;
}

const findings: string[] = [];
const tallies: Record<string, Tally> = {};

function keep(kind: 'corpus' | 'findings', name: string, input: Uint8Array): string {
  const place = join(folder, kind, name);
  mkdirSync(place, { recursive: true });
  const file = join(place, createHash('sha256').update(input).digest('hex').slice(0, 16));
  writeFileSync(file, input);
  return file;
}

function report(name: string, what: string, where: string, input: Uint8Array): void {
  const file = keep('findings', name, input);
  findings.push(`${name}: ${what} at ${where}`);
  console.log(
    `FINDING ${name}: ${what}\n  at ${where || 'unknown'}\n  input: ${file} (${input.length} bytes)`,
  );
}

function corpusOf(name: string): Uint8Array[] {
  const place = join(folder, 'corpus', name);
  return existsSync(place) ? readdirSync(place).map((file) => readFileSync(join(place, file))) : [];
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** One thread until its time is over, it hangs, or its memory is full. */
function fuzzOnce(name: string, seed: number, seconds: number): Promise<void> {
  const shared = new SharedArrayBuffer(SHARED_HEAD + SHARED_BYTES);
  const head = new BigInt64Array(shared, 0, 2);
  const current = () => Uint8Array.from(new Uint8Array(shared, SHARED_HEAD, Number(head[1])));
  const work: FuzzWork = { target: name, seed, seconds, corpus: corpusOf(name), shared };
  const worker = startWorker('./fuzz/worker', import.meta.url, {
    workerData: work,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MEGABYTES },
  });
  const tally = tallies[name]!;
  const before = tally.runs;
  let last = -1n;
  let since = cpuSeconds();
  let sinceTime = performance.now();
  const watchdog = setInterval(() => {
    const now = Atomics.load(head, 0);
    if (now !== last) {
      last = now;
      since = cpuSeconds();
      sinceTime = performance.now();
    } else if (
      cpuSeconds() - since > Number(flags.hangSeconds) ||
      performance.now() - sinceTime > 10_000 * Number(flags.hangSeconds)
    ) {
      report(name, `hangs for ${flags.hangSeconds} s`, '', current());
      void worker.terminate();
    }
  }, 500);
  worker.on('message', (said: FuzzReport) => {
    if (said.kind === 'finding') report(name, said.what, said.where, said.input);
    else if (said.kind === 'kept') {
      keep('corpus', name, said.input);
      tally.parts = said.parts;
    } else Object.assign(tally, { parts: said.parts, corpus: said.corpus });
  });
  return new Promise((resolve) => {
    worker.on('error', (error) => report(name, `ends the thread: ${error.message}`, '', current()));
    worker.on('exit', () => {
      clearInterval(watchdog);
      tally.runs = before + Number(head[0]);
      resolve();
    });
  });
}

async function fuzz(name: string, seconds: number): Promise<void> {
  tallies[name] = { runs: 0, parts: 0, corpus: 0 };
  const end = performance.now() + seconds * 1000;
  for (let start = 0; performance.now() < end - 1000; start++) {
    await fuzzOnce(name, hashSeed(Number(flags.seed), name, start), (end - performance.now()) / 1000);
  }
  console.log(`${name}: ${JSON.stringify(tallies[name])}`);
}

if (flags.input !== '') {
  const { target } = (await import(`./fuzz/targets/${flags.only}.ts`)) as { readonly target: FuzzTarget };
  console.log('read:', await target.run(readFileSync(flags.input)));
  process.exit(0);
}
console.log(`inputs and findings: ${folder}`);
for (const name of names) await fuzz(name, (Number(flags.minutes) * 60) / names.length);
conclude(
  [
    atMost('findings', findings.length, 0),
    atLeast('minutes', Number(flags.minutes), flags.quick ? 1 : 60),
    atLeast(
      'targets that ran',
      Object.values(tallies).filter(({ runs }) => runs > 1000).length,
      names.length,
    ),
  ],
  {
    minutes: Number(flags.minutes),
    runs: Object.values(tallies).reduce((sum, { runs }) => sum + runs, 0),
    tallies,
    findings,
  },
);
