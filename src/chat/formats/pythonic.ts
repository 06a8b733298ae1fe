import type { ToolSchema } from '../../types.ts';
import { fromJson, repr } from '../jinja/python.ts';
import {
  type BlockContext,
  CALL_SHAPE,
  callsFromJson,
  isObject,
  malformed,
  type Piece,
  type ReadCall,
  readJson,
  THINK,
  type ToolFormat,
  words,
} from './grammar.ts';
import { LiteralError, LiteralReader } from './python-literal.ts';

const LIST_START = /\[\s*[A-Za-z_][\w.-]*\s*\(/g;
const NAME = /[A-Za-z_][\w.-]*/y;

/** Lists of calls, with words around them. What cannot be read of a list is a problem up to where the list ends. */
function readLists(text: string, tools: readonly ToolSchema[]): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  LIST_START.lastIndex = 0;
  for (let start = LIST_START.exec(text); start; start = LIST_START.exec(text)) {
    pieces.push(...words(text.slice(at, start.index)));
    const list = readList(text, start.index, tools);
    pieces.push(...list.calls.map((call) => ({ kind: 'call', call }) as const));
    at = list.at;
    if (list.error) {
      const end = endOfList(text, start.index);
      pieces.push(
        malformed(`the tool call cannot be read: ${list.error.message}`, text.slice(at, end).trim()),
      );
      at = end;
    }
    LIST_START.lastIndex = at;
  }
  return [...pieces, ...words(text.slice(at))];
}

interface ReadList {
  readonly calls: ReadCall[];
  /** Where reading stopped: behind the list, or behind its last good call. */
  readonly at: number;
  readonly error?: LiteralError;
}

/** How often a string in a list may be tried to end at another of its quotes. */
const MOST_TRIES = 8;

function readList(
  text: string,
  start: number,
  tools: readonly ToolSchema[],
  ends: ReadonlyMap<number, number> = new Map(),
): ReadList {
  const reader = new LiteralReader(text, start, ends);
  const calls: ReadCall[] = [];
  let at = start;
  try {
    reader.expect('[');
    while (!reader.take(']')) {
      calls.push(readCall(reader, tools));
      at = reader.at;
      if (!reader.take(',')) {
        reader.expect(']');
        break;
      }
    }
    return { calls, at: reader.at };
  } catch (error) {
    if (!(error instanceof LiteralError)) throw error;
    return requoted(reader, start, tools, ends) ?? { calls, at, error };
  }
}

/**
 * Models write `command='sed -n '1,9p' file'`. A string after which nothing can stand that stands there is read
 * to a later quote, if exactly one of those makes the list readable.
 */
function requoted(
  { lastString, text }: LiteralReader,
  start: number,
  tools: readonly ToolSchema[],
  ends: ReadonlyMap<number, number>,
): ReadList | undefined {
  if (!lastString || ends.size >= 4 || ends.has(lastString.from) || canClose(text, lastString.to))
    return undefined;
  const quote = text[lastString.from]!;
  const read: ReadList[] = [];
  let quoteAt = lastString.to;
  for (let tried = 0; tried < MOST_TRIES; ) {
    quoteAt = text.indexOf(quote, quoteAt + 1);
    if (quoteAt < 0) break;
    if (text[quoteAt - 1] === '\\' || !canClose(text, quoteAt)) continue;
    tried++;
    const list = readList(text, start, tools, new Map([...ends, [lastString.from, quoteAt]]));
    if (!list.error) read.push(list);
  }
  return read.length === 1 ? read[0] : undefined;
}

const canClose = (text: string, quote: number): boolean =>
  /^\s{0,64}[,)\]}:]/.test(text.slice(quote + 1, quote + 66));

/** Where the brackets of a list are closed again; the end of the text if they are not. */
function endOfList(text: string, start: number): number {
  let depth = 0;
  let quote: string | undefined;
  for (let at = start; at < text.length; at++) {
    const character = text[at]!;
    if (quote !== undefined) {
      if (character === '\\') at++;
      else if (character === quote) quote = undefined;
    } else if (character === '"' || character === "'") quote = character;
    else if ('[({'.includes(character)) depth++;
    else if ('])}'.includes(character) && --depth === 0) return at + 1;
  }
  return text.length;
}

export function readCall(reader: LiteralReader, tools: readonly ToolSchema[]): ReadCall {
  reader.skipSpace();
  const name = reader.match(NAME);
  if (name === undefined) return reader.fail('expected the name of a tool');
  reader.expect('(');
  const parameters = parametersOf(tools, name);
  const given = new Map<string, unknown>();
  while (!reader.take(')')) {
    reader.skipSpace();
    const start = reader.at;
    const key = reader.word();
    const isNamed = key !== undefined && reader.take('=');
    if (!isNamed) reader.at = start;
    const parameter = isNamed ? key : parameters[given.size];
    if (parameter === undefined) return reader.fail('expected name=value');
    if (given.has(parameter)) return reader.fail(`${parameter} is given twice`);
    given.set(parameter, reader.value());
    if (!reader.take(',')) {
      reader.expect(')');
      break;
    }
  }
  return { name, arguments: Object.fromEntries(given) };
}

/** Names for arguments without one: the schema's, in its order. */
export function parametersOf(tools: readonly ToolSchema[], tool: string): string[] {
  const schema = tools.find(({ function: { name } }) => name === tool)?.function.parameters;
  return isObject(schema?.properties) ? Object.keys(schema.properties) : [];
}

/** `name(key=value, …)` and nothing else. */
export function readPythonicCall(text: string, tools: readonly ToolSchema[] = []): ReadCall | undefined {
  const reader = new LiteralReader(text);
  try {
    const call = readCall(reader, tools);
    reader.skipSpace();
    return reader.at === text.length ? call : undefined;
  } catch (error) {
    if (error instanceof LiteralError) return undefined;
    throw error;
  }
}

const read = (body: string, { tools }: BlockContext): Piece[] => {
  const text = body.trim();
  if (text === '') return [];
  const json = /^(?:\[\s*)?\{/.test(text) ? readJson(text) : undefined;
  if (json && 'value' in json) return callsFromJson(json.value, CALL_SHAPE, text);
  if (/^\[\s*[A-Za-z_][\w.-]*\s*\(/.test(text)) return readLists(text, tools);
  if (/^[A-Za-z_][\w.-]*\s*\(/.test(text)) return readLists(`[${text}]`, tools);
  return [malformed('the tool call is not a list of calls', text)];
};

const written = ({ name, arguments: given }: ReadCall): string =>
  `${name}(${Object.entries(given)
    .map(([key, value]) => `${key}=${repr(fromJson(value))}`)
    .join(', ')})`;

/**
 * Llama 3.2 and 4, LFM2, ToolACE: a list of Python calls, alone or between marks. Values are literals; nothing
 * is ever evaluated. LFM2 may also write JSON between its marks.
 *
 *   [add(a=1, b=2), look_up(word="river")]
 */
export const pythonic: ToolFormat = {
  name: 'pythonic',
  blocks: [
    THINK,
    { open: '<|python_start|>', close: ['<|python_end|>'], read },
    { open: '<|tool_call_start|>', close: ['<|tool_call_end|>'], read },
  ],
  write: (calls, isToken) => {
    const list = `[${calls.map(written).join(', ')}]`;
    return isToken('<|tool_call_start|>') ? `<|tool_call_start|>${list}<|tool_call_end|>` : list;
  },
  unmarked: { from: /\[/, read: readLists },
};
