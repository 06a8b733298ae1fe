import { open } from 'node:fs/promises';
import { inflateRawSync } from 'node:zlib';
import { DatasetError } from '../../errors.ts';

/** Files of a zip archive, stored or deflated, read one at a time by its central directory. No zip64. */
export async function* unzip(
  path: string,
): AsyncGenerator<{ readonly name: string; read(): Promise<Buffer> }> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const tail = Buffer.alloc(Math.min(size, 65_557));
    await file.read(tail, 0, tail.length, size - tail.length);
    const end = tail.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
    if (end < 0) throw new DatasetError(`${path}: is not a whole zip archive: it has no central directory`);
    const directory = Buffer.alloc(tail.readUInt32LE(end + 12));
    await file.read(directory, 0, directory.length, tail.readUInt32LE(end + 16));
    let at = 0;
    while (at < directory.length && directory.readUInt32LE(at) === 0x02014b50) {
      const method = directory.readUInt16LE(at + 10);
      const packed = directory.readUInt32LE(at + 20);
      const nameLength = directory.readUInt16LE(at + 28);
      const extra = directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
      const header = directory.readUInt32LE(at + 42);
      const name = directory.toString('utf8', at + 46, at + 46 + nameLength);
      at += 46 + nameLength + extra;
      yield {
        name,
        read: async () => {
          const local = Buffer.alloc(30);
          await file.read(local, 0, 30, header);
          const start = header + 30 + local.readUInt16LE(26) + local.readUInt16LE(28);
          const bytes = Buffer.alloc(packed);
          await file.read(bytes, 0, packed, start);
          if (method === 0) return bytes;
          if (method === 8) return inflateRawSync(bytes);
          throw new DatasetError(
            `${path}: ${name} is packed by method ${method}; only stored and deflated are read`,
          );
        },
      };
    }
  } finally {
    await file.close();
  }
}
