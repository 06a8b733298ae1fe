import { byteModel } from 'rollcall/testing';
import { expect, test } from 'vitest';
import type { Message } from '../types.ts';
import { demonstrationTokens } from './demonstration.ts';

const { format } = byteModel();
const messages: Message[] = [
  { role: 'user', content: 'six times seven?' },
  {
    role: 'assistant',
    content: '',
    toolCalls: [{ id: 'call_0', name: 'multiply', arguments: { a: 6, b: 7 } }],
  },
  { role: 'tool', content: '42', toolCallId: 'call_0', name: 'multiply' },
  { role: 'assistant', content: 'It is 42.' },
];

test('a demonstration is the prompt, the replies through their stop token, and what answers them', () => {
  const [whole, ...more] = demonstrationTokens(format, messages, []);
  expect(more).toEqual([]);
  const text = (keep: number) => format.decode(whole!.ids.filter((_, at) => whole!.trained[at] === keep));
  expect(text(1)).toBe(
    '<tool_call>{"name": "multiply", "arguments": {"a": 6, "b": 7}}</tool_call><|im_end|>It is 42.<|im_end|>',
  );
  expect(text(0)).toContain('six times seven?');
  expect(text(0)).toContain('42');
  // The tokens before the last reply are the prompt a rollout would have sent.
  const prompt = format.renderPrompt(messages.slice(0, 3), []).ids;
  expect([...whole!.ids.subarray(0, prompt.length)]).toEqual([...prompt]);
});

test('a demonstration that begins with the assistant is refused', () => {
  expect(() => demonstrationTokens(format, [messages[3]!], [])).toThrow(/something must ask first/);
});
