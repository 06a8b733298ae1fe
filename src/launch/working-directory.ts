/** The files that travel with a run: those of the working directory that git does not ignore. */
import { execFileSync } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { ConfigError } from '../errors.ts';
import type { ZipEntry } from './zip.ts';

/** Ray keeps a package in the memory of its head. */
const MOST_BYTES = 100 * 2 ** 20;
const LEFT_OUT = new Set(['.git', 'node_modules', 'runs']);

export function filesBelow(directory: string): ZipEntry[] {
  const files = (listedByGit(directory) ?? walk(directory, directory)).sort();
  let bytes = 0;
  const entries = files.flatMap((name) => {
    const path = join(directory, name);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (!stat?.isFile()) return []; // a link, or deleted since
    bytes += stat.size;
    if (bytes > MOST_BYTES) {
      throw new ConfigError(
        `${directory} has more than ${MOST_BYTES / 2 ** 20} MiB of files that git does not ignore (at ${name}); put data on the cluster's disk, or choose a smaller --working-dir`,
      );
    }
    return [{ name, data: readFileSync(path), executable: (stat.mode & 0o100) !== 0 }];
  });
  return entries;
}

function listedByGit(directory: string): string[] | undefined {
  try {
    const words = ['-C', directory, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'];
    const listed = execFileSync('git', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return listed.split('\0').filter(Boolean);
  } catch {
    return undefined; // no git, or no repository
  }
}

function walk(root: string, directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return LEFT_OUT.has(entry.name) ? [] : walk(root, path);
    return [relative(root, path).split(sep).join('/')];
  });
}
