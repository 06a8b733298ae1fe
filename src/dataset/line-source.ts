import { type FileBytes, openBytes } from './file-bytes.ts';
import type { DataRow, Source } from './source.ts';

/** A text file cut into records; only the byte offset of each is kept. */
export interface RecordIndex {
  /** Byte offsets: record i lies in [starts[i], ends[i]). */
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  /** 1-based line on which record i starts. */
  readonly lines: Float64Array;
}

const SCAN_BYTES = 1 << 20;
const READ_AHEAD_BYTES = 1 << 18;

/**
 * Finds the records of a file in one pass. A newline ends a record; where `quoted`, not inside double quotes (CSV).
 * Blank lines are not records.
 */
async function indexRecords(file: FileBytes, quoted: boolean): Promise<RecordIndex> {
  const starts: number[] = [];
  const ends: number[] = [];
  const lines: number[] = [];
  let at = 0;
  let start = 0;
  let line = 1;
  let startLine = 1;
  let blank = true;
  let inQuotes = false;
  const finish = (end: number) => {
    if (!blank) {
      starts.push(start);
      ends.push(end);
      lines.push(startLine);
    }
    start = end + 1;
    startLine = line;
    blank = true;
  };
  for (;;) {
    const chunk = await file.read(at, SCAN_BYTES);
    if (chunk.length === 0) break;
    for (let byte = 0; byte < chunk.length; byte++) {
      const code = chunk[byte]!;
      if (code === 0x0a) {
        line++;
        if (!inQuotes) finish(at + byte);
      } else if (blank && code !== 0x20 && code !== 0x09 && code !== 0x0d) {
        blank = false;
        if (quoted && code === 0x22) inQuotes = true;
      } else if (quoted && code === 0x22) inQuotes = !inQuotes;
    }
    at += chunk.length;
  }
  finish(at);
  return {
    starts: Float64Array.from(starts),
    ends: Float64Array.from(ends),
    lines: Float64Array.from(lines),
  };
}

/** Rows of a file of which each is one record of text, read by offset and parsed when asked for. */
export async function recordSource(
  path: string,
  options: {
    readonly quoted: boolean;
    /** Records before the first row (a CSV header), given to `parser`. */
    readonly header: number;
    parser(header: readonly string[]): (text: string, where: string) => DataRow;
  },
): Promise<Source> {
  const file = await openBytes(path);
  const { starts, ends, lines } = await indexRecords(file, options.quoted);
  let ahead: Buffer = Buffer.alloc(0);
  let aheadAt = 0;
  let last = -2;

  const textOf = (record: number): string | undefined => {
    const from = starts[record]! - aheadAt;
    const to = ends[record]! - aheadAt;
    return from >= 0 && to <= ahead.length ? ahead.toString('utf8', from, to) : undefined;
  };
  const load = async (record: number, sequential: boolean): Promise<string> => {
    const from = starts[record]!;
    const length = ends[record]! - from;
    const read = await file.read(from, sequential ? Math.max(length, READ_AHEAD_BYTES) : length);
    if (sequential) {
      ahead = read;
      aheadAt = from;
    }
    return read.toString('utf8', 0, length);
  };

  const where = (row: number) => `${path}:${lines[row + options.header] ?? '?'} (row ${row})`;
  const header: string[] = [];
  for (let record = 0; record < Math.min(options.header, starts.length); record++) {
    header.push(await load(record, false));
  }
  const parse = options.parser(header);
  return {
    name: path,
    count: Math.max(starts.length - options.header, 0),
    read: (row) => {
      const record = row + options.header;
      const sequential = record === last + 1;
      last = record;
      const text = textOf(record);
      if (text !== undefined) return parse(text, where(row));
      return load(record, sequential).then((loaded) => parse(loaded, where(row)));
    },
    where,
    close: () => file.close(),
  };
}
