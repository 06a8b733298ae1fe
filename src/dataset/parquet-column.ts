import type { ColumnMetaData, Compressors, SchemaTree } from 'hyparquet';
import { parquetHeader } from 'hyparquet/src/column.js';
import { convert, convertWithDictionary, DEFAULT_PARSERS } from 'hyparquet/src/convert.js';
import { decompressPage } from 'hyparquet/src/datapage.js';
import { readPlain } from 'hyparquet/src/plain.js';
import { checkPage, openPage, readLookUps, readValues } from './parquet-page.ts';

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
    checkPage(header, bytes.byteLength - reader.offset, found.levels);
    const packed = bytes.subarray(reader.offset, reader.offset + header.compressed_page_size);
    reader.offset += header.compressed_page_size;
    if (header.type === 'DICTIONARY_PAGE') {
      const page = decompressPage(packed, header.uncompressed_page_size, meta.codec, compressors);
      const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
      const count = header.dictionary_page_header!.num_values;
      if (count > 8 * page.byteLength) {
        throw new Error(`${count} words do not fit in ${page.byteLength} bytes`);
      }
      const plain = readPlain({ view, offset: 0 }, meta.type, count, element.type_length);
      dictionary = Array.from(convert(plain, decoder) as ArrayLike<unknown>, asNumber);
      continue;
    }
    const count = (header.data_page_header ?? header.data_page_header_v2!).num_values;
    const page = openPage(packed, header, { codec: meta.codec, compressors, maxDefinition, maxRepetition });
    const { encoding, present } = page;
    const isText = element.converted_type === 'UTF8' || element.logical_type?.type === 'STRING';
    const isBytes = !element.converted_type && !element.logical_type;
    let values: Omit<ValuePage, 'start'>;
    if (encoding === 'PLAIN' && meta.type === 'BYTE_ARRAY' && (isText || isBytes)) {
      values = textPage(page.bytes, page.from, present, isText);
    } else if (encoding.endsWith('_DICTIONARY')) {
      if (!dictionary) throw new Error('a page looks words up before there is a dictionary');
      const words = dictionary;
      const numbers = readLookUps(page, words.length);
      values = { count: present, get: (index) => words[numbers[index]!] };
    } else {
      const plain = readValues(page, meta.type, element.type_length);
      const decoded: ArrayLike<unknown> = convertWithDictionary(
        plain as never,
        undefined,
        encoding as never,
        decoder,
      );
      values = { count: decoded.length, get: (index) => asNumber(decoded[index]) };
    }
    found.pages.push({ ...values, start });
    found.definitions.push({ count, levels: page.definitions, full: maxDefinition });
    found.repetitions.push({ count, levels: page.repetitions, full: 0 });
    start += values.count;
    found.levels += count;
  }
  return found;
}

/** Text as offsets into the page, each value after its 4-byte length. */
function textPage(page: Uint8Array, from: number, count: number, isText: boolean): Omit<ValuePage, 'start'> {
  const buffer = Buffer.from(page.buffer, page.byteOffset, page.byteLength);
  if (4 * count > page.byteLength) throw new Error(`${count} values do not fit in ${page.byteLength} bytes`);
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
  if (rows > repetitions.length) {
    throw new Error(`${rows} rows are announced and ${repetitions.length} values are there`);
  }
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
