import { describe, expect, test } from 'vitest';
import { byteLevelTokenizer, templateFile } from '../../test/chat-models.ts';
import type { Message, ToolSchema } from '../types.ts';
import { createChatFormat } from './chat-format.ts';
import { selfTest } from './self-test.ts';

const MARKS = ['<s>', '</s>', '[INST]', '[/INST]', '[AVAILABLE_TOOLS]', '[/AVAILABLE_TOOLS]', '[TOOL_CALLS]'];
const tokenizer = byteLevelTokenizer(
  [...MARKS, '[TOOL_RESULTS]', '[/TOOL_RESULTS]'].map((text) => ({ text })),
  { bos_token: '<s>', eos_token: '</s>' },
);
const format = createChatFormat({ tokenizer, template: templateFile('mistral-nemo') });
const parameters = { type: 'object', properties: { word: { type: 'string' } } };
const tools: ToolSchema[] = [
  { type: 'function', function: { name: 'look_up', description: 'Finds it.', parameters } },
];

const system: Message = { role: 'system', content: 'Be brief.' };
const asked: Message = { role: 'user', content: 'What is a river?' };
const call = { id: 'abcdefghi', name: 'look_up', arguments: { word: 'river' } };
const calling: Message = { role: 'assistant', content: '', toolCalls: [call] };
const said: Message = { role: 'assistant', content: 'Water.' };
const answer: Message = { role: 'tool', content: '7', toolCallId: 'abcdefghi', name: 'look_up' };
const more: Message = { role: 'user', content: 'And a lake?' };

/** What follows the prompt and a sampled reply; undefined where a new segment begins. */
function extended(dialogue: readonly Message[], sampled: string, next: Message, given: ToolSchema[]) {
  const prompt = format.renderPrompt(dialogue.slice(0, -1), given).ids;
  const reply = tokenizer.encode(sampled);
  const ids = Int32Array.from([...prompt, ...reply]);
  const request = { ids, replyLength: reply.length, messages: dialogue, newMessages: [next], tools: given };
  const extension = format.extend(request);
  return extension && { text: format.decode(extension.ids), all: [...ids, ...extension.ids] };
}

const CALL = '[TOOL_CALLS][{"name": "look_up", "arguments": {"word": "river"}, "id": "abcdefghi"}]</s>';

describe('a template that puts system and tools in front of the last user message', () => {
  test('a tool result is appended exactly: the tools stay where they are', () => {
    const made = extended([asked, calling], CALL, answer, tools);
    expect(made?.text).toBe('[TOOL_RESULTS]{"content": 7, "call_id": "abcdefghi"}[/TOOL_RESULTS]');
    expect(made?.all).toEqual([...format.renderPrompt([asked, calling, answer], tools).ids]);
  });
  test('a user message is appended exactly where nothing moves', () => {
    const made = extended([asked, said], 'Water.</s>', more, []);
    expect(made?.text).toBe('[INST]And a lake?[/INST]');
    expect(made?.all).toEqual([...format.renderPrompt([asked, said, more], []).ids]);
  });
  test('a user message that moves the tools or the system message begins a new segment', () => {
    expect(extended([asked, said], 'Water.</s>', more, tools)).toBeUndefined();
    expect(extended([system, asked, said], 'Water.</s>', more, [])).toBeUndefined();
  });
  test('a tool result with which the system message disappears begins a new segment', () => {
    expect(extended([system, asked, calling], CALL, answer, tools)).toBeUndefined();
  });
  test('the self-test passes and says which turns begin a new segment', () => {
    const { checks, passed } = selfTest(format, { tools: true });
    expect(passed).toBe(true);
    const appended = checks.filter(({ outcome }) => outcome === 'passed').map(({ name }) => name);
    expect(appended).toContain('one call, reply 1');
    const segments = checks.filter(({ outcome }) => outcome === 'segments').map(({ name }) => name);
    expect(segments).toContain('several turns of calls, reply 1');
  });
});
