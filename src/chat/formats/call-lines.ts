import type { ToolSchema } from '../../types.ts';
import { type Block, malformed, type Piece, THINK, type ToolFormat } from './grammar.ts';
import { jsonBlock } from './json-block.ts';
import { LiteralError, LiteralReader } from './python-literal.ts';
import { readCall } from './pythonic.ts';

interface Lines {
  /** What may stand in front of a call in its line, such as `result = `. */
  readonly before: RegExp;
  /** Text in which no call was found at all. */
  otherwise(text: string): Piece[];
}

/** Calls one under another. A line that cannot be read is a problem, and the next line is read. */
function readLines(text: string, tools: readonly ToolSchema[], { before, otherwise }: Lines): Piece[] {
  const pieces: Piece[] = [];
  const reader = new LiteralReader(text);
  reader.skipSpace();
  while (reader.at < text.length) {
    const start = reader.at;
    const head = before.exec(text.slice(start, start + LONGEST_HEAD))?.[0] ?? '';
    reader.at += head.length;
    try {
      const call = readCall(reader, tools);
      for (let open = head.split('(').length - 1; open > 0; open--) reader.expect(')');
      pieces.push({ kind: 'call', call });
      reader.take(',');
      reader.take(';');
    } catch (error) {
      if (!(error instanceof LiteralError)) throw error;
      const line = text.indexOf('\n', Math.max(start, error.at));
      reader.at = line < 0 ? text.length : line;
      pieces.push(
        malformed(`the tool call cannot be read: ${error.message}`, text.slice(start, reader.at).trim()),
      );
    }
    reader.skipSpace();
  }
  return pieces.some(({ kind }) => kind === 'call') ? pieces : otherwise(text);
}

const LONGEST_HEAD = 128;
const NOTHING = /^/;
const refuse = (text: string): Piece[] =>
  text.trim() === ''
    ? []
    : [malformed('the tool call is not a call of a tool with literal values', text.trim())];

const olmo: Block = {
  open: '<function_calls>',
  close: ['</function_calls>'],
  read: (body, { tools }) => readLines(body, tools, { before: NOTHING, otherwise: refuse }),
};

/**
 * Olmo 3: Python calls, one a line.
 *
 *   <function_calls>
 *   add(a=1, b=2)
 *   look_up(word="river")
 *   </function_calls>
 */
export const olmo3: ToolFormat = { name: 'olmo3', blocks: [THINK, olmo] };

const code: Block = {
  open: '<code>',
  close: ['</code>'],
  read: (body, { tools }) =>
    readLines(body, tools, { before: /^(?:[A-Za-z_]\w*\s*=\s*)?(?:print\s*\(\s*)?/, otherwise: refuse }),
};

/**
 * SmolLM3: JSON calls as Hermes writes them, or Python. Of Python only calls with literal values are read, alone,
 * assigned or printed; nothing is executed.
 *
 *   <code>
 *   print(add(a=1, b=2))
 *   </code>
 */
export const smollm3: ToolFormat = {
  name: 'smollm3',
  blocks: [THINK, jsonBlock('<tool_call>', ['</tool_call>']), code],
};
