import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomically } from '../lib/files.ts';
import { removeOldCheckpoints, runPaths } from './run-directory.ts';
import { readChecksums, type StepChecksums } from './step-checksums.ts';

/** Trajectories of this many steps stay whatever the budget says. */
const STEPS_KEPT = 10;

/**
 * Removes the oldest of a run until it takes no more than `budget` bytes: first what was discarded at a resume, then the
 * trajectories of old steps, then every checkpoint but the newest. Metrics, evaluations and images stay. Tells what it removed.
 */
export async function keepWithin(directory: string, budget: number): Promise<string[]> {
  let bytes = await bytesBelow(directory);
  if (bytes <= budget) return [];
  const removed: string[] = [];
  const { discarded } = runPaths(directory);
  const inDiscarded = await bytesBelow(discarded);
  if (inDiscarded > 0) {
    await rm(discarded, { recursive: true, force: true });
    bytes -= inDiscarded;
    removed.push('discarded steps');
  }
  const steps = await removeSteps(directory, bytes - budget);
  if (steps.length > 0) removed.push(`trajectories of steps ${steps[0]} to ${steps.at(-1)}`);
  bytes = await bytesBelow(directory);
  if (bytes > budget) {
    const old = await removeOldCheckpoints(directory, 1);
    if (old.length > 0) removed.push(`the checkpoints of steps ${old.join(', ')}`);
    bytes = await bytesBelow(directory);
  }
  const what = removed.length > 0 ? `removed ${removed.join(', ')}` : 'nothing could be removed';
  const still = bytes > budget ? `; it still takes ${inGigabytes(bytes)}, and the rest is kept` : '';
  return [
    `the run directory was over its budget of ${inGigabytes(budget)} (disk.gigabytes): ${what}${still}`,
  ];
}

/** Removes the trajectories of the oldest steps until `excess` bytes are gone. */
async function removeSteps(directory: string, excess: number): Promise<number[]> {
  const lines = await readChecksums(directory);
  const own = (files: StepChecksums['files']) =>
    Object.entries(files).filter(([name]) => name.startsWith('trajectories/'));
  const gone: StepChecksums[] = [];
  let left = excess;
  for (const line of lines.slice(0, -STEPS_KEPT)) {
    if (left <= 0) break;
    const files = own(line.files);
    if (files.length === 0) continue;
    gone.push(line);
    left -= files.reduce((sum, [, { bytes }]) => sum + bytes, 0);
  }
  if (gone.length === 0) return [];
  // The lines first: what they do not name is missed by nobody.
  const kept = lines.map((line) => {
    if (!gone.includes(line)) return line;
    const rest = Object.entries(line.files).filter(([name]) => !name.startsWith('trajectories/'));
    return { ...line, files: Object.fromEntries(rest) };
  });
  await writeFileAtomically(
    runPaths(directory).checksums,
    kept.map((line) => `${JSON.stringify(line)}\n`).join(''),
  );
  for (const { files } of gone) {
    for (const [name] of own(files)) await rm(join(directory, name), { force: true });
  }
  return gone.map(({ step }) => step);
}

/** What the files below a folder take. */
export async function bytesBelow(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(
    files.map(({ parentPath, name }) =>
      stat(join(parentPath, name)).then(
        ({ size }) => size,
        () => 0, // gone meanwhile
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

export const inGigabytes = (bytes: number) => `${(bytes / 1e9).toPrecision(2)} GB`;
