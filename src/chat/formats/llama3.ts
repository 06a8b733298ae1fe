import { type JsonShape, malformed, type Piece, type ToolFormat } from './grammar.ts';
import { growJsonCall } from './growing-call.ts';
import { readJsonCalls } from './json-scan.ts';
import { readPythonicCall } from './pythonic.ts';

const SHAPE: JsonShape = { names: ['name'], keys: ['parameters', 'arguments'] };

function readTagged(body: string): Piece[] {
  const pieces = readJsonCalls(body, SHAPE);
  if (pieces.some(({ kind }) => kind !== 'content')) return pieces;
  const builtIn = readPythonicCall(body.trim());
  if (builtIn) return [{ kind: 'call', call: { ...builtIn, name: builtIn.name.replace(/\.call$/, '') } }];
  return body.trim() === '' ? [] : [malformed('what follows <|python_tag|> is not a tool call', body.trim())];
}

/**
 * Llama 3.1 to 3.3: the bare object, sometimes behind `<|python_tag|>`, sometimes several:
 *
 *   {"name": "add", "parameters": {"a": 1, "b": 2}}
 *
 * Built-in tools are written `<|python_tag|>brave_search.call(query="…")`.
 */
export const llama3Json: ToolFormat = {
  name: 'llama3_json',
  stopTokens: ['<|eot_id|>', '<|eom_id|>'],
  blocks: [{ open: '<|python_tag|>', close: [], read: readTagged, grow: () => growJsonCall(SHAPE) }],
  unmarked: {
    from: /[[{]/,
    read: (text) => readJsonCalls(text, SHAPE),
    grow: () => growJsonCall(SHAPE),
  },
};
