import { readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { ConfigError } from '../errors.ts';
import { makeFolder } from '../lib/files.ts';

interface Owner {
  readonly pid: number;
  readonly host: string;
  /** When the process began, since which start of the machine; undefined where that cannot be seen. */
  readonly began?: string | undefined;
}

/** Run directories that this process holds. */
const held = new Set<string>();

/** One run writes a directory at a time: two would mix their lines. What a killed process left behind does not count. */
export async function lockRun(directory: string): Promise<{ close(): Promise<void> }> {
  const path = resolve(directory, 'lock');
  await makeFolder(directory);
  for (;;) {
    try {
      await writeFile(path, JSON.stringify(await self()), { flag: 'wx' });
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
    if (owner && (await isAlive(owner, path))) {
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
  return owner && { ...owner, alive: owner.host === hostname() ? await isAlive(owner, path) : undefined };
}

async function self(): Promise<Owner> {
  return { pid: process.pid, host: hostname(), began: await beginOf(process.pid) };
}

/** A number of a process is given again, soonest after a power cut; when it began tells one from the other. */
async function beginOf(pid: number): Promise<string | undefined> {
  try {
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8');
    const [, after = ''] = /^.*\) (.*)$/s.exec(await readFile(`/proc/${pid}/stat`, 'utf8')) ?? [];
    return `${after.split(' ')[19]} after boot ${boot.trim()}`;
  } catch {
    return undefined;
  }
}

async function readOwner(path: string): Promise<Owner | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Owner;
  } catch {
    return undefined; // gone meanwhile, or cut when its machine went down
  }
}

async function isAlive({ pid, host, began }: Owner, path: string): Promise<boolean> {
  if (host !== hostname()) return false; // cannot be checked from this machine
  if (pid === process.pid) return held.has(path);
  try {
    process.kill(pid, 0);
    return began === undefined || began === (await beginOf(pid));
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
