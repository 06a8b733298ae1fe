import { DatasetError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';
import { permutation } from './permutation.ts';
import { arraySource, type BadRow, type DataRow, type Source } from './source.ts';

/** One row on its way through `rows()`. */
export interface DatasetItem<T> {
  /** The row's number in its files: its name in seeds, logs and links, whatever the order. */
  readonly index: number;
  readonly row: T;
  /** Give this to `rows()` to continue after this row. */
  readonly next: number;
}

/**
 * Rows in an order. The order is a list of row numbers, so a position in it is one integer, reading goes on at any
 * position in exactly the same order, and only the current row is in memory.
 */
export interface Dataset<T> {
  readonly name: string;
  readonly length: number;
  /** Row at a place of the order. */
  at(place: number): Promise<T>;
  /** The file's row number at a place of the order. */
  indexAt(place: number): number;
  /** From a position (default 0) to the end. With `skipBad`, bad rows are passed over and counted in `bad`. */
  rows(position?: number): AsyncGenerator<DatasetItem<T>, void, undefined>;
  /** The places of this dataset in a random order: what `shuffle` uses. */
  permutation(seed: number): Int32Array;
  shuffle(seed: number): Dataset<T>;
  take(count: number): Dataset<T>;
  /** Lazy: `change` runs when a row is read. A throw is a bad row. */
  map<U>(change: (row: T, index: number) => U | Promise<U>): Dataset<U>;
  /** Reads every row once, here and now: afterwards the length is known and any order is exact. */
  filter(keep: (row: T, index: number) => boolean | Promise<boolean>): Promise<Dataset<T>>;
  /** The rows whose places are given, in that order. */
  select(places: Int32Array): Dataset<T>;
  /** Bad rows passed over so far by `rows()`, `filter()`. */
  readonly bad: readonly BadRow[];
  close(): Promise<void>;
}

/** What is passed from a file that was not type-checked may be anything; an array of rows is what one thinks of first. */
export function isDataset<T>(value: unknown): value is Dataset<T> {
  return typeof (value as { indexAt?: unknown } | null | undefined)?.indexAt === 'function';
}

export interface DatasetOptions {
  /** Pass over rows that cannot be read or changed, instead of throwing at the first. */
  readonly skipBad?: boolean;
}

interface View<T> {
  readonly source: Source;
  /** Absent: the file's own order. */
  readonly order?: Int32Array;
  readonly length: number;
  readonly change: (row: DataRow, index: number) => T | Promise<T>;
  readonly options: DatasetOptions;
  readonly bad: BadRow[];
}

export function datasetOf(source: Source, options: DatasetOptions = {}): Dataset<DataRow> {
  return view({ source, length: source.count, change: (row) => row, options, bad: [] });
}

/** A dataset of rows that are in memory. */
export function arrayDataset<T extends object>(rows: readonly T[], name?: string): Dataset<T> {
  return datasetOf(arraySource(rows as readonly DataRow[], name)) as unknown as Dataset<T>;
}

function view<T>(self: View<T>): Dataset<T> {
  const { source, order, length, options, bad } = self;
  const indexAt = (place: number) => (order ? order[place]! : place);

  const readAt = (place: number): T | Promise<T> => {
    if (!Number.isInteger(place) || place < 0 || place >= length) {
      throw new DatasetError(
        `${source.name}: there is no row at place ${place}; places go from 0 to ${length - 1}`,
      );
    }
    const index = indexAt(place);
    const placed = (cause: unknown): DatasetError => {
      const message = messageOf(cause);
      return new DatasetError(`${source.where(index)}: ${message}`, { cause });
    };
    const change = (row: DataRow): T | Promise<T> => {
      try {
        const changed = self.change(row, index);
        if (!(changed instanceof Promise)) return changed;
        return changed.catch((cause: unknown) => {
          throw placed(cause);
        });
      } catch (cause) {
        throw placed(cause);
      }
    };
    const row = source.read(index); // its own errors say where
    return row instanceof Promise ? row.then(change) : change(row);
  };

  async function* rows(position = 0): AsyncGenerator<DatasetItem<T>, void, undefined> {
    for (let place = position; place < length; place++) {
      let row: T;
      try {
        const answer = readAt(place);
        row = answer instanceof Promise ? await answer : answer;
      } catch (error) {
        if (!options.skipBad || !(error instanceof DatasetError)) throw error;
        bad.push({ index: indexAt(place), error });
        continue;
      }
      yield { index: indexAt(place), row, next: place + 1 };
    }
  }

  const select = (places: Int32Array): Dataset<T> =>
    view({ ...self, order: order ? places.map((place) => order[place]!) : places, length: places.length });

  const permute = (seed: number) =>
    permutation(length, seed, order ? undefined : source.runs, source.rowsAtHand ?? length);

  return {
    name: source.name,
    length,
    bad,
    at: async (place) => readAt(place),
    indexAt,
    rows,
    select,
    permutation: permute,
    shuffle: (seed) => select(permute(seed)),
    take: (count) => view({ ...self, length: Math.min(count, length) }),
    map: (change) =>
      view({
        ...self,
        change: (row, index) => {
          const before = self.change(row, index);
          return before instanceof Promise
            ? before.then((ready) => change(ready, index))
            : change(before, index);
        },
      }),
    filter: async (keep) => {
      const kept: number[] = [];
      for await (const { row, index, next } of rows()) {
        if (await keep(row, index)) kept.push(next - 1);
      }
      return select(Int32Array.from(kept));
    },
    close: () => source.close(),
  };
}
