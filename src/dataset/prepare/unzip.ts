import { type FileHandle, open } from 'node:fs/promises';
import { inflateRawSync } from 'node:zlib';
import { DatasetError } from '../../errors.ts';

/** Larger than any picture or table of a dataset; a few bytes can unfold to gigabytes. */
const MOST_UNPACKED_BYTES = 256 * 2 ** 20;
const ENTRY_BYTES = 46;
const LOCAL_BYTES = 30;

/** Files of a zip archive, stored or deflated, read one at a time by its central directory. No zip64. */
export async function* unzip(
  path: string,
): AsyncGenerator<{ readonly name: string; read(): Promise<Buffer> }> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const damaged = (what: string) => new DatasetError(`${path}: is not a whole zip archive: ${what}`);
    const bytesAt = async (at: number, length: number, what: string): Promise<Buffer> => {
      if (at + length > size) {
        throw damaged(`${what} is said to be at bytes ${at} to ${at + length}, and there are ${size}`);
      }
      return readWhole(file, at, length);
    };
    const tailLength = Math.min(size, 65_557);
    const tail = await bytesAt(size - tailLength, tailLength, 'its end');
    const end = tail.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
    if (end < 0 || end + 20 > tail.length) throw damaged('it has no central directory');
    const directory = await bytesAt(
      tail.readUInt32LE(end + 16),
      tail.readUInt32LE(end + 12),
      'its central directory',
    );
    let at = 0;
    while (at + ENTRY_BYTES <= directory.length && directory.readUInt32LE(at) === 0x02014b50) {
      const method = directory.readUInt16LE(at + 10);
      const packed = directory.readUInt32LE(at + 20);
      const nameLength = directory.readUInt16LE(at + 28);
      const extra = directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
      const header = directory.readUInt32LE(at + 42);
      const name = directory.toString('utf8', at + ENTRY_BYTES, at + ENTRY_BYTES + nameLength);
      at += ENTRY_BYTES + nameLength + extra;
      yield {
        name,
        read: async () => {
          const local = await bytesAt(header, LOCAL_BYTES, `the head of ${name}`);
          const start = header + LOCAL_BYTES + local.readUInt16LE(26) + local.readUInt16LE(28);
          const bytes = await bytesAt(start, packed, name);
          if (method === 0) return bytes;
          if (method === 8) return inflated(bytes, `${path}: ${name}`);
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

async function readWhole(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(bytes, done, length - done, at + done);
    if (bytesRead === 0) break; // the file was shortened meanwhile
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}

function inflated(bytes: Buffer, name: string): Buffer {
  try {
    return inflateRawSync(bytes, { maxOutputLength: MOST_UNPACKED_BYTES });
  } catch (cause) {
    const isBomb = (cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    const what = isBomb
      ? `unfolds to more than ${MOST_UNPACKED_BYTES / 2 ** 20} MiB`
      : `cannot be unpacked: ${(cause as Error).message}`;
    throw new DatasetError(`${name} ${what}`, { cause });
  }
}
