import type { ToolSchema } from '../../types.ts';
import { type BlockContext, malformed, type Piece, readJson, THINK, type ToolFormat } from './grammar.ts';
import { isText, jsonOrText, typedValue, typesOf } from './typed-value.ts';

const KEY = /\s*<arg_key(:\w+)?>/y;
const BETWEEN = /(?:\\n|\s)*/y;
const SPACE = /\s*/y;

interface Pair {
  readonly key: string;
  readonly value: string;
  readonly end: number;
}

const after = (pattern: RegExp, text: string, at: number): number => {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
};

/** One argument; Hunyuan's tags may carry a suffix: `<arg_key:opensource>`. Without backtracking: time is linear. */
function readPair(text: string, at: number): Pair | undefined {
  KEY.lastIndex = at;
  const open = KEY.exec(text);
  if (!open) return undefined;
  const [endOfKey, startOfValue, endOfValue] = [
    `</arg_key${open[1] ?? ''}>`,
    `<arg_value${open[1] ?? ''}>`,
    `</arg_value${open[1] ?? ''}>`,
  ];
  const keyEnd = text.indexOf(endOfKey, KEY.lastIndex);
  if (keyEnd < 0) return undefined;
  const start = after(BETWEEN, text, keyEnd + endOfKey.length);
  const valueEnd = text.startsWith(startOfValue, start) ? text.indexOf(endOfValue, start) : -1;
  if (valueEnd < 0) return undefined;
  return {
    key: text.slice(at + open[0].length, keyEnd).trim(),
    value: text.slice(start + startOfValue.length, valueEnd),
    end: after(SPACE, text, valueEnd + endOfValue.length),
  };
}

interface PairContext {
  readonly name: string;
  readonly tools: readonly ToolSchema[];
  readonly closed: boolean;
  readonly source: string;
  value(text: string, types: string[] | undefined): unknown;
}

function readPairs(text: string, { name, tools, closed, source, value }: PairContext): Piece[] {
  if (name === '' || /\s/.test(name)) return [malformed('the tool call does not begin with a name', source)];
  const given = new Map<string, unknown>();
  for (let at = 0; at < text.length; ) {
    const pair = readPair(text, at);
    if (!pair) {
      const why = closed
        ? 'an argument is not a pair of <arg_key> and <arg_value>'
        : 'the tool call is not closed: </tool_call> is missing';
      return [malformed(why, source)];
    }
    const { key } = pair;
    if (given.has(key)) return [malformed(`the argument ${key} is given twice`, source)];
    given.set(key, value(pair.value, typesOf(tools, name, key)));
    at = pair.end;
  }
  if (!closed && !hasRequired(given, tools, name))
    return [malformed('the tool call is not closed: </tool_call> is missing', source)];
  return [{ kind: 'call', call: { name, arguments: Object.fromEntries(given) } }];
}

/** Whether a call whose closing tag is missing has all that its tool asks for, so that nothing was cut off. */
function hasRequired(
  given: ReadonlyMap<string, unknown>,
  tools: readonly ToolSchema[],
  name: string,
): boolean {
  const required = tools.find((tool) => tool.function.name === name)?.function.parameters.required;
  return given.size > 0 && (!Array.isArray(required) || required.every((key) => given.has(String(key))));
}

/** Strings are bare; a model that writes one as JSON means what is between the quotes. */
function bareValue(text: string, types: string[] | undefined): unknown {
  const isQuoted = types?.every(isText) && /^\s*".*"\s*$/s.test(text);
  const quoted = isQuoted ? readJson(text.trim()) : undefined;
  return quoted && 'value' in quoted ? quoted.value : jsonOrText(text, types);
}

const glmCall = {
  open: '<tool_call>',
  close: ['</tool_call>'],
  read: (body: string, { tools, closed }: BlockContext) => {
    const source = body.trim();
    const head = /^[^<]*/.exec(source)![0];
    return readPairs(source.slice(head.length), {
      name: head.trim().replace(/\\n$/, ''),
      tools,
      closed,
      source,
      value: bareValue,
    });
  },
};

/**
 * GLM-4.5 and later. Strings are bare, everything else is JSON:
 *
 *   <tool_call>add
 *   <arg_key>a</arg_key>
 *   <arg_value>1</arg_value>
 *   </tool_call>
 *
 * A reply stops at the token that opens the next message (junction.ts).
 */
export const glm: ToolFormat = {
  name: 'glm',
  stopTokens: ['<|observation|>', '<|user|>'],
  blocks: [THINK, glmCall],
};

/** Poolside Laguna: calls as GLM writes them, in its own dialogue format. */
export const poolside: ToolFormat = { name: 'poolside_v1', blocks: [THINK, glmCall] };

const SUFFIXES = ['', ':opensource'];

/**
 * Hunyuan 3: the same pairs behind `<tool_sep>`; released tokenizers put a suffix into every tag.
 *
 *   <tool_calls><tool_call>add<tool_sep>
 *   <arg_key>a</arg_key><arg_value>1</arg_value>
 *   </tool_call></tool_calls>
 */
export const hunyuan3: ToolFormat = {
  name: 'hy_v3',
  blocks: SUFFIXES.flatMap((suffix) => [
    { ...THINK, open: `<think${suffix}>`, close: [`</think${suffix}>`] },
    {
      open: `<tool_call${suffix}>`,
      close: [`</tool_call${suffix}>`],
      read: (body: string, { tools, closed }: BlockContext) => {
        const source = body.trim();
        const [name = '', ...rest] = source.split(`<tool_sep${suffix}>`);
        if (rest.length === 0) return [malformed(`the tool call has no <tool_sep${suffix}>`, source)];
        return readPairs(rest.join(''), { name: name.trim(), tools, closed, source, value: typedValue });
      },
    },
  ]),
  ignored: SUFFIXES.flatMap((suffix) => [`<tool_calls${suffix}>`, `</tool_calls${suffix}>`]),
};
