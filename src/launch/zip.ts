/** A zip archive as a cluster takes it: no dates, so that the same files are the same bytes and are uploaded once. */
import { deflateRawSync } from 'node:zlib';
import crc from 'crc-32';

export interface ZipEntry {
  /** With `/` between folders. */
  readonly name: string;
  readonly data: Uint8Array;
  readonly executable?: boolean;
}

const DEFLATED = 8;
const NAMES_ARE_UTF8 = 1 << 11;
/** 1 January 1980: the earliest that the format knows. */
const NO_DATE = 0x21;
const UNIX = 3 << 8;

export function zipOf(entries: readonly ZipEntry[]): Buffer {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const { name, data, executable = false } of entries) {
    const bytes = Buffer.from(name);
    const packed = deflateRawSync(data);
    const shared = Buffer.alloc(26);
    shared.writeUInt16LE(20, 0);
    shared.writeUInt16LE(NAMES_ARE_UTF8, 2);
    shared.writeUInt16LE(DEFLATED, 4);
    shared.writeUInt16LE(NO_DATE, 8);
    shared.writeUInt32LE(crc.buf(data) >>> 0, 10);
    shared.writeUInt32LE(packed.length, 14);
    shared.writeUInt32LE(data.length, 18);
    shared.writeUInt16LE(bytes.length, 22);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(((0o100000 | (executable ? 0o755 : 0o644)) << 16) >>> 0, 6);
    rest.writeUInt32LE(at, 10);
    files.push(mark(0x04034b50), shared, bytes, packed);
    directory.push(mark(0x02014b50), madeBy(), shared, rest, bytes);
    at += 30 + bytes.length + packed.length;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(listed.length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...files, listed, mark(0x06054b50), end]);
}

function mark(signature: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(signature);
  return bytes;
}

function madeBy(): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(UNIX | 20);
  return bytes;
}
