import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import crc32c from 'crc-32/crc32c.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { flatten } from './flatten.ts';
import { trackerMemory } from './memory.ts';
import { mlflowName } from './mlflow.ts';
import { WANDB_FILE_HEADER, wandbRecord } from './wandb-file.ts';

/** LevelDB's log, read as its documentation says: blocks of 32 KiB, pieces of 7 bytes and data. */
function readRecords(file: Buffer): Buffer[] {
  const records: Buffer[] = [];
  let open: Buffer[] = [];
  for (let at = 7; at < file.length; ) {
    const left = 32_768 - (at % 32_768);
    if (left < 7) {
      at += left;
      continue;
    }
    const [length, kind] = [file.readUInt16LE(at + 4), file[at + 6]!];
    const data = file.subarray(at + 7, at + 7 + length);
    const begins = kind === 1 || kind === 2;
    const sound =
      file.readUInt32LE(at) === crc32(Buffer.concat([Buffer.from([kind]), data])) &&
      7 + length <= left &&
      begins === (open.length === 0);
    if (!sound) throw new Error(`the piece at ${at} is not sound`);
    open.push(data);
    if (kind === 1 || kind === 4) {
      records.push(Buffer.concat(open));
      open = [];
    }
    at += 7 + length;
  }
  return records;
}

test('records of any size come back from the blocks of a W&B file', () => {
  const near = (size: number) => fc.integer({ min: size - 20, max: size + 20 });
  const size = fc.oneof(fc.integer({ min: 1, max: 300 }), near(32_768), near(32_761), near(65_000));
  fc.assert(
    fc.property(fc.array(size, { minLength: 1, maxLength: 12 }), (sizes) => {
      const written = sizes.map((length, at) => Buffer.alloc(length, at + 1));
      let file = Buffer.from(WANDB_FILE_HEADER);
      for (const data of written) file = Buffer.concat([file, wandbRecord(data, file.length)]);
      const read = readRecords(file);
      return read.length === written.length && read.every((data, at) => data.equals(written[at]!));
    }),
    { numRuns: 60 },
  );
});

test("a record has the bytes that W&B's own client (0.31.0) wrote", () => {
  // The last record of an offline run: num 14, its uuid, run id, and an exit record with runtime 1.
  const exit = Buffer.from(
    '080e82010e220c62677635396565686977616fc20c0a0a087769656169336b7a9201021001',
    'hex',
  );
  expect(Buffer.from(wandbRecord(exit, 0x469)).toString('hex')).toBe(`5055c56b250001${exit.toString('hex')}`);
});

test('the checksum of TFRecords is CRC32C: the check value of its specification', () => {
  expect(crc32c.buf(Buffer.from('123456789')) >>> 0).toBe(0xe3069283);
});

test('options are flat, metric names are those that MLflow takes', () => {
  expect(flatten({ a: 1, b: { c: 'x', d: { e: [1, 2] }, f: null }, g: Number.POSITIVE_INFINITY })).toEqual([
    ['a', '1'],
    ['b/c', 'x'],
    ['b/d/e', '[1,2]'],
    ['b/f', 'null'],
    ['g', 'Infinity'],
  ]);
  expect(mlflowName('val-core/a b/reward/mean@8')).toBe('val-core/a b/reward/mean_at_8');
  expect(mlflowName('reward/é(1)')).toBe('reward/__1_');
});

test('what trackers write side by side is remembered', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-memory-'));
  const memory = trackerMemory(directory);
  expect(await memory.read('a')).toBeUndefined();
  await Promise.all(['a', 'b', 'c'].map((key) => memory.write(key, { id: key })));
  expect(await trackerMemory(directory).read('b')).toEqual({ id: 'b' });
  expect(await memory.read('c')).toEqual({ id: 'c' });
});
