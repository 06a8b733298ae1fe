import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../errors.ts';
import {
  appendDurably,
  isMissing,
  makeFolder,
  readJsonLines,
  syncFolder,
  writeFileAtomically,
} from '../lib/files.ts';
import type { Metrics } from '../types.ts';
import { checkManifest, type Thoroughness, writeManifest } from './manifest.ts';

/**
 * The run directory is the contract: all that shows, resumes or exports a run reads only this.
 *
 *   options.json                    resolved options, the config module's hash, git commit
 *   metrics.jsonl                   one line a step
 *   checksums.jsonl                 one line a step: size and SHA-256 of its files (step-checksums.ts)
 *   trajectories/step_N.*           what was said and sampled (trajectory-store.ts)
 *   evaluations/SET/                trajectories of a validation set, laid out as here (evaluation-store.ts)
 *   blobs/                          images by hash
 *   servers/server-PORT.log         what servers printed that the run started
 *   checkpoints/global_step_N/      weights, optimizer, state.json, manifest.json; written beside and renamed
 *   checkpoints/latest              the name of the newest complete one
 *   end.json                        how the run ended (run-end.ts)
 *   status.json                     what the run is doing, while it lives (run-status.ts)
 *   trackers.json                   where the run is in each tracker (trackers/memory.ts)
 *   set-aside/                      batches with a number that was not finite, for `rollcall replay`
 *   discarded/                      what lay past the checkpoint when the run was resumed
 *
 * Every JSON file carries `format`. A torn last line is skipped by every reader. What a step or a checkpoint has written is
 * on the disk before the next begins to depend on it: a power cut takes back the step in progress, and no more.
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
  checksums: join(directory, 'checksums.jsonl'),
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
  await makeFolder(paths.trajectories);
  await makeFolder(paths.checkpoints);
  await rm(paths.checksums, { force: true });
  await writeFileAtomically(paths.metrics, '');
  // Last: a directory with options can be resumed.
  await writeOptions(directory, options);
}

export async function writeOptions(directory: string, options: unknown): Promise<void> {
  await writeFileAtomically(
    runPaths(directory).options,
    `${JSON.stringify({ format: RUN_FORMAT, ...(options as object) }, null, 2)}\n`,
  );
}

export async function appendMetrics(directory: string, line: StepMetrics): Promise<void> {
  await appendDurably(runPaths(directory).metrics, `${JSON.stringify({ format: RUN_FORMAT, ...line })}\n`);
}

export async function readMetrics(directory: string): Promise<StepMetrics[]> {
  return (await readJsonLines(runPaths(directory).metrics)) as StepMetrics[];
}

/**
 * Writes a checkpoint: `fill` puts weights and optimizer into a folder that gets its real name only when it is
 * complete and on the disk. Then `latest` points to it, and all but the newest `keep` are removed. Where `fill` gives false,
 * what it wrote is not whole: it is removed, and the checkpoint before stays the latest.
 */
export async function writeCheckpoint(
  directory: string,
  step: number,
  state: object,
  fill: (folder: string) => Promise<unknown>,
  keep: number,
): Promise<string | undefined> {
  const { checkpoints, latest } = runPaths(directory);
  const name = checkpointName(step);
  const partial = join(checkpoints, `${name}.partial`);
  const final = join(checkpoints, name);
  await rm(partial, { recursive: true, force: true });
  await mkdir(partial, { recursive: true });
  try {
    if ((await fill(partial)) === false) {
      await rm(partial, { recursive: true, force: true });
      return undefined;
    }
    await writeFileAtomically(
      join(partial, 'state.json'),
      `${JSON.stringify({ format: RUN_FORMAT, step, manifest: true, ...state }, null, 2)}\n`,
    );
    await writeManifest(partial);
    await rm(final, { recursive: true, force: true });
    await rename(partial, final);
  } catch (error) {
    await rm(partial, { recursive: true, force: true }).catch(() => {}); // it may be what fills the disk
    throw error;
  }
  await syncFolder(checkpoints);
  await writeFileAtomically(latest, `${name}\n`);
  await removeOldCheckpoints(directory, keep);
  return final;
}

/** Leaves the newest `keep`. */
export async function removeOldCheckpoints(directory: string, keep: number): Promise<number[]> {
  const old = (await listCheckpoints(directory)).slice(0, -keep);
  for (const step of old) {
    await rm(join(runPaths(directory).checkpoints, checkpointName(step)), { recursive: true, force: true });
  }
  return old;
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
  /** Checkpoints that would have been taken before this one, each with what is wrong with it. */
  readonly damaged: readonly string[];
}

/**
 * The checkpoint that `latest` names; if that one is gone or damaged, the newest that is sound; if none, undefined. Every
 * byte is compared with the checksums, unless only sizes are asked for.
 */
export async function readLatestCheckpoint(
  directory: string,
  thoroughness: Thoroughness = 'checksums',
): Promise<Checkpoint | undefined> {
  const { latest } = runPaths(directory);
  const steps = (await listCheckpoints(directory)).reverse();
  const named = await readFile(latest, 'utf8').then(
    (text) => Number(/global_step_(\d+)/.exec(text)?.[1]),
    () => Number.NaN,
  );
  const damaged: string[] = [];
  for (const step of [...steps.filter((one) => one === named), ...steps.filter((one) => one !== named)]) {
    const { faults, path, state } = await checkCheckpoint(directory, step, thoroughness);
    if (faults.length === 0) return { step, path, state, damaged };
    damaged.push(`the checkpoint of step ${step} is damaged: ${faults.join('; ')}`);
  }
  if (damaged.length === 0) return undefined;
  throw new ConfigError(
    `${damaged.join('; ')}; no other is left in ${directory}: restore one from a copy, or delete its folder checkpoints/ to begin again from the first step`,
  );
}

/** What is wrong with a checkpoint; one of an earlier version has no checksums. */
export async function checkCheckpoint(directory: string, step: number, thoroughness: Thoroughness) {
  const path = join(runPaths(directory).checkpoints, checkpointName(step));
  const manifest = await checkManifest(path, thoroughness);
  const faults = manifest === 'none' ? [] : [...manifest.faults];
  let state: Readonly<Record<string, unknown>> = {};
  try {
    state = JSON.parse(await readFile(join(path, 'state.json'), 'utf8')) as Record<string, unknown>;
    if (manifest === 'none' && state['manifest'] === true) faults.push('manifest.json is missing');
    if (state['step'] !== step) faults.push(`state.json is of step ${JSON.stringify(state['step'])}`);
  } catch (error) {
    if (!faults.some((fault) => fault.startsWith('state.json')))
      faults.push(isMissing(error) ? 'state.json is missing' : 'state.json is not JSON');
  }
  const { files = 0, bytes = 0 } = manifest === 'none' ? {} : manifest;
  return { path, state, faults, files, bytes, hasChecksums: manifest !== 'none' };
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
  for (const later of (await listCheckpoints(directory)).filter((one) => one > step)) {
    await mkdir(bin, { recursive: true });
    await rename(join(paths.checkpoints, checkpointName(later)), join(bin, checkpointName(later)));
  }
  // Rewritten even when nothing is past: they may end in a torn line.
  for (const path of [paths.checksums, paths.metrics]) {
    const kept = ((await readJsonLines(path)) as { readonly step: number }[]).filter(
      (line) => line.step <= step,
    );
    await writeFileAtomically(path, toLines(kept));
  }
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
