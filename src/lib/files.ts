import { randomBytes } from 'node:crypto';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { DatasetError } from '../errors.ts';

/**
 * Writes beside and renames, so that a reader, a crash or a power cut never meets half a file: the bytes are on the disk
 * before the name is, and the name is when this resolves.
 */
export async function writeFileAtomically(path: string, data: string | Uint8Array): Promise<void> {
  await writeFilesAtomically(dirname(path), { [basename(path)]: data });
}

/** Several files of one folder. A power cut may leave some of them, each whole. */
export async function writeFilesAtomically(
  folder: string,
  files: Readonly<Record<string, string | Uint8Array>>,
): Promise<void> {
  await Promise.all(
    Object.entries(files).map(([name, data]) => replaceFile(join(folder, name), data, { sync: true })),
  );
  await syncFolder(folder);
}

/** Writes beside and renames; without `sync` a power cut may take it back, or leave an empty file. */
export async function replaceFile(
  path: string,
  data: string | Uint8Array,
  { sync = false }: { readonly sync?: boolean } = {},
): Promise<void> {
  const beside = `${path}.${randomBytes(4).toString('hex')}.partial`;
  try {
    const file = await open(beside, 'w');
    try {
      await file.writeFile(data);
      if (sync) await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true }).catch(() => {}); // what went wrong first is told
    throw error;
  }
}

/** Adds to the end of a file, on the disk when this resolves. Where that fails, nothing is added. */
export async function appendDurably(path: string, data: string): Promise<void> {
  const file = await open(path, 'a');
  try {
    const { size } = await file.stat();
    try {
      await file.writeFile(data);
      await file.datasync();
      if (size === 0) await syncFolder(dirname(path)); // it may be new
    } catch (error) {
      await file.truncate(size).catch(() => {}); // a reader skips the torn line
      throw error;
    }
  } finally {
    await file.close();
  }
}

/** Makes a folder and those above it; their names are on the disk when this resolves. */
export async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true });
  if (first === undefined) return;
  const highest = dirname(resolve(first));
  for (let at = dirname(resolve(folder)); at.length >= highest.length; at = dirname(at)) {
    await syncFolder(at);
    if (at === highest) break;
  }
}

/** What file systems answer that have no such thing as the sync of a folder. */
const NO_FOLDER_SYNC = [
  'EINVAL',
  'ENOTSUP',
  'EISDIR',
  'EBADF',
  ...(process.platform === 'win32' ? ['EPERM'] : []),
];

/** Puts the names in a folder on the disk: without it a power cut may take back what was made or renamed there. */
export async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (!NO_FOLDER_SYNC.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

/** Parsed lines of a JSONL file that may still be growing or may have been cut: a torn last line is skipped. */
export async function readJsonLines(path: string): Promise<unknown[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
  const lines = text.split('\n');
  const torn = lines.pop(); // '' after a complete last line
  const parsed = lines.flatMap((line, at) => {
    if (line === '') return [];
    try {
      return [JSON.parse(line) as unknown];
    } catch (cause) {
      const shown = line.length > 60 ? `${line.slice(0, 60)}…` : line;
      throw new DatasetError(
        `${path}, line ${at + 1} is not JSON: ${JSON.stringify(shown)}; the file is damaged`,
        {
          cause,
        },
      );
    }
  });
  if (torn) {
    try {
      parsed.push(JSON.parse(torn));
    } catch {
      // Written when the writer died; its step is repeated on resume.
    }
  }
  return parsed;
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** Whether an error says that a disk, or a user's share of it, is full; also one that came from a worker as text. */
export function isDiskFull(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (/\b(ENOSPC|EDQUOT)\b|no space left/i.test(`${(at as NodeJS.ErrnoException).code} ${at.message}`))
      return true;
  }
  return false;
}
