import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';

/** Writes beside and renames, so that a reader, or a crash, never meets half a file. */
export async function writeFileAtomically(path: string, data: string | Uint8Array): Promise<void> {
  const beside = `${path}.${randomBytes(4).toString('hex')}.partial`;
  try {
    const file = await open(beside, 'w');
    try {
      await file.writeFile(data);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
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
  const parsed = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as unknown);
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
