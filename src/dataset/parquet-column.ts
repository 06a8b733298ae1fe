import type { ColumnMetaData, Compressors, SchemaTree } from 'hyparquet';
import { parquetHeader } from 'hyparquet/src/column.js';
import { convert, convertWithDictionary, DEFAULT_PARSERS } from 'hyparquet/src/convert.js';
import { decompressPage, readDataPage, readDataPageV2 } from 'hyparquet/src/datapage.js';
import { readRleBitPackedHybrid } from 'hyparquet/src/encoding.js';
import { readPlain } from 'hyparquet/src/plain.js';

/**
 * One leaf column of a row group, as compact as its pages: levels as bytes, text as offsets into the page, made into
 * strings when a row is asked for. The library's own assembly holds every row group as objects, many times its size.
 *
 * It is read with two cursors (Dremel, Melnik et al. 2010): a level for every value, null or empty list, and a value
 * wherever the level says that it is defined.
 */
export class ParquetColumn {
  readonly maxDefinition: number;
  readonly #definitions: Uint8Array | undefined;
  readonly #repetitions: Uint8Array | undefined;
  /** First level and first value of each row; absent where they are the row's own number. */
  readonly #levelStarts: Int32Array | undefined;
  readonly #valueStarts: Int32Array | undefined;
  readonly #pages: readonly ValuePage[];
  #page = 0;
  #level = 0;
  #value = 0;

  constructor(
    bytes: Uint8Array,
    meta: ColumnMetaData,
    path: readonly SchemaTree[],
    rows: number,
    compressors: Compressors,
  ) {
    const repeated = path.filter(({ element }) => element.repetition_type === 'REPEATED').length;
    this.maxDefinition = path.slice(1).filter(({ element }) => element.repetition_type !== 'REQUIRED').length;
    const decoded = readPages(bytes, meta, path, this.maxDefinition, repeated, compressors);
    this.#pages = decoded.pages;
    const levels = decoded.levels;
    const defined = decoded.pages.reduce((sum, page) => sum + page.count, 0);
    this.#definitions = defined === levels ? undefined : joinLevels(decoded.definitions, levels);
    this.#repetitions = repeated > 0 ? joinLevels(decoded.repetitions, levels) : undefined;
    if (this.#repetitions) this.#levelStarts = rowStarts(this.#repetitions, rows);
    else if (levels !== rows) throw new Error(`${rows} rows are announced and ${levels} values are there`);
    if (this.#definitions) {
      this.#valueStarts = valueStarts(this.#definitions, this.maxDefinition, this.#levelStarts, rows);
    } else this.#valueStarts = this.#levelStarts;
  }

  seek(row: number): void {
    this.#level = this.#levelStarts ? this.#levelStarts[row]! : row;
    this.#value = this.#valueStarts ? this.#valueStarts[row]! : row;
  }

  /** How much of the path is defined at the cursor. */
  definition(): number {
    return this.#definitions ? this.#definitions[this.#level]! : this.maxDefinition;
  }

  /** At which repeated element of the path the entry at the cursor goes on; 0 begins a row. */
  repetition(): number {
    return this.#repetitions?.[this.#level] ?? 0;
  }

  skip(): void {
    this.#level++;
  }

  next(): unknown {
    const defined = this.definition() === this.maxDefinition;
    this.#level++;
    return defined ? this.#valueAt(this.#value++) : null;
  }

  #valueAt(index: number): unknown {
    let page = this.#pages[this.#page]!;
    if (index < page.start || index >= page.start + page.count) {
      this.#page = this.#pages.findLastIndex(({ start }) => start <= index);
      page = this.#pages[this.#page]!;
    }
    return page.get(index - page.start);
  }
}

interface ValuePage {
  readonly start: number;
  readonly count: number;
  get(index: number): unknown;
}

interface Pages {
  readonly pages: ValuePage[];
  readonly levels: number;
  /** Per page; undefined: all values of it are defined. */
  readonly definitions: { count: number; levels: ArrayLike<number> | undefined; full: number }[];
  readonly repetitions: { count: number; levels: ArrayLike<number> | undefined; full: number }[];
}

