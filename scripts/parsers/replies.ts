import { AddedTokens } from '../../src/chat/added-tokens.ts';
import type { ToolFormat } from '../../src/chat/formats/grammar.ts';
import { ReplyParser } from '../../src/chat/reply-parser.ts';
import type { Random } from '../../src/lib/random.ts';
import type { ToolSchema } from '../../src/types.ts';
import { type Call, FAMILIES, schemaFor } from '../../test/tool-call-families.ts';

/** What replies are put together from, for one format after the other, and how they are read. */
const calls: Call[] = [
  { name: 'add', arguments: { a: 1, b: -2.5 } },
  { name: 'look_up', arguments: { word: 'río "q" 河', deep: { list: [null, true, {}] } } },
];
const tools = schemaFor(calls);
const added = new AddedTokens([]);

export const marksOf = ({ blocks, begins, ignored = [] }: ToolFormat): string[] => [
  ...[...blocks, ...(begins ? [begins] : [])].flatMap(({ open, close, until = [] }) => [
    open,
    ...close,
    ...until,
  ]),
  ...ignored,
];

/** Pieces of the syntax of all formats, and characters that trip parsers. */
export const SYNTAX: readonly string[] =
  '{ } [ ] ( ) " \' \\ , : ; = < > / | ` ``` \n \t {"name": "arguments": "parameters": "type": "id": <function= <parameter= </parameter> </function> <invoke name=" <parameter name=" <arg_key> </arg_key> <arg_value> </arg_value> <|message|> <|channel|> to=functions. [ARGS] [CALL_ID] <｜tool▁sep｜> <｜DSML｜invoke <｜DSML｜parameter <|"|> call: f(a= 1 -2.5e9 true None null 👩‍👩‍👧 \u0000 \ud800 \ufffd word'.split(
    ' ',
  );

const halves = (text: string) => [text.slice(0, text.length / 2), text.slice(text.length / 2)];

/** Good and bad calls of a format, whole and cut in two. */
export function writtenBy(format: ToolFormat): string[] {
  const family = FAMILIES.find((each) => each.format === format.name);
  if (!family) return [];
  const whole = [family.write(calls), family.write([calls[0]!]), family.malformed, family.unclosed];
  return [...whole, ...whole.flatMap(halves)];
}

export const fragmentsOf = (format: ToolFormat): string[] => [
  ...writtenBy(format),
  ...marksOf(format),
  ...SYNTAX,
];

/** A reply read at once, or in pieces of random length. */
export const read = (format: ToolFormat, text: string, pieces?: Random) =>
  readWith(format, text, tools, pieces);

export function readWith(format: ToolFormat, text: string, tools: readonly ToolSchema[], pieces?: Random) {
  const parser = new ReplyParser({ format, tools, added });
  const deltas = [];
  for (let at = 0; at < text.length; ) {
    const size = pieces ? 1 + pieces.integer(7) : text.length;
    deltas.push(parser.push(text.slice(at, at + size)));
    at += size;
  }
  deltas.push(parser.end());
  return {
    content: deltas.map(({ content }) => content).join(''),
    reasoning: deltas.map(({ reasoning }) => reasoning).join(''),
    calls: deltas.flatMap(({ toolCalls }) => toolCalls),
    problems: deltas.flatMap(({ problems }) => problems),
  };
}
