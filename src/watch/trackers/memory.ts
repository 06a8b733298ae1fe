import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, writeFileAtomically } from '../../lib/files.ts';
import { RUN_FORMAT } from '../run-directory.ts';
import type { TrackerMemory } from '../tracker.ts';

interface MemoryFile {
  readonly format: number;
  readonly trackers: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** `trackers.json` of a run directory: where the run is in each tracker. Writes follow one another. */
export function trackerMemory(directory: string): TrackerMemory {
  const path = join(directory, 'trackers.json');
  let last: Promise<unknown> = Promise.resolve();
  const load = async (): Promise<MemoryFile> => {
    try {
      return JSON.parse(await readFile(path, 'utf8')) as MemoryFile;
    } catch (error) {
      if (isMissing(error)) return { format: RUN_FORMAT, trackers: {} };
      throw error;
    }
  };
  return {
    read: async (key) => (await load()).trackers[key],
    write: (key, value) => {
      const write = last.then(async () => {
        const { trackers } = await load();
        const next: MemoryFile = { format: RUN_FORMAT, trackers: { ...trackers, [key]: value } };
        await writeFileAtomically(path, `${JSON.stringify(next, null, 2)}\n`);
      });
      last = write.catch(() => {});
      return write;
    },
  };
}
