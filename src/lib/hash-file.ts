import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';

/** What a file must be: its size, and the SHA-256 of its bytes, as `sha256sum` prints it. */
export interface Checksum {
  readonly bytes: number;
  readonly sha256: string;
}

/** Few enough that hashing them does not hold up others, and enough that reading is not slow. */
const BYTES_AT_ONCE = 1 << 20;

/** Reads a file once, in this thread. */
export async function hashFile(path: string, sync: boolean): Promise<Checksum> {
  const file = await open(path, 'r');
  try {
    if (sync) await file.sync();
    const hash = createHash('sha256');
    const { size } = await file.stat();
    const buffer = Buffer.allocUnsafe(Math.max(1, Math.min(size, BYTES_AT_ONCE)));
    let bytes = 0;
    while (bytes < size) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, bytes);
      if (bytesRead === 0) break;
      hash.update(buffer.subarray(0, bytesRead));
      bytes += bytesRead;
    }
    return { bytes, sha256: hash.digest('hex') };
  } finally {
    await file.close();
  }
}
