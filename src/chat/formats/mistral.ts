import { malformed, type Piece, readArguments, THINK, type ToolFormat } from './grammar.ts';
import { endOfJson, readJsonCalls } from './json-scan.ts';

const CALLS = '[TOOL_CALLS]';

/** Newer tokenizers (v11): `name[CALL_ID]id[ARGS]{…}`, one mark a call. */
function readNamed(text: string): Piece[] {
  const [head = '', ...rest] = text.split('[ARGS]');
  const [name = '', id] = head.split('[CALL_ID]').map((part) => part.trim());
  const source = text.trim();
  const body = rest.join('[ARGS]');
  const start = body.search(/\S/);
  const end = body[start] === '{' ? endOfJson(body, start) : -1;
  if (name === '') return [malformed('the tool call has no name', source)];
  if (end < 0) return [malformed(`the arguments of ${name} are not a JSON object`, source)];
  const given = readArguments(body.slice(start, end));
  if (!given) return [malformed(`the arguments of ${name} are not valid JSON`, source)];
  const words = body.slice(end);
  return [
    { kind: 'call', call: { name, arguments: given, ...(id && { id }) } },
    ...(words.trim() === '' ? [] : [{ kind: 'content', text: words } as const]),
  ];
}

function readCalls(body: string): Piece[] {
  return body.split(CALLS).flatMap((text) => {
    if (text.includes('[ARGS]')) return readNamed(text);
    const pieces = readJsonCalls(text, ['arguments', 'parameters']);
    if (pieces.some(({ kind }) => kind !== 'content') || /^[\s[\]]*$/.test(text)) return pieces;
    return [malformed(`what follows ${CALLS} is not a tool call`, text.trim())];
  });
}

/**
 * Mistral 7B v0.3, Nemo, Small: a list behind one mark, or, in newer ones, a mark for each call:
 *
 *   [TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}, "id": "abcdefghi"}]
 *   [TOOL_CALLS]add[ARGS]{"a": 1}
 */
export const mistral: ToolFormat = {
  name: 'mistral',
  blocks: [
    THINK,
    { ...THINK, open: '[THINK]', close: ['[/THINK]'] },
    { open: CALLS, close: [], read: readCalls },
  ],
};
