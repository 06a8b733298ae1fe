import type { ToolSchema } from '../../types.ts';
import { isObject, malformed, type Piece, type ReadCall, THINK, type ToolFormat } from './grammar.ts';
import { LiteralError, LiteralReader } from './python-literal.ts';

const LIST_START = /\[\s*[A-Za-z_][\w.-]*\s*\(/g;
const NAME = /[A-Za-z_][\w.-]*/y;

/** Lists of calls, with words around them. After one that cannot be read, reading goes on where it stopped. */
function readLists(text: string, tools: readonly ToolSchema[]): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  const takeWords = (until: number) => {
    const words = text.slice(at, until);
    if (words.trim() !== '') pieces.push({ kind: 'content', text: words });
  };
  LIST_START.lastIndex = 0;
  for (let start = LIST_START.exec(text); start; start = LIST_START.exec(text)) {
    takeWords(start.index);
    const reader = new LiteralReader(text, start.index);
    try {
      reader.expect('[');
      while (!reader.take(']')) {
        pieces.push({ kind: 'call', call: readCall(reader, tools) });
        if (!reader.take(',')) {
          reader.expect(']');
          break;
        }
      }
    } catch (error) {
      if (!(error instanceof LiteralError)) throw error;
      const isOver = error.at >= text.length;
      pieces.push(
        malformed(`the tool call cannot be read: ${error.message}`, text.slice(start.index, error.at + 20)),
      );
      if (isOver) return pieces;
    }
    at = Math.max(reader.at, start.index + start[0].length);
    LIST_START.lastIndex = at;
  }
  takeWords(text.length);
  return pieces;
}

function readCall(reader: LiteralReader, tools: readonly ToolSchema[]): ReadCall {
  reader.skipSpace();
  NAME.lastIndex = reader.at;
  const [name] = NAME.exec(reader.text) ?? [];
  if (name === undefined) return reader.fail('expected the name of a tool');
  reader.at += name.length;
  reader.expect('(');
  const parameters = parametersOf(tools, name);
  const given: [string, unknown][] = [];
  while (!reader.take(')')) {
    reader.skipSpace();
    const start = reader.at;
    const key = reader.word();
    const isNamed = key !== undefined && reader.take('=');
    if (!isNamed) reader.at = start;
    const parameter = isNamed ? key : parameters[given.length];
    if (parameter === undefined) reader.fail('expected name=value');
    given.push([parameter!, reader.value()]);
    if (!reader.take(',')) {
      reader.expect(')');
      break;
    }
  }
  return { name, arguments: Object.fromEntries(given) };
}

/** Names for arguments without one: the schema's, in its order. */
function parametersOf(tools: readonly ToolSchema[], tool: string): string[] {
  const schema = tools.find(({ function: { name } }) => name === tool)?.function.parameters;
  return isObject(schema?.properties) ? Object.keys(schema.properties) : [];
}

/** `name(key=value, …)` and nothing else. */
export function readPythonicCall(text: string): ReadCall | undefined {
  const reader = new LiteralReader(text);
  try {
    const call = readCall(reader, []);
    return reader.at === text.length ? call : undefined;
  } catch (error) {
    if (error instanceof LiteralError) return undefined;
    throw error;
  }
}

const read = (body: string, { tools }: { readonly tools: readonly ToolSchema[] }): Piece[] => {
  const text = body.trim();
  return readLists(text.startsWith('[') ? text : `[${text}]`, tools);
};

/**
 * Llama 3.2 and 4, LFM2, ToolACE: a list of Python calls, alone or between marks. Values are literals; nothing
 * is ever evaluated.
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
  unmarked: { from: /\[/, read: readLists },
};
