/** Fuzzes one target in a thread of its own: the main thread sees a hang, and ends it. */
import { parentPort, workerData } from 'node:worker_threads';
import { RollcallError } from '../../src/errors.ts';
import { createRandom } from '../../src/lib/random.ts';
import { Coverage } from './coverage.ts';
import { mutate } from './mutate.ts';
import { type FuzzReport, type FuzzWork, SHARED_HEAD } from './shared.ts';
import type { FuzzTarget } from './target.ts';

/** One input may not take longer, nor allocate more. */
const SLOW_MS = 3000;
const BATCH = 64;
const MOST_BYTES = 2 ** 30;

const { target: name, seed, seconds, corpus: given, shared } = workerData as FuzzWork;
const head = new BigInt64Array(shared, 0, 2);
const current = new Uint8Array(shared, SHARED_HEAD);
const { target } = (await import(`./targets/${name}.ts`)) as { readonly target: FuzzTarget };
const random = createRandom(seed);
const words = (target.words ?? []).map((word) => Buffer.from(word));
const tell = (report: FuzzReport) => parentPort!.postMessage(report);
const coverage = new Coverage((url) => /\/src\/|\/(?:hyparquet|yaml|tokenizers)\b/.test(url));
const seen = new Set<string>();
const corpus: Buffer[] = [];
let runs = 0;

/** Where an error began: its first frame in our sources. */
function placeOf(error: Error): string {
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  const frame = frames.find((line) => line.includes('/src/')) ?? frames[0] ?? '';
  return frame.replace(/^\s+at /, '').replace(/\(?file:\S*\/(src|node_modules)\//, '$1/');
}

function finding(what: string, where: string, input: Buffer): void {
  const mark = `${what.slice(0, 40)} ${where}`;
  if (seen.has(mark)) return;
  seen.add(mark);
  tell({ kind: 'finding', what, where, input: Uint8Array.from(input) });
}

/** In milliseconds of processor time: the machine may be busy with other things. */
async function runOnce(input: Buffer): Promise<number> {
  head[1] = BigInt(input.length);
  current.set(input);
  Atomics.store(head, 0, BigInt(++runs));
  const began = process.cpuUsage();
  try {
    // A copy that begins where an allocation does: a target may keep or change it.
    const result = target.run(Buffer.from(Uint8Array.from(input).buffer));
    if (result instanceof Promise) await result;
  } catch (error) {
    const isOurs = error instanceof RollcallError || (error instanceof Error && target.isOurs?.(error));
    if (!isOurs) {
      const shown = error instanceof Error ? `${error.name}: ${error.message}` : `threw ${String(error)}`;
      finding(shown.slice(0, 300), error instanceof Error ? placeOf(error) : '', input);
    }
  }
  const { user, system } = process.cpuUsage(began);
  return (user + system) / 1000;
}

function allocated(): number {
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/**
 * Runs inputs and keeps those that ran something new. To ask for coverage takes V8 as long as a hundred inputs, so it is
 * asked for many at once, and which of them it was is found by halving; so is one that allocated much.
 */
async function tryInputs(inputs: readonly Buffer[]): Promise<void> {
  const before = allocated();
  for (const input of inputs) {
    const ms = await runOnce(input);
    // The collector may have run meanwhile: slow is what is slow twice.
    if (ms > SLOW_MS && (await runOnce(input)) > SLOW_MS) finding(`takes ${Math.round(ms)} ms`, '', input);
  }
  const grown = allocated() - before;
  const fresh = coverage.take();
  if (fresh.length === 0 && grown < MOST_BYTES) return;
  if (inputs.length > 1) {
    const half = inputs.length >> 1;
    await tryInputs(inputs.slice(0, half));
    await tryInputs(inputs.slice(half));
    return;
  }
  if (grown >= MOST_BYTES) finding(`allocates ${Math.round(grown / 2 ** 20)} MiB`, '', inputs[0]!);
  if (fresh.length === 0) return;
  coverage.know(fresh);
  corpus.push(inputs[0]!);
  tell({ kind: 'kept', input: Uint8Array.from(inputs[0]!), runs, parts: coverage.parts });
}

function nextInput(): Buffer {
  // Half of the time one of the newest, which have been tried least.
  const newest = corpus.length - 1 - random.integer(1 + (corpus.length >> 3));
  const from = corpus[random.integer(2) === 0 ? newest : random.integer(corpus.length)]!;
  return mutate(from, corpus[random.integer(corpus.length)]!, words, random);
}

coverage.take();
for (const input of [...target.seeds(), ...given]) await tryInputs([Buffer.from(input as Uint8Array)]);
if (corpus.length === 0) throw new Error(`no seed of ${name} runs anything of the sources`);
const end = performance.now() + seconds * 1000;
while (performance.now() < end) await tryInputs(Array.from({ length: BATCH }, nextInput));
tell({ kind: 'ended', runs, parts: coverage.parts, corpus: corpus.length });
process.exit(0);
