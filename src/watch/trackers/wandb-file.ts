import { crc32 } from 'node:zlib';

/**
 * The log that W&B's own client writes and `wandb sync` reads: LevelDB's log format with another header. Blocks
 * of 32 KiB; a record that does not fit is cut into pieces, each with checksum, length and kind.
 */
const BLOCK_BYTES = 32_768;
const PIECE_HEADER_BYTES = 7;
const FULL = 1;
const FIRST = 2;
const MIDDLE = 3;
const LAST = 4;

/** ":W&B", the magic number 0xBEE1, version 0. */
export const WANDB_FILE_HEADER: Uint8Array = Buffer.from([0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0x00]);

/** The record's bytes at `offset` of the file. */
export function wandbRecord(data: Uint8Array, offset: number): Uint8Array {
  const out: Buffer[] = [];
  let at = offset;
  let done = 0;
  for (let pieces = 0; pieces === 0 || done < data.length; ) {
    const left = BLOCK_BYTES - (at % BLOCK_BYTES);
    if (left < PIECE_HEADER_BYTES) {
      out.push(Buffer.alloc(left));
      at += left;
      continue;
    }
    const size = Math.min(data.length - done, left - PIECE_HEADER_BYTES);
    const kind = kindOf(pieces === 0, done + size === data.length);
    out.push(pieceOf(data.subarray(done, done + size), kind));
    at += PIECE_HEADER_BYTES + size;
    done += size;
    pieces++;
  }
  return Buffer.concat(out);
}

function kindOf(isFirst: boolean, isLast: boolean): number {
  if (isFirst) return isLast ? FULL : FIRST;
  return isLast ? LAST : MIDDLE;
}

function pieceOf(data: Uint8Array, kind: number): Buffer {
  const header = Buffer.alloc(PIECE_HEADER_BYTES);
  header.writeUInt32LE(crc32(data, crc32(Buffer.from([kind]))), 0);
  header.writeUInt16LE(data.length, 4);
  header.writeUInt8(kind, 6);
  return Buffer.concat([header, data]);
}
