import { createHash } from 'node:crypto';
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checksumOf, differsFrom } from './checksum.ts';

test('a large file, which threads hash, has the checksum of its bytes', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-checksum-'));
  try {
    const bytes = (64 << 20) + 5;
    const paths = ['a', 'b', 'c'].map((name) => join(folder, name));
    for (const path of paths) {
      await writeFile(path, path);
      await truncate(path, bytes);
    }
    const checksums = await Promise.all(paths.map((path) => checksumOf(path, { sync: true })));
    for (const [at, path] of paths.entries()) {
      const whole = Buffer.alloc(bytes);
      whole.write(path);
      expect(checksums[at]).toEqual({ bytes, sha256: createHash('sha256').update(whole).digest('hex') });
    }
    expect(await differsFrom(paths[0]!, checksums[0]!)).toBeUndefined();
    expect(await differsFrom(paths[0]!, checksums[1]!)).toMatch(/SHA-256 differs/);
    expect(await differsFrom(join(folder, 'none'), checksums[0]!)).toBe('is missing');
  } finally {
    await rm(folder, { recursive: true });
  }
});
