import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import crc from 'crc-32';
import { expect, test } from 'vitest';
import { unzip } from '../dataset/prepare/unzip.ts';
import { zipOf } from './zip.ts';

test('files come out of the archive as they went in, and the same files are the same bytes', async () => {
  const entries = [
    { name: 'run.yaml', data: Buffer.from('steps: 3\n') },
    { name: 'naïve/empty.txt', data: Buffer.alloc(0) },
    { name: 'big.bin', data: Buffer.from(Array.from({ length: 70_000 }, (_, at) => (at * at) % 251)) },
  ];
  const zip = zipOf(entries);
  expect(zipOf(entries).equals(zip)).toBe(true);
  expect(zip.readUInt32LE(14)).toBe(crc.str('steps: 3\n') >>> 0);
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-zip-'));
  try {
    writeFileSync(join(folder, 'a.zip'), zip);
    const found: { name: string; data: Buffer }[] = [];
    for await (const { name, read } of unzip(join(folder, 'a.zip'))) found.push({ name, data: await read() });
    expect(found).toEqual(entries);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
