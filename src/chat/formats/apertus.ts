import { isObject, malformed, type Piece, readArguments, reasoning, type ToolFormat } from './grammar.ts';
import { jsonBlockOf } from './json-block.ts';

/** `{"add": {"a": 1}}`: the key is the tool. */
function readEntry(value: unknown): Piece[] {
  const source = JSON.stringify(value);
  const entries = isObject(value) ? Object.entries(value) : [];
  if (entries.length === 0) return [malformed('the tool call is not {"<tool>": {…}}', source)];
  return entries.map(([name, given]): Piece => {
    const read = readArguments(given);
    if (!read) return malformed(`the arguments of ${name} are not a JSON object`, source);
    return { kind: 'call', call: { name, arguments: read } };
  });
}

/** Swiss Apertus: `<|tools_prefix|>[{"add": {"a": 1}}]<|tools_suffix|>` */
export const apertus: ToolFormat = {
  name: 'apertus',
  stopTokens: ['<|tools_suffix|>'],
  blocks: [
    reasoning('<|inner_prefix|>', '<|inner_suffix|>'),
    jsonBlockOf('<|tools_prefix|>', ['<|tools_suffix|>'], (value) =>
      (Array.isArray(value) ? value : [value]).flatMap(readEntry),
    ),
  ],
};
