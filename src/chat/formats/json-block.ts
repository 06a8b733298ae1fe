import {
  type Block,
  CALL_SHAPE,
  callsFromJson,
  type JsonShape,
  malformed,
  type Piece,
  readJson,
  words,
} from './grammar.ts';
import { growJsonCall } from './growing-call.ts';
import { endOfJson } from './json-scan.ts';

/** A value inside a block as calls. */
export type ReadValue = (value: unknown, source: string) => Piece[];

/**
 * A block whose body is JSON: one call, or a list of calls. A body that is complete is a call even where the
 * closing mark is missing; words after it are content.
 */
export function jsonBlock(open: string, close: readonly string[], shape: JsonShape = CALL_SHAPE): Block {
  const block = jsonBlockOf(open, close, (value, source) => callsFromJson(value, shape, source));
  return { ...block, grow: () => growJsonCall(shape) };
}

export function jsonBlockOf(open: string, close: readonly string[], readValue: ReadValue): Block {
  return {
    open,
    close,
    read: (body, { closed }) => readParts(body, closed, { open, close: close[0] ?? '', readValue }),
  };
}

interface Marks {
  readonly open: string;
  readonly close: string;
  readonly readValue: ReadValue;
}

/** A body that is not JSON may be several: a call whose closing mark is missing runs into the next one. */
function readParts(body: string, closed: boolean, marks: Marks): Piece[] {
  const whole = readJson(body.trim());
  if ('value' in whole) return marks.readValue(whole.value, body.trim());
  const parts = body.split(marks.open);
  return parts.flatMap((part, at) => readPart(part, closed && at === parts.length - 1, marks));
}

function readPart(body: string, closed: boolean, { close, readValue }: Marks): Piece[] {
  const source = body.trim();
  if (source === '') return [];
  const parsed = readJson(source);
  if ('value' in parsed) return readValue(parsed.value, source);
  const lines = readLines(source, readValue);
  if (lines) return lines;
  if (closed) return [malformed(`the tool call is not valid JSON: ${parsed.error}`, source)];
  const end = /^[[{]/.test(source) ? endOfJson(source, 0) : -1;
  const first = end < 0 ? undefined : readJson(source.slice(0, end));
  if (first && 'value' in first) {
    return [...readValue(first.value, source.slice(0, end)), ...words(source.slice(end))];
  }
  const missing = close === '' ? 'its JSON does not end' : `${close} is missing`;
  return [malformed(`the tool call is not closed: ${missing}`, source)];
}

/** MiniMax-M1 writes one call a line; undefined where a line is not JSON. */
function readLines(source: string, readValue: ReadValue): Piece[] | undefined {
  const lines = source.split('\n').filter((line) => line.trim() !== '');
  if (lines.length < 2) return undefined;
  const pieces: Piece[] = [];
  for (const line of lines) {
    const parsed = readJson(line.trim());
    if ('error' in parsed) return undefined;
    pieces.push(...readValue(parsed.value, line.trim()));
  }
  return pieces;
}
