import { malformed, type Piece, type ToolFormat } from './grammar.ts';
import { LiteralError, LiteralReader } from './python-literal.ts';

const QUOTE = '<|"|>';
const KEY = /[\w.$-]+/y;
const DEEPEST = 200;

/** `{key:value,…}` with bare keys, strings between `<|"|>`, numbers, true, false, null, lists. */
class GemmaReader extends LiteralReader {
  object(depth = 0): Record<string, unknown> {
    if (depth > DEEPEST) this.fail(`nested deeper than ${DEEPEST} levels`);
    this.expect('{');
    const entries: [string, unknown][] = [];
    while (!this.take('}')) {
      entries.push([this.#key(), this.#entry(depth)]);
      if (!this.take(',')) {
        this.expect('}');
        break;
      }
    }
    return Object.fromEntries(entries);
  }

  #key(): string {
    this.skipSpace();
    if (this.text.startsWith(QUOTE, this.at)) return this.#quoted();
    KEY.lastIndex = this.at;
    const [key] = KEY.exec(this.text) ?? [];
    if (key === undefined) return this.fail('expected a key');
    this.at += key.length;
    return key;
  }

  #entry(depth: number): unknown {
    this.expect(':');
    return this.#any(depth);
  }

  #any(depth: number): unknown {
    this.skipSpace();
    if (this.text.startsWith(QUOTE, this.at)) return this.#quoted();
    if (this.text[this.at] === '{') return this.object(depth + 1);
    if (this.text[this.at] !== '[') return this.value(depth);
    if (depth > DEEPEST) this.fail(`nested deeper than ${DEEPEST} levels`);
    this.expect('[');
    const items: unknown[] = [];
    while (!this.take(']')) {
      items.push(this.#any(depth + 1));
      if (!this.take(',')) {
        this.expect(']');
        break;
      }
    }
    return items;
  }

  #quoted(): string {
    const start = this.at + QUOTE.length;
    const end = this.text.indexOf(QUOTE, start);
    if (end < 0) {
      this.at = this.text.length;
      return this.fail('the string is not closed');
    }
    this.at = end + QUOTE.length;
    return this.text.slice(start, end);
  }
}

function readCall(body: string, closed: boolean): Piece[] {
  const source = body.trim();
  if (!closed) return [malformed('the tool call is not closed: <tool_call|> is missing', source)];
  const head = /^call:\s*([\w.-]+)\s*/.exec(source);
  if (!head) return [malformed('the tool call does not begin with call:NAME', source)];
  const reader = new GemmaReader(source, head[0].length);
  try {
    const given = reader.object();
    reader.skipSpace();
    if (reader.at < source.length) reader.fail('expected the end');
    return [{ kind: 'call', call: { name: head[1]!, arguments: given } }];
  } catch (error) {
    if (!(error instanceof LiteralError)) throw error;
    return [malformed(`the arguments of ${head[1]} cannot be read: ${error.message}`, source)];
  }
}

/** Gemma 4: `<|tool_call>call:add{a:1,note:<|"|>sum<|"|>}<tool_call|>`, reasoning in a channel. */
export const gemma4: ToolFormat = {
  name: 'gemma4',
  stopTokens: ['<tool_call|>'],
  blocks: [
    { open: '<|channel>thought', close: ['<channel|>'], sink: () => ({ kind: 'reasoning', from: 0 }) },
    { open: '<|tool_call>', close: ['<tool_call|>'], read: (body, { closed }) => readCall(body, closed) },
  ],
};
