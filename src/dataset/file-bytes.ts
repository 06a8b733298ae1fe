import { close, fstat, open, read } from 'node:fs';
import { promisify } from 'node:util';
import { DatasetError } from '../errors.ts';

/**
 * Bytes of a file by offset. A plain descriptor, not a FileHandle: a dataset that nobody closes stays open until the
 * process ends, and Node complains about handles that are collected open.
 */
export interface FileBytes {
  readonly size: number;
  /** Up to `length` bytes from `at`; fewer only at the end of the file. */
  read(at: number, length: number): Promise<Buffer>;
  close(): Promise<void>;
}

const openFile = promisify(open);
const statFile = promisify(fstat);
const readFile = promisify(read);
const closeFile = promisify(close);

export async function openBytes(path: string): Promise<FileBytes> {
  try {
    const file = await openFile(path, 'r');
    const { size } = await statFile(file);
    return {
      size,
      read: async (at, length) => {
        const wanted = Math.max(Math.min(length, size - at), 0);
        const bytes = Buffer.from(new ArrayBuffer(wanted));
        let filled = 0;
        while (filled < wanted) {
          const { bytesRead } = await readFile(file, bytes, filled, wanted - filled, at + filled);
          if (bytesRead === 0) break;
          filled += bytesRead;
        }
        return filled === wanted ? bytes : bytes.subarray(0, filled);
      },
      close: () => closeFile(file),
    };
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    throw new DatasetError(`${path}: cannot be opened: ${code ?? message}`, { cause });
  }
}
