import { deflateRawSync } from 'node:zlib';
import { unzip } from '../../../src/dataset/prepare/unzip.ts';
import type { FuzzTarget } from '../target.ts';
import { temporaryFile } from '../temporary-file.ts';

const write = temporaryFile('x.zip');

interface Part {
  readonly name: string;
  readonly content: Buffer;
  readonly method: 0 | 8;
}

/** An archive as APPNOTE.TXT describes it, without checksums. */
export function zipOf(parts: readonly Part[]): Buffer {
  const locals: Buffer[] = [];
  const entries: Buffer[] = [];
  let at = 0;
  for (const { name, content, method } of parts) {
    const packed = method === 8 ? deflateRawSync(content) : content;
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(method, 8);
    local.writeUInt16LE(name.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(method, 10);
    entry.writeUInt32LE(packed.length, 20);
    entry.writeUInt32LE(content.length, 24);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt32LE(at, 42);
    locals.push(local, Buffer.from(name), packed);
    entries.push(entry, Buffer.from(name));
    at += 30 + name.length + packed.length;
  }
  const directory = Buffer.concat(entries);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(parts.length, 8);
  end.writeUInt16LE(parts.length, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...locals, directory, end]);
}

/** A zip archive of a dataset's preparation: every file in it. */
export const target: FuzzTarget = {
  name: 'zip',
  seeds: () => [
    zipOf([
      { name: 'a.json', content: Buffer.from('{"a": 1}'), method: 0 },
      { name: 'b/c.json', content: Buffer.alloc(2000, 'x'), method: 8 },
    ]),
    zipOf([]),
  ],
  words: ['PK\x01\x02', 'PK\x05\x06', '\xff\xff\xff\xff'],
  run: async (bytes) => {
    for await (const file of unzip(write(bytes))) await file.read();
  },
};
