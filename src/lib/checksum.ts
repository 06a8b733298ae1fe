import { stat } from 'node:fs/promises';
import type { FileToHash } from './checksum-worker.ts';
import { type Checksum, hashFile } from './hash-file.ts';
import { startWorker } from './worker.ts';
import { type WorkerPool, workerPool } from './worker-pool.ts';

export type { Checksum } from './hash-file.ts';

/** From this size on a thread of its own hashes a file: a gigabyte takes a second, in which the run must answer. */
const LARGE_BYTES = 64 << 20;
/** Threads for large files, such as the parts of a checkpoint. */
const THREADS = 4;
let threads: WorkerPool | undefined;

/** Reads a file once. With `sync` its bytes are on the disk when this resolves. */
export async function checksumOf(
  path: string,
  { sync = false }: { readonly sync?: boolean } = {},
): Promise<Checksum> {
  const { size } = await stat(path);
  if (size < LARGE_BYTES) return hashFile(path, sync);
  threads ??= workerPool(() => startWorker('./checksum-worker', import.meta.url), THREADS);
  return threads.ask<Checksum>({ path, sync } satisfies FileToHash, {});
}

/** What is wrong with a file, or undefined. */
export async function differsFrom(path: string, { bytes, sha256 }: Checksum): Promise<string | undefined> {
  const found = await checksumOf(path).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error)
    return found.code === 'ENOENT' ? 'is missing' : `cannot be read: ${found.message}`;
  if (found.bytes !== bytes) return `has ${found.bytes} bytes where ${bytes} were written`;
  return found.sha256 === sha256 ? undefined : 'has other bytes than were written (its SHA-256 differs)';
}
