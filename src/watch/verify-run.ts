import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { checksumOf, differsFrom } from '../lib/checksum.ts';
import { messageOf } from '../lib/error-message.ts';
import { readJsonLines } from '../lib/files.ts';
import { listEvaluations } from './evaluation-store.ts';
import { checkCheckpoint, listCheckpoints, runPaths, type StepMetrics } from './run-directory.ts';
import { readChecksums } from './step-checksums.ts';
import { listSteps, readStepIndex, readTrajectory } from './trajectory-store.ts';

/** What was looked at of one kind, what is wrong, and what is worth knowing and harmless. */
export interface Verified {
  readonly part:
    | 'options'
    | 'metrics'
    | 'checksums'
    | 'trajectories'
    | 'evaluations'
    | 'images'
    | 'checkpoints';
  /** How many of them. */
  readonly count: number;
  readonly faults: readonly string[];
  readonly notes: readonly string[];
}

/** Reads everything in a run directory and compares it with its checksums and with one another. Changes nothing. */
export async function verifyRun(directory: string): Promise<Verified[]> {
  const metrics = await verifyMetrics(directory);
  const done = metrics.steps.at(-1) ?? -1;
  return [
    await verifyOptions(directory),
    metrics.verified,
    await verifyChecksums(directory, metrics.steps),
    await verifyTrajectories('trajectories', [directory], done),
    await verifyTrajectories('evaluations', await listEvaluations(directory), done),
    await verifyImages(directory),
    await verifyCheckpoints(directory, done),
  ];
}

async function verifyOptions(directory: string): Promise<Verified> {
  const faults = await faultsOf('options.json', async () => {
    JSON.parse(await readFile(runPaths(directory).options, 'utf8'));
  });
  return { part: 'options', count: 1, faults, notes: [] };
}

async function verifyMetrics(directory: string) {
  const path = runPaths(directory).metrics;
  const steps: number[] = [];
  const notes: string[] = [];
  const faults = await faultsOf('metrics.jsonl', async () => {
    const lines = (await readJsonLines(path)) as StepMetrics[];
    steps.push(...lines.map(({ step }) => step));
    if (!(await readFile(path, 'utf8').catch(() => '\n')).endsWith('\n') && lines.length > 0)
      notes.push('the last line was cut; a resumed run repeats its step');
  });
  for (const [at, step] of steps.entries()) {
    if (!Number.isSafeInteger(step) || (at > 0 && step !== steps[at - 1]! + 1))
      faults.push(`metrics.jsonl, line ${at + 1} is of step ${step}, after step ${steps[at - 1] ?? 'none'}`);
  }
  const verified: Verified = { part: 'metrics', count: steps.length, faults, notes };
  return { steps, verified };
}

async function verifyChecksums(directory: string, steps: readonly number[]): Promise<Verified> {
  const lines = new Map<number, Readonly<Record<string, { bytes: number; sha256: string }>>>();
  const faults = await faultsOf('checksums.jsonl', async () => {
    for (const { step, files } of await readChecksums(directory)) lines.set(step, files);
  });
  let count = 0;
  for (const files of lines.values()) {
    for (const [name, checksum] of Object.entries(files)) {
      count++;
      const fault = await differsFrom(join(directory, name), checksum);
      if (fault !== undefined) faults.push(`${name} ${fault}`);
    }
  }
  const without = steps.filter((step) => step > 0 && !lines.has(step));
  const notes =
    without.length > 0 && faults.length === 0
      ? [`${without.length} steps have no checksums: ${span(without)}`]
      : [];
  return { part: 'checksums', count, faults, notes };
}

/** Every trajectory is read, and is what its index says. */
async function verifyTrajectories(
  part: 'trajectories' | 'evaluations',
  folders: readonly string[],
  done: number,
): Promise<Verified> {
  let count = 0;
  const faults: string[] = [];
  const notes: string[] = [];
  for (const folder of folders) {
    const set = part === 'evaluations' ? `${basename(folder)}, ` : '';
    for (const step of await listSteps(folder)) {
      if (step > done) {
        notes.push(`${set}step ${step} is not in metrics.jsonl: it was in progress`);
        continue;
      }
      const where = `${set}step ${step}`;
      faults.push(
        ...(await faultsOf(where, async () => {
          const { trajectories } = await readStepIndex(folder, step);
          for (const entry of trajectories) {
            const { trajectory, segments } = await readTrajectory(folder, step, entry);
            const tokens = segments.reduce((sum, { ids }) => sum + ids.length, 0);
            if (trajectory.id !== entry.id) throw new Error(`${entry.id} has the line of ${trajectory.id}`);
            if (trajectory.reward !== entry.reward || tokens !== entry.tokens)
              throw new Error(`the index and the line of ${entry.id} differ`);
            count++;
          }
        })),
      );
    }
  }
  return { part, count, faults, notes };
}

/** An image's name is the SHA-256 of its bytes. */
async function verifyImages(directory: string): Promise<Verified> {
  const { blobs } = runPaths(directory);
  const names = (await readdir(blobs).catch(() => [])).filter((name) => /^[\da-f]{64}$/.test(name));
  const faults: string[] = [];
  for (const name of names) {
    const { sha256 } = await checksumOf(join(blobs, name)).catch(() => ({ sha256: '' }));
    if (sha256 !== name) faults.push(`blobs/${name} has other bytes than were written`);
  }
  return { part: 'images', count: names.length, faults, notes: [] };
}

async function verifyCheckpoints(directory: string, done: number): Promise<Verified> {
  const steps = await listCheckpoints(directory);
  const { checkpoints, latest } = runPaths(directory);
  const faults: string[] = [];
  const notes: string[] = [];
  for (const step of steps) {
    const found = await checkCheckpoint(directory, step, 'checksums');
    faults.push(...found.faults.map((fault) => `step ${step}: ${fault}`));
    if (!found.hasChecksums && found.faults.length === 0)
      notes.push(`step ${step} has no checksums: an earlier version wrote it`);
    if (step > done) faults.push(`step ${step}: metrics.jsonl ends with step ${done}`);
  }
  const named = existsSync(latest) ? (await readFile(latest, 'utf8')).trim() : undefined;
  if (steps.length > 0 && !steps.some((step) => `global_step_${step}` === named))
    faults.push(`${relative(directory, latest)} names ${named ?? 'nothing'}, which is not there`);
  const partial = (await readdir(checkpoints).catch(() => [])).filter((name) => name.endsWith('.partial'));
  notes.push(...partial.map((name) => `${name} was being written when the run ended; it does no harm`));
  return { part: 'checkpoints', count: steps.length, faults, notes };
}

async function faultsOf(what: string, read: () => Promise<void>): Promise<string[]> {
  try {
    await read();
    return [];
  } catch (error) {
    return [`${what}: ${messageOf(error)}`];
  }
}

const span = (steps: readonly number[]) =>
  steps.length === 1 ? `step ${steps[0]}` : `from ${steps[0]} to ${steps.at(-1)}`;
