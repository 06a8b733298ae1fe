import type { ToolSchema } from '../../types.ts';
import { malformed, type Piece, type Sink, type ToolFormat } from './grammar.ts';
import { LiteralError, LiteralReader } from './python-literal.ts';
import { isText, jsonOrText, typesOf } from './typed-value.ts';

const DEEPEST = 200;
const BARE = /[^,{}[\]]*/y;
const KEY = /[^:,{}[\]<]+(?=\s*:)/y;
const CONSTANTS: Readonly<Record<string, unknown>> = { true: true, false: false, null: null };

/** A text that stands where a value is expected: it stays text if the schema says so. */
class Bare {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** `{key:value,…}` with bare keys, strings between quotes of the family's own, numbers, true, false, null, lists. */
class GemmaReader extends LiteralReader {
  readonly #quote: string;

  constructor(text: string, at: number, quote: string) {
    super(text, at);
    this.#quote = quote;
  }

  object(depth = 0): Record<string, unknown> {
    if (depth > DEEPEST) this.fail(`nested deeper than ${DEEPEST} levels`);
    this.expect('{');
    const entries = new Map<string, unknown>();
    while (!this.take('}')) {
      const key = this.#key();
      if (entries.has(key)) this.fail(`${key} is given twice`);
      this.expect(':');
      const value = this.#any(depth);
      entries.set(key, depth > 0 && value instanceof Bare ? plain(value.text) : value);
      if (!this.take(',')) {
        this.expect('}');
        break;
      }
    }
    return Object.fromEntries(entries);
  }

  #key(): string {
    this.skipSpace();
    if (this.text.startsWith(this.#quote, this.at)) return this.#quoted();
    const key = this.match(KEY);
    return key === undefined ? this.fail('expected a key') : key.trim();
  }

  #any(depth: number): unknown {
    this.skipSpace();
    if (this.text.startsWith(this.#quote, this.at)) return this.#quoted();
    if (this.text[this.at] === '{') return this.object(depth + 1);
    if (this.text[this.at] === '[') return this.#list(depth + 1);
    const bare = this.match(BARE) ?? '';
    if (bare.trim() === '') this.fail('expected a value');
    return new Bare(bare.trim());
  }

  #list(depth: number): unknown[] {
    if (depth > DEEPEST) this.fail(`nested deeper than ${DEEPEST} levels`);
    this.expect('[');
    const items: unknown[] = [];
    while (!this.take(']')) {
      const item = this.#any(depth);
      items.push(item instanceof Bare ? plain(item.text) : item);
      if (!this.take(',')) {
        this.expect(']');
        break;
      }
    }
    return items;
  }

  #quoted(): string {
    const start = this.at + this.#quote.length;
    const end = this.text.indexOf(this.#quote, start);
    if (end < 0) {
      this.at = this.text.length;
      return this.fail('the string is not closed');
    }
    this.at = end + this.#quote.length;
    return this.text.slice(start, end);
  }
}

function plain(text: string): unknown {
  if (Object.hasOwn(CONSTANTS, text)) return CONSTANTS[text];
  return /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(text) ? Number(text) : text;
}

interface Dialect {
  readonly quote: string;
  readonly end: string;
  /** A string between quotes, in the type of the schema. */
  readonly quoted: (text: string, types: string[] | undefined) => unknown;
}

function readCall(body: string, tools: readonly ToolSchema[], closed: boolean, dialect: Dialect): Piece[] {
  const source = body.trim();
  const head = /^call:\s*([\w.-]+)\s*/.exec(source);
  if (!head) return [malformed('the tool call does not begin with call:NAME', source)];
  const name = head[1]!;
  const reader = new GemmaReader(source, head[0].length, dialect.quote);
  try {
    const read = reader.object();
    reader.skipSpace();
    if (reader.at < source.length) reader.fail('expected the end');
    const given = Object.entries(read).map(([key, value]) => {
      const types = typesOf(tools, name, key);
      if (value instanceof Bare) return [key, types?.every(isText) ? value.text : plain(value.text)];
      return [key, typeof value === 'string' ? dialect.quoted(value, types) : value];
    });
    return [{ kind: 'call', call: { name, arguments: Object.fromEntries(given) } }];
  } catch (error) {
    if (!(error instanceof LiteralError)) throw error;
    const why = closed ? error.message : `${dialect.end} is missing`;
    return [malformed(`the arguments of ${name} cannot be read: ${why}`, source)];
  }
}

const THOUGHT = 'thought';
const GEMMA4: Dialect = { quote: '<|"|>', end: '<tool_call|>', quoted: (text) => text };

/** Gemma 4: `<|tool_call>call:add{a:1,note:<|"|>sum<|"|>}<tool_call|>`, reasoning in a channel. */
export const gemma4: ToolFormat = {
  name: 'gemma4',
  stopTokens: ['<tool_call|>'],
  blocks: [
    {
      open: '<|channel>',
      close: ['<channel|>'],
      sink: (body): Sink => {
        if (body.length < THOUGHT.length && THOUGHT.startsWith(body)) return { kind: 'unsure' };
        return { kind: 'reasoning', from: body.startsWith(THOUGHT) ? THOUGHT.length : 0 };
      },
      read: (body) => (THOUGHT.startsWith(body) ? [] : [{ kind: 'reasoning', text: body }]),
    },
    {
      open: '<|tool_call>',
      close: ['<tool_call|>'],
      read: (body, { tools, closed }) => readCall(body, tools, closed, GEMMA4),
    },
  ],
};

const FUNCTION_GEMMA: Dialect = { quote: '<escape>', end: '<end_function_call>', quoted: jsonOrText };

/** FunctionGemma: `<start_function_call>call:add{note:<escape>sum<escape>}<end_function_call>` */
export const functionGemma: ToolFormat = {
  name: 'functiongemma',
  stopTokens: ['<end_function_call>'],
  blocks: [
    {
      open: '<start_function_call>',
      close: ['<end_function_call>'],
      read: (body, { tools, closed }) => readCall(body, tools, closed, FUNCTION_GEMMA),
    },
  ],
};
