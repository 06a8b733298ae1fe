import { expect, test } from 'vitest';
import { AddedTokens } from '../added-tokens.ts';
import { toolFormatNamed } from '../detect.ts';
import { ReplyParser } from '../reply-parser.ts';

const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'add',
      description: '',
      parameters: {
        type: 'object',
        properties: { a: { type: 'integer' }, exact: { type: 'boolean' } },
        required: ['a'],
      },
    },
  },
] as const;

function read(format: string, text: string) {
  const parser = new ReplyParser({
    format: toolFormatNamed(format),
    tools: TOOLS,
    added: new AddedTokens([]),
  });
  const deltas = [parser.push(text), parser.end()];
  return {
    calls: deltas.flatMap(({ toolCalls }) => toolCalls.map(({ name, arguments: given }) => [name, given])),
    problems: deltas.flatMap(({ problems }) => problems.length),
    content: deltas.map(({ content }) => content).join(''),
  };
}

test.each([
  ['gemma4', '<|tool_call>call:add{a:1}<tool_ca', '<tool_ca'],
  [
    'minimax_m3',
    ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="add">]<]minimax[>[<a>1]<]minimax[>[</a>]<]minimax[>[</invoke>]<]mini',
    ']<]mini',
  ],
  ['hermes', '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool', '</tool'],
  ['glm', '<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n', ''],
])('%s: a whole call whose closing mark is broken off is a call', (format, text, left) => {
  const { calls, content } = read(format, text);
  expect({ calls, content }).toEqual({ calls: [['add', { a: 1 }]], content: left });
});

test.each([
  ['<tool_call>add\n<arg_key>exact</arg_key>\n<arg_value>true</arg_value>\n'],
  ['<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1'],
  ['<tool_call>add'],
])('glm: %j lacks an argument that is required, so it is a problem', (text) => {
  expect(read('glm', text)).toMatchObject({ calls: [], problems: expect.arrayContaining([1]) });
});

test('glm: True is a boolean where the schema asks for one', () => {
  const text =
    '<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>exact</arg_key>\n<arg_value>True</arg_value>\n</tool_call>';
  expect(read('glm', text).calls).toEqual([['add', { a: 1, exact: true }]]);
});