function readPages(
  bytes: Uint8Array,
  meta: ColumnMetaData,
  path: readonly SchemaTree[],
  maxDefinition: number,
  maxRepetition: number,
  compressors: Compressors,
): Pages {
  const element = path.at(-1)!.element;
  const decoder = {
    ...meta,
    pathInSchema: meta.path_in_schema,
    element,
    schemaPath: [...path],
    parsers: DEFAULT_PARSERS,
    compressors,
    utf8: false,
  };
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
  const found: Pages & { levels: number } = { pages: [], levels: 0, definitions: [], repetitions: [] };
  let dictionary: ArrayLike<unknown> | undefined;
  let start = 0;
  while (reader.offset < bytes.byteLength - 1) {
    const header = parquetHeader(reader);
    const packed = bytes.subarray(reader.offset, reader.offset + header.compressed_page_size);
    reader.offset += header.compressed_page_size;
    const unpack = () => decompressPage(packed, header.uncompressed_page_size, meta.codec, compressors);
    if (header.type === 'DICTIONARY_PAGE') {
      const page = unpack();
      const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
      const plain = readPlain(
        { view, offset: 0 },
        meta.type,
        header.dictionary_page_header!.num_values,
        element.type_length,
      );
      dictionary = Array.from(convert(plain, decoder) as ArrayLike<unknown>, asNumber);
      continue;
    }
    const version1 = header.data_page_header;
    const count = (version1 ?? header.data_page_header_v2!).num_values;
    let definitions: ArrayLike<number> | undefined;
    let repetitions: ArrayLike<number> | undefined;
    let values: Omit<ValuePage, 'start'>;
    const isText = element.converted_type === 'UTF8' || element.logical_type?.type === 'STRING';
    const isBytes = !element.converted_type && !element.logical_type;
    if (version1?.encoding === 'PLAIN' && meta.type === 'BYTE_ARRAY' && (isText || isBytes)) {
      const page = unpack();
      const levels = { view: new DataView(page.buffer, page.byteOffset, page.byteLength), offset: 0 };
      repetitions = readLevels(levels, maxRepetition, count);
      definitions = readLevels(levels, maxDefinition, count);
      values = textPage(page, levels.offset, count - nullsIn(definitions, maxDefinition), isText);
    } else {
      const page = version1
        ? readDataPage(unpack(), version1, decoder)
        : readDataPageV2(packed, header, decoder);
      const encoding = (version1 ?? header.data_page_header_v2!).encoding;
      definitions = page.definitionLevels?.length ? page.definitionLevels : undefined;
      repetitions = page.repetitionLevels.length ? page.repetitionLevels : undefined;
      const isLookUp = dictionary !== undefined && encoding.endsWith('_DICTIONARY');
      const decoded: ArrayLike<unknown> = isLookUp
        ? page.dataPage
        : convertWithDictionary(page.dataPage, undefined, encoding, decoder);
      const words = dictionary;
      values = {
        count: decoded.length,
        get: isLookUp ? (index) => words![decoded[index] as number] : (index) => asNumber(decoded[index]),
      };
    }
    found.pages.push({ ...values, start });
    found.definitions.push({ count, levels: definitions, full: maxDefinition });
    found.repetitions.push({ count, levels: repetitions, full: 0 });
    start += values.count;
    found.levels += count;
  }
  return found;
}

/** Text as offsets into the page, each value after its 4-byte length. */
function textPage(page: Uint8Array, from: number, count: number, isText: boolean): Omit<ValuePage, 'start'> {
  const buffer = Buffer.from(page.buffer, page.byteOffset, page.byteLength);
  const starts = new Int32Array(count);
  let at = from;
  for (let value = 0; value < count; value++) {
    starts[value] = at + 4;
    at += 4 + buffer.readUInt32LE(at);
  }
  const end = (start: number) => start + buffer.readUInt32LE(start - 4);
  return {
    count,
    get: isText
      ? (index) => buffer.toString('utf8', starts[index]!, end(starts[index]!))
      : (index) => Uint8Array.from(buffer.subarray(starts[index]!, end(starts[index]!))),
  };
}

function readLevels(
  reader: { view: DataView<ArrayBufferLike>; offset: number },
  most: number,
  count: number,
): Uint8Array | undefined {
  if (most === 0) return undefined;
  const levels = new Uint8Array(count);
  readRleBitPackedHybrid(reader as never, 32 - Math.clz32(most), levels);
  return levels;
}

function nullsIn(definitions: ArrayLike<number> | undefined, most: number): number {
  let nulls = 0;
  for (let at = 0; at < (definitions?.length ?? 0); at++) if (definitions![at]! < most) nulls++;
  return nulls;
}

function joinLevels(pages: Pages['definitions'], total: number): Uint8Array {
  const joined = new Uint8Array(total);
  let at = 0;
  for (const { count, levels, full } of pages) {
    if (levels) joined.set(levels, at);
    else joined.fill(full, at, at + count);
    at += count;
  }
  return joined;
}

function rowStarts(repetitions: Uint8Array, rows: number): Int32Array {
  const starts = new Int32Array(rows);
  let row = 0;
  for (let level = 0; level < repetitions.length; level++)
    if (repetitions[level] === 0) starts[row++] = level;
  if (row !== rows) throw new Error(`${rows} rows are announced and ${row} are there`);
  return starts;
}

function valueStarts(
  definitions: Uint8Array,
  most: number,
  levelStarts: Int32Array | undefined,
  rows: number,
): Int32Array {
  const starts = new Int32Array(rows);
  let value = 0;
  let level = 0;
  for (let row = 0; row < rows; row++) {
    const from = levelStarts ? levelStarts[row]! : row;
    for (; level < from; level++) if (definitions[level] === most) value++;
    starts[row] = value;
  }
  return starts;
}

/** 64-bit integers as numbers, where a number holds them exactly. */
function asNumber(value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}
