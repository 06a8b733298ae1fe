import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetSource } from '../../../src/dataset/parquet.ts';
import { writeParquet } from '../../../src/dataset/write-parquet.ts';
import type { FuzzTarget } from '../target.ts';
import { temporaryFile } from '../temporary-file.ts';

const write = temporaryFile('x.parquet');
const own = join(mkdtempSync(join(tmpdir(), 'rollcall-fuzz-')), 'own.parquet');
await writeParquet(own, [
  { id: 1, text: 'one', flag: true, list: ['a', 'b'], part: { x: 1.5, y: null } },
  { id: 2, text: null, flag: false, list: [], part: { x: -2, y: 'z' } },
]);
const one = join(mkdtempSync(join(tmpdir(), 'rollcall-fuzz-')), 'one.parquet');
await writeParquet(one, [{ a: 'x' }]);
const fixture = (name: string) => new URL(`../../../test/data/${name}`, import.meta.url);
const MOST_ROWS = 200;

/** A parquet file, each of its rows. */
export const target: FuzzTarget = {
  name: 'parquet',
  seeds: () => [
    readFileSync(one),
    readFileSync(own),
    readFileSync(fixture('pandas-snappy.parquet')),
    readFileSync(fixture('pyarrow-zstd.parquet')),
  ],
  words: ['PAR1', '\x00\x00\x00\x00', '\xff\xff\xff\x7f'],
  run: async (bytes) => {
    const source = await parquetSource(write(bytes));
    try {
      for (let row = 0; row < Math.min(source.count, MOST_ROWS); row++) await source.read(row);
    } finally {
      await source.close();
    }
  },
};
