import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRandom } from '../src/lib/random.ts';
import { tinyModel } from './tiny-model.ts';

/** When a run is killed: so many milliseconds after its start, or the moment it writes its n-th checkpoint. */
export type Moment = { readonly afterMs: number } | { readonly insideCheckpoint: number };

export interface KillTrial {
  /** The run's directory. */
  readonly run: string;
  readonly moments: readonly Moment[];
  /** Steps that had been reported when each kill came. */
  readonly stepsAtKill: readonly number[];
  readonly equal: boolean;
}

interface Outcome {
  readonly metrics: string;
  readonly weights: string;
}

/** Runs to the end, then kills (SIGKILL) and resumes as each trial says, and compares the results to the last bit. */
export async function killAndResume(
  trials: readonly (readonly Moment[])[],
  { steps = 6, overrides = [] }: { steps?: number; overrides?: readonly string[] } = {},
): Promise<KillTrial[]> {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-kill-'));
  const model = await tinyModel();
  const start = (run: string, resume: boolean) =>
    spawn(
      process.execPath,
      ['bin/rollcall.js', 'train', 'test/runs/letters.ts', ...overrides, ...(resume ? ['--resume'] : [])],
      {
        env: { ...process.env, MODEL: model, RUN: run, STEPS: String(steps) },
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
  const whole = join(folder, 'whole');
  await ended(start(whole, false));
  const expected = outcome(whole, steps);
  const results: KillTrial[] = [];
  for (const [number, moments] of trials.entries()) {
    const run = join(folder, `run-${number}`);
    const stepsAtKill: number[] = [];
    for (const moment of moments) {
      const child = start(run, existsSync(join(run, 'options.json')));
      const over = new AbortController();
      await Promise.race([reached(moment, run, over.signal), ended(child)]);
      over.abort(); // a run may end before the moment comes
      stepsAtKill.push(readSteps(run));
      child.kill('SIGKILL');
      await ended(child);
    }
    await ended(start(run, existsSync(join(run, 'options.json'))), true);
    const got = outcome(run, steps);
    results.push({
      run,
      moments,
      stepsAtKill,
      equal: got.metrics === expected.metrics && got.weights === expected.weights,
    });
  }
  return results;
}

/** `count` trials of one or two random moments each, a third of them inside a checkpoint's writing. */
export function randomTrials(count: number, seed: number, longestMs: number): Moment[][] {
  const random = createRandom(seed);
  const moment = (): Moment =>
    random.next() < 1 / 3
      ? { insideCheckpoint: 1 + random.integer(3) }
      : { afterMs: Math.round(random.next() * longestMs) };
  return Array.from({ length: count }, () => Array.from({ length: 1 + random.integer(2) }, moment));
}

async function reached(moment: Moment, run: string, over: AbortSignal): Promise<void> {
  if ('afterMs' in moment) return new Promise((resolve) => setTimeout(resolve, moment.afterMs));
  let seen = 0;
  let writing = false;
  while (seen < moment.insideCheckpoint && !over.aborted) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    const folder = join(run, 'checkpoints');
    const now = existsSync(folder) && readdirSync(folder).some((name) => name.endsWith('.partial'));
    if (now && !writing) seen++;
    writing = now;
  }
}

function ended(child: ChildProcess, mustSucceed = false): Promise<void> {
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  return new Promise((resolve, reject) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once('exit', (code) => {
      if (mustSucceed && code !== 0) reject(new Error(`the resumed run ended with ${code}: ${said}`));
      else resolve();
    });
  });
}

function readSteps(run: string): number {
  const path = join(run, 'metrics.jsonl');
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0;
}

/** Every metric of every step but times, and a hash of the final weights. */
function outcome(run: string, steps: number): Outcome {
  const lines = readFileSync(join(run, 'metrics.jsonl'), 'utf8').trim().split('\n');
  const metrics = lines.map((line) => {
    const { step, metrics: all } = JSON.parse(line) as { step: number; metrics: Record<string, number> };
    return [step, Object.entries(all).filter(([name]) => !/^(timing_s|perf)\//.test(name))];
  });
  const weights = readFileSync(join(run, 'checkpoints', `global_step_${steps}`, 'model.safetensors'));
  return { metrics: JSON.stringify(metrics), weights: createHash('sha256').update(weights).digest('hex') };
}
