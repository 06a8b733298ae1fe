import { AddedTokens } from '../../../src/chat/added-tokens.ts';
import { TOOL_FORMATS } from '../../../src/chat/detect.ts';
import type { ReplyDelta } from '../../../src/chat/format.ts';
import { ReplyParser } from '../../../src/chat/reply-parser.ts';
import type { ToolSchema } from '../../../src/types.ts';
import { FAMILIES } from '../../../test/tool-call-families.ts';
import type { FuzzTarget } from '../target.ts';

const added = new AddedTokens([]);
const properties = {
  ...{ a: { type: 'integer' }, b: { type: 'array', items: { type: 'object' } }, c: { type: 'object' } },
  ...{ text: { type: 'string' }, any: {}, two: { anyOf: [{ type: 'null' }, { type: 'number' }] } },
};
const tools: ToolSchema[] = [
  { type: 'function', function: { name: 'f', description: '', parameters: { type: 'object', properties } } },
];

/** The reply in pieces of `size`: what all of them tell, put together. */
function parse(format: (typeof TOOL_FORMATS)[number], text: string, size: number): string {
  const parser = new ReplyParser({ format, tools, added, streams: true });
  const deltas: ReplyDelta[] = [];
  for (let at = 0; at < text.length; at += size) deltas.push(parser.push(text.slice(at, at + size)));
  deltas.push(parser.end());
  return JSON.stringify({
    content: deltas.map(({ content }) => content).join(''),
    reasoning: deltas.map(({ reasoning }) => reasoning).join(''),
    toolCalls: deltas.flatMap(({ toolCalls }) => toolCalls),
    problems: deltas.flatMap(({ problems }) => problems),
  });
}

/** Replies in every tool-call format (the first byte says which). Neither whole nor in pieces may it throw or differ. */
export const target: FuzzTarget = {
  name: 'calls',
  seeds: () =>
    FAMILIES.flatMap((family) => {
      const number = TOOL_FORMATS.findIndex(({ name }) => name === family.format);
      const texts = [
        family.write([{ name: 'f', arguments: { a: 1, text: 'x "y"', c: { d: [null, true, -1.5e3] } } }]),
        `<think>hm</think>words ${family.malformed}`,
        family.unclosed,
      ];
      return texts.map((text) => Buffer.concat([Buffer.of(number), Buffer.from(text)]));
    }),
  words: [...new Set(FAMILIES.flatMap(({ special, plain }) => [...special, ...plain]))],
  run: (bytes) => {
    const format = TOOL_FORMATS[(bytes[0] ?? 0) % TOOL_FORMATS.length]!;
    const text = bytes.toString('utf8', 1);
    const whole = parse(format, text, Number.MAX_SAFE_INTEGER);
    const pieces = parse(format, text, 3);
    if (whole !== pieces) throw new TypeError(`${format.name}: whole ${whole}; in pieces ${pieces}`);
  },
};
