import { deflateRawSync } from 'node:zlib';
import { unzip } from '../../../src/dataset/prepare/unzip.ts';
import type { FuzzTarget } from '../target.ts';
import { temporaryFile } from '../temporary-file.ts';
import { zipOf } from '../zip-of.ts';

const write = temporaryFile('x.zip');

/** A zip archive of a dataset's preparation: every file in it. */
export const target: FuzzTarget = {
  name: 'zip',
  seeds: () => [
    zipOf([
      { name: 'a.json', packed: Buffer.from('{"a": 1}'), method: 0 },
      { name: 'b/c.json', packed: deflateRawSync(Buffer.alloc(2000, 'x')), method: 8 },
    ]),
    zipOf([]),
  ],
  words: ['PK\x01\x02', 'PK\x05\x06', '\xff\xff\xff\xff'],
  run: async (bytes) => {
    for await (const file of unzip(write(bytes))) await file.read();
  },
};
