import {
  CALL_SHAPE,
  type JsonShape,
  malformed,
  type Piece,
  readArguments,
  reasoning,
  THINK,
  type ToolFormat,
  words,
} from './grammar.ts';
import { growNamedCall } from './growing-call.ts';
import { endOfJson, readJsonCalls } from './json-scan.ts';

const CALLS = '[TOOL_CALLS]';

/** Newer tokenizers (v11): `name[CALL_ID]id[ARGS]{…}`, one mark a call; some leave `[ARGS]` away. */
const NAMED = /^\s*(?:([\w.-]+)\s*)?(?:\[CALL_ID\]([^[{]*))?(?:\[ARGS\]\s*|(?=\{))/;

/** The same, for one that has a name. */
const HEAD = /^\s*(?<name>[\w.-]+)\s*(?:\[CALL_ID\](?<id>[^[{]*))?(?:\[ARGS\]\s*)?(?=\{)/;

const LIST: JsonShape = { ...CALL_SHAPE, idsLast: true };

function readNamed(text: string, [head, name = '', id = '']: RegExpExecArray): Piece[] {
  const source = text.trim();
  const body = text.slice(head.length);
  if (name === '') return [malformed('the tool call has no name', source)];
  const end = body.startsWith('{') ? endOfJson(body, 0) : -1;
  if (end < 0) return [malformed(`the arguments of ${name} are not a JSON object`, source)];
  const given = readArguments(body.slice(0, end));
  if (!given) return [malformed(`the arguments of ${name} are not valid JSON`, source)];
  const written = id.trim();
  return [
    { kind: 'call', call: { name, arguments: given, ...(written && { id: written }) } },
    ...words(body.slice(end)),
  ];
}

function readCalls(body: string): Piece[] {
  return body.split(CALLS).flatMap((text) => {
    const named = NAMED.exec(text);
    if (named && (named[1] !== undefined || text.includes('[ARGS]'))) return readNamed(text, named);
    const pieces = readJsonCalls(text, LIST);
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
    reasoning('[THINK]', '[/THINK]'),
    { open: CALLS, close: [], read: readCalls, grow: () => growNamedCall(HEAD) },
  ],
};
