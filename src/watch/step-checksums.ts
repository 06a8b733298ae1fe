import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Checksum, checksumOf } from '../lib/checksum.ts';
import { appendDurably, readJsonLines } from '../lib/files.ts';
import { RUN_FORMAT, runPaths } from './run-directory.ts';

/** What a step has written: a line of checksums.jsonl. */
export interface StepChecksums {
  readonly step: number;
  /** By path within the run directory. */
  readonly files: Readonly<Record<string, Checksum>>;
}

/** Adds the line of a step whose files are written. */
export async function appendChecksums(directory: string, step: number): Promise<void> {
  const files: Record<string, Checksum> = {};
  for (const name of await filesOfStep(directory, step))
    files[name] = await checksumOf(join(directory, name));
  if (Object.keys(files).length === 0) return;
  const line: StepChecksums & { format: number } = { format: RUN_FORMAT, step, files };
  await appendDurably(runPaths(directory).checksums, `${JSON.stringify(line)}\n`);
}

export async function readChecksums(directory: string): Promise<StepChecksums[]> {
  return (await readJsonLines(runPaths(directory).checksums)) as StepChecksums[];
}

/** Trajectories of training and of evaluations. */
async function filesOfStep(directory: string, step: number): Promise<string[]> {
  const { evaluations } = runPaths(directory);
  const sets = await readdir(evaluations).catch(() => []);
  const folders = ['trajectories', ...sets.sort().map((set) => `evaluations/${set}/trajectories`)];
  const begins = `step_${step}.`;
  const found = await Promise.all(
    folders.map(async (folder) => {
      const names = await readdir(join(directory, folder)).catch(() => []);
      return names
        .filter((name) => name.startsWith(begins) && !name.endsWith('.partial'))
        .sort()
        .map((name) => `${folder}/${name}`);
    }),
  );
  return found.flat();
}
