import { existsSync } from 'node:fs';
import { appendFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../errors.ts';
import { isMissing, readJsonLines, writeFileAtomically } from '../lib/files.ts';
import type { Metrics } from '../types.ts';

/**
 * The run directory is the contract: all that shows, resumes or exports a run reads only this.
 *
 *   options.json                    resolved options, the config module's hash, git commit
 *   metrics.jsonl                   one line a step
 *   trajectories/step_N.*           what was said and sampled (trajectory-store.ts)
 *   evaluations/SET/                trajectories of a validation set, laid out as here (evaluation-store.ts)
 *   blobs/                          images by hash
 *   servers/server-PORT.log         what servers printed that the run started
 *   checkpoints/global_step_N/      weights, optimizer, state.json; written beside and renamed
 *   checkpoints/latest              the name of the newest complete one
 *   end.json                        how the run ended (run-end.ts)
 *   status.json                     what the run is doing, while it lives (run-status.ts)
 *   trackers.json                   where the run is in each tracker (trackers/memory.ts)
 *   set-aside/                      batches with a number that was not finite, for `rollcall replay`
 *   discarded/                      what lay past the checkpoint when the run was resumed
 *
 * Every JSON file carries `format`. A torn last line is skipped by every reader.
 */
export const RUN_FORMAT = 2;

export interface StepMetrics {
  readonly step: number;
  /** Seconds since the run's first start, training time only. */
  readonly seconds: number;
  readonly metrics: Metrics;
}

export const runPaths = (directory: string) => ({
  options: join(directory, 'options.json'),
  metrics: join(directory, 'metrics.jsonl'),
  trajectories: join(directory, 'trajectories'),
  evaluations: join(directory, 'evaluations'),
  blobs: join(directory, 'blobs'),
  servers: join(directory, 'servers'),
  checkpoints: join(directory, 'checkpoints'),
  latest: join(directory, 'checkpoints', 'latest'),
  end: join(directory, 'end.json'),
  status: join(directory, 'status.json'),
  discarded: join(directory, 'discarded'),
  setAside: join(directory, 'set-aside'),
});

const checkpointName = (step: number) => `global_step_${step}`;

/**
 * Makes a new run directory; refuses one that holds a run, because nothing may be overwritten unasked. A start that
 * failed before its first step left nothing to keep.
 */
export async function createRunDirectory(directory: string, options: unknown): Promise<void> {
  const paths = runPaths(directory);
  const written = await stat(paths.metrics).catch(() => undefined);
  if (written?.size || existsSync(paths.latest)) {
    throw new ConfigError(
      `${directory} already holds a run; continue it with resume (--resume), or choose another runDir`,
    );
  }
  await mkdir(paths.trajectories, { recursive: true });
  await mkdir(paths.checkpoints, { recursive: true });
  await writeOptions(directory, options);
  await writeFile(paths.metrics, '');
}

export async function writeOptions(directory: string, options: unknown): Promise<void> {
  await writeFileAtomically(
    runPaths(directory).options,
    `${JSON.stringify({ format: RUN_FORMAT, ...(options as object) }, null, 2)}\n`,
  );
}

export async function appendMetrics(directory: string, line: StepMetrics): Promise<void> {
  await appendFile(runPaths(directory).metrics, `${JSON.stringify({ format: RUN_FORMAT, ...line })}\n`);
}

export async function readMetrics(directory: string): Promise<StepMetrics[]> {
  return (await readJsonLines(runPaths(directory).metrics)) as StepMetrics[];
}

/**
 * Writes a checkpoint: `fill` puts weights and optimizer into a folder that gets its real name only when it is
 * complete. Then `latest` points to it, and all but the newest `keep` are removed. Where `fill` gives false, what it wrote
 * is not whole: it is removed, and the checkpoint before stays the latest.
 */
export async function writeCheckpoint(
  directory: string,
  step: number,
  state: object,
  fill: (folder: string) => Promise<void | boolean>,
  keep: number,
): Promise<string | undefined> {
  const { checkpoints, latest } = runPaths(directory);
  const name = checkpointName(step);
  const partial = join(checkpoints, `${name}.partial`);
  const final = join(checkpoints, name);
  await rm(partial, { recursive: true, force: true });
  await mkdir(partial, { recursive: true });
  if ((await fill(partial)) === false) {
    await rm(partial, { recursive: true, force: true });
    return undefined;
  }
  await writeFileAtomically(
    join(partial, 'state.json'),
    `${JSON.stringify({ format: RUN_FORMAT, step, ...state }, null, 2)}\n`,
  );
  await rm(final, { recursive: true, force: true });
  await rename(partial, final);
  await writeFileAtomically(latest, `${name}\n`);
  for (const old of (await listCheckpoints(directory)).slice(0, -keep)) {
    await rm(join(checkpoints, checkpointName(old)), { recursive: true, force: true });
  }
  return final;
}

/** Steps with a complete checkpoint, oldest first. */
export async function listCheckpoints(directory: string): Promise<number[]> {
  try {
    const names = await readdir(runPaths(directory).checkpoints);
    return names
      .flatMap((name) => /^global_step_(\d+)$/.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => a - b);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

export interface Checkpoint {
  readonly step: number;
  readonly path: string;
  readonly state: Readonly<Record<string, unknown>>;
}

/** The checkpoint that `latest` names; if that one is gone, the newest complete one; if none, undefined. */
export async function readLatestCheckpoint(directory: string): Promise<Checkpoint | undefined> {
  const { latest, checkpoints } = runPaths(directory);
  const steps = await listCheckpoints(directory);
  const named = await readFile(latest, 'utf8').then(
    (text) => Number(/global_step_(\d+)/.exec(text)?.[1]),
    () => Number.NaN,
  );
  const step = steps.includes(named) ? named : steps.at(-1);
  if (step === undefined) return undefined;
  const path = join(checkpoints, checkpointName(step));
  const state = JSON.parse(await readFile(join(path, 'state.json'), 'utf8')) as Record<string, unknown>;
  return { step, path, state };
}

/** Moves everything after `step` into `discarded/`, so that a resumed run never shows two versions of one step. */
export async function discardPast(directory: string, step: number, stamp: string): Promise<void> {
  const paths = runPaths(directory);
  const bin = join(paths.discarded, stamp);
  const lines = await readMetrics(directory);
  const past = lines.filter((line) => line.step > step);
  if (past.length > 0) {
    await mkdir(bin, { recursive: true });
    await writeFile(join(bin, 'metrics.jsonl'), toLines(past));
  }
  await moveStepsPast(paths.trajectories, step, bin);
  for (const set of await readdir(paths.evaluations).catch(() => [])) {
    const { trajectories } = runPaths(join(paths.evaluations, set));
    await moveStepsPast(trajectories, step, join(bin, 'evaluations', set));
  }
  // Rewritten even when nothing is past: it may end in a torn line.
  await writeFileAtomically(paths.metrics, toLines(lines.filter((line) => line.step <= step)));
  await rm(paths.end, { force: true });
  await rm(paths.status, { force: true });
}

async function moveStepsPast(folder: string, step: number, bin: string): Promise<void> {
  const files = await readdir(folder).catch(() => []);
  const past = files.filter((file) => Number(/^step_(\d+)\./.exec(file)?.[1] ?? -1) > step);
  if (past.length > 0) await mkdir(bin, { recursive: true });
  for (const file of past) await rename(join(folder, file), join(bin, file));
}

const toLines = (items: readonly unknown[]) => items.map((item) => `${JSON.stringify(item)}\n`).join('');
