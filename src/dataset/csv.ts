import { DatasetError } from '../errors.ts';
import { recordSource } from './line-source.ts';
import type { DataRow, Source } from './source.ts';

/**
 * CSV by RFC 4180: the first record names the columns, quotes may hold commas and newlines, `""` is a quote.
 * Cells stay text, except lists and objects in JSON (a prompt, extra_info): the reader decides whether
 * `007` is a number.
 */
export function csvSource(path: string): Promise<Source> {
  return recordSource(path, {
    quoted: true,
    header: 1,
    parser: (header) => {
      const names = header.length === 0 ? [] : splitRecord(header[0]!.replace(/^\ufeff/, ''), `${path}:1`);
      return (text, where) => rowOf(names, splitRecord(text, where), where);
    },
  });
}

function rowOf(names: readonly string[], cells: readonly string[], where: string): DataRow {
  if (cells.length !== names.length) {
    throw new DatasetError(
      `${where}: has ${cells.length} cells, but the header names ${names.length} columns (${names.join(', ')})`,
    );
  }
  return Object.fromEntries(names.map((name, column) => [name, cellValue(cells[column]!)]));
}

function cellValue(cell: string): unknown {
  if (!/^\s*[[{]/.test(cell)) return cell;
  try {
    return JSON.parse(cell) as unknown;
  } catch {
    return cell; // text that happens to start with a bracket
  }
}

function splitRecord(record: string, where: string): string[] {
  const text = record.endsWith('\r') ? record.slice(0, -1) : record;
  const cells: string[] = [];
  let at = 0;
  for (;;) {
    if (text[at] === '"') {
      let cell = '';
      at++;
      for (;;) {
        const quote = text.indexOf('"', at);
        if (quote < 0)
          throw new DatasetError(`${where}: column ${cells.length + 1} opens a quote and never closes it`);
        cell += text.slice(at, quote);
        at = quote + 1;
        if (text[at] !== '"') break;
        cell += '"';
        at++;
      }
      cells.push(cell);
      if (at < text.length && text[at] !== ',') {
        throw new DatasetError(
          `${where}: column ${cells.length} has ${JSON.stringify(text.slice(at, at + 10))} after its closing quote`,
        );
      }
    } else {
      const comma = text.indexOf(',', at);
      cells.push(text.slice(at, comma < 0 ? undefined : comma));
      at = comma < 0 ? text.length : comma;
    }
    if (at >= text.length) return cells;
    at++;
    if (at === text.length) return [...cells, ''];
  }
}
