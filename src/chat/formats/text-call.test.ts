import { describe, expect, test } from 'vitest';
import type { ToolSchema } from '../../types.ts';
import { AddedTokens } from '../added-tokens.ts';
import { toolFormatNamed } from '../detect.ts';
import { ReplyParser } from '../reply-parser.ts';

const tool = (name: string, properties: Record<string, { type: string }>): ToolSchema => ({
  type: 'function',
  function: { name, description: '', parameters: { type: 'object', properties } },
});
const tools = [
  tool('calculator', { expression: { type: 'string' } }),
  tool('wait', { seconds: { type: 'number' } }),
  tool('add', { a: { type: 'number' }, b: { type: 'number' } }),
];

function read(text: string) {
  const parser = new ReplyParser({ format: toolFormatNamed('text'), tools, added: new AddedTokens([]) });
  const [first, last] = [parser.push(text), parser.end()];
  return {
    content: first.content + last.content,
    calls: [...first.toolCalls, ...last.toolCalls].map(({ name, arguments: given }) => ({ name, given })),
    problems: [...first.problems, ...last.problems].map(({ source }) => source),
  };
}

describe('calls written as text', () => {
  test('the words in parentheses are the first argument of the tool', () => {
    expect(read('The total is calculator(123 + 456) apples.')).toEqual({
      content: 'The total is  apples.',
      calls: [{ name: 'calculator', given: { expression: '123 + 456' } }],
      problems: [],
    });
  });
  test('parentheses inside the argument belong to it', () => {
    expect(read('calculator((1 + 2) * (3 - 4))').calls).toEqual([
      { name: 'calculator', given: { expression: '(1 + 2) * (3 - 4)' } },
    ]);
  });
  test('an argument has the type of its schema, and several have names or their order', () => {
    expect(read('wait(2.5) add(a=1, b=2) add(3, 4)').calls).toEqual([
      { name: 'wait', given: { seconds: 2.5 } },
      { name: 'add', given: { a: 1, b: 2 } },
      { name: 'add', given: { a: 3, b: 4 } },
    ]);
  });
  test('a name that no tool has is text', () => {
    expect(read('print(1) and f(x) = 2')).toEqual({
      content: 'print(1) and f(x) = 2',
      calls: [],
      problems: [],
    });
  });
  test('a call that is not closed is a problem, and what stands before it is kept', () => {
    expect(read('First calculator(1) then calculator(2 +')).toEqual({
      content: 'First  then',
      calls: [{ name: 'calculator', given: { expression: '1' } }],
      problems: ['calculator(2 +'],
    });
  });
});
