import {
  type Block,
  malformed,
  type Piece,
  readArguments,
  type Sink,
  type ToolFormat,
  words,
} from './grammar.ts';
import { growNamedCall } from './growing-call.ts';
import { endOfJson } from './json-scan.ts';

/** Arguments as JSON, and the words after them. */
function readNamed(name: string, text: string, source: string): Piece[] {
  const body = text.trim();
  const end = body.startsWith('{') ? endOfJson(body, 0) : -1;
  const given = readArguments(end < 0 ? body || '{}' : body.slice(0, end));
  if (!given) return [malformed(`the arguments of ${name} are not a JSON object`, source)];
  return [{ kind: 'call', call: { name, arguments: given } }, ...words(end < 0 ? '' : body.slice(end))];
}

const tagged: Block = {
  open: '<function=',
  close: ['</function>'],
  until: ['<function='],
  read: (body, { closed }) => {
    const head = /^\s*([^\s<>][^<>\n]*)>/.exec(body);
    const source = `<function=${body.trim()}`;
    if (!head) return [malformed('the tool call names no function', source)];
    const name = head[1]!.trim();
    const text = body.slice(head[0].length);
    if (!closed && readArguments(text.trim()) === undefined)
      return [malformed(`the call of ${name} is not closed: </function> is missing`, source)];
    return readNamed(name, text, source);
  },
  grow: () => growNamedCall(/^\s*(?<name>[^\s<>{][^<>\n{]*)>\s*(?=\{)/),
};

/** Code after `<|python_tag|>` is for the tool "python". */
const python: Block = {
  open: '<|python_tag|>',
  close: [],
  read: (body) => {
    const text = body.trim();
    if (text === '') return [];
    return [{ kind: 'call', call: { name: 'python', arguments: readArguments(text) ?? { code: text } } }];
  },
};

/** Functionary 3.1: `<function=add>{"a": 1}</function>` */
export const functionary31: ToolFormat = {
  name: 'functionary_v3_1',
  stopTokens: ['<|eom_id|>'],
  blocks: [tagged, python],
};

const recipient: Block = {
  open: '>>>',
  close: [],
  until: ['>>>'],
  sink: (body): Sink => {
    const line = body.indexOf('\n');
    if (line >= 0)
      return body.slice(0, line).trim() === 'all' ? { kind: 'content', from: line + 1 } : { kind: 'whole' };
    return { kind: body.length > LONGEST_NAME ? 'whole' : 'unsure' };
  },
  read: (body) => {
    const line = body.indexOf('\n');
    const name = body.slice(0, line < 0 ? body.length : line).trim();
    if (line < 0 || !/^[\w.-]+$/.test(name)) return words(body);
    return readNamed(name, body.slice(line + 1), `>>>${body.trim()}`);
  },
  grow: () => growNamedCall(/^[ \t]*(?<name>[\w.-]+)[ \t]*\n\s*(?=\{)/),
};

const LONGEST_NAME = 200;

/**
 * Functionary 3.2: each part of a reply is for somebody. The generation prompt ends in `>>>`.
 *
 *   >>>all
 *   Let me add.>>>add
 *   {"a": 1}
 */
export const functionary32: ToolFormat = {
  name: 'functionary_v3_2',
  blocks: [recipient],
  begins: recipient,
};
