import type { DatasetError } from '../errors.ts';

/** A row as a file holds it. */
export type DataRow = Readonly<Record<string, unknown>>;

/** Rows by number. `read` returns at once what is in memory, so that a scan does not wait on every row. */
export interface Source {
  /** For messages: the file. */
  readonly name: string;
  readonly count: number;
  /**
   * First rows of the runs that are decoded together, when decoding one row costs as much as its run.
   * Absent: any row is as cheap as any other.
   */
  readonly runs?: readonly number[];
  /** With `runs`: about how many rows are kept decoded. A shuffle of more rows works in windows of this size. */
  readonly rowsAtHand?: number;
  read(index: number): DataRow | Promise<DataRow>;
  /** `train.parquet, row 17`: what a person would look for. */
  where(index: number): string;
  close(): Promise<void>;
}

/** One bad row, seen and skipped. */
export interface BadRow {
  readonly index: number;
  readonly error: DatasetError;
}

export function arraySource(rows: readonly DataRow[], name = 'array'): Source {
  return {
    name,
    count: rows.length,
    read: (index) => rows[index]!,
    where: (index) => `${name}, row ${index}`,
    close: async () => {},
  };
}

/** Several files one after another, numbered through. */
export function joinSources(sources: readonly Source[]): Source {
  if (sources.length === 1) return sources[0]!;
  const starts: number[] = [];
  let count = 0;
  for (const source of sources) {
    starts.push(count);
    count += source.count;
  }
  const locate = (index: number): [Source, number] => {
    let which = starts.length - 1;
    while (starts[which]! > index) which--;
    return [sources[which]!, index - starts[which]!];
  };
  const hasRuns = sources.some((source) => source.runs);
  return {
    name: sources.map((source) => source.name).join(', '),
    count,
    ...(hasRuns && {
      runs: sources.flatMap((source, which) => (source.runs ?? [0]).map((start) => start + starts[which]!)),
      // Each file has its own memory, so only the smallest is certain to be in memory.
      rowsAtHand: Math.min(...sources.map((source) => source.rowsAtHand ?? Number.POSITIVE_INFINITY)),
    }),
    read: (index) => {
      const [source, inside] = locate(index);
      return source.read(inside);
    },
    where: (index) => {
      const [source, inside] = locate(index);
      return source.where(inside);
    },
    close: async () => {
      await Promise.all(sources.map((source) => source.close()));
    },
  };
}
