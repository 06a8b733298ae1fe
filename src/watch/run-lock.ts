import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { ConfigError } from '../errors.ts';

interface Owner {
  readonly pid: number;
  readonly host: string;
}

/** Run directories that this process holds. */
const held = new Set<string>();

/** One run writes a directory at a time: two would mix their lines. What a killed process left behind does not count. */
export async function lockRun(directory: string): Promise<{ close(): Promise<void> }> {
  const path = resolve(directory, 'lock');
  await mkdir(directory, { recursive: true });
  for (;;) {
    try {
      await writeFile(path, JSON.stringify({ pid: process.pid, host: hostname() }), { flag: 'wx' });
      held.add(path);
      return {
        close: async () => {
          held.delete(path);
          await rm(path, { force: true });
        },
      };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const owner = await readOwner(path);
    if (owner && isAlive(owner, path)) {
      throw new ConfigError(
        `${directory} is in use by process ${owner.pid}; wait until it has ended, or choose another runDir (if that process is ` +
          `something else, delete ${join(directory, 'lock')})`,
      );
    }
    await rm(path, { force: true });
  }
}

/** Which process writes the run, and whether it lives; undefined where that cannot be seen from this machine. */
export async function runOwner(
  directory: string,
): Promise<{ readonly pid: number; readonly host: string; readonly alive: boolean | undefined } | undefined> {
  const path = resolve(directory, 'lock');
  const owner = await readOwner(path);
  return owner && { ...owner, alive: owner.host === hostname() ? isAlive(owner, path) : undefined };
}

async function readOwner(path: string): Promise<Owner | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Owner;
  } catch {
    return undefined; // gone meanwhile, or cut when its machine went down
  }
}

function isAlive({ pid, host }: Owner, path: string): boolean {
  if (host !== hostname()) return false; // cannot be checked from this machine
  if (pid === process.pid) return held.has(path);
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
