import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Writes inputs into one file, in memory where the machine has such a folder. */
export function temporaryFile(name: string): (bytes: Uint8Array) => string {
  const path = join(
    mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'rollcall-fuzz-')),
    name,
  );
  return (bytes) => {
    writeFileSync(path, bytes);
    return path;
  };
}
