import { expect, test } from 'vitest';
import type { Scored, Segment, Span, ToolRun } from '../../types.ts';
import { trajectorySpans } from './trajectory-spans.ts';

const run = (id: string, milliseconds: number, more: Partial<ToolRun> = {}): ToolRun => ({
  call: { id, name: 'search', arguments: { query: id } },
  result: `found ${id}`,
  milliseconds,
  ...more,
});

/** Two turns: the first calls a tool twice at once, and the second call ends first. */
const spans: Span[] = [
  { kind: 'wait', name: 'slot', turn: 0, start: 0, end: 10 },
  { kind: 'generate', name: 'generate', turn: 1, start: 10, end: 30 },
  { kind: 'tool', name: 'search', turn: 1, start: 30, end: 35 },
  { kind: 'tool', name: 'search', turn: 1, start: 30, end: 130 },
  { kind: 'generate', name: 'generate', turn: 2, start: 130, end: 150 },
  { kind: 'reward', name: 'right', turn: 2, start: 150, end: 151 },
];
const turn = { segment: 0, finish: 'stop' as const, toolCalls: [], toolRuns: [], problems: [] };
const problem = { kind: 'tool-threw' as const, message: 'no such page', source: 'search' };
const scored: Scored = {
  trajectory: {
    id: 'train/step-3/task-7/attempt-1',
    step: 3,
    taskIndex: 7,
    task: {},
    attempt: 1,
    segments: [{ ids: Int32Array.of(1, 2, 3, 4, 5, 6, 7, 8) } as Segment],
    chats: [],
    messages: [
      { role: 'user', content: 'who?' },
      { role: 'assistant', content: '', toolCalls: [{ id: 'a', name: 'search', arguments: { query: 'a' } }] },
      { role: 'tool', content: 'found a', toolCallId: 'a', name: 'search' },
      { role: 'assistant', content: 'me', reasoning: 'hm' },
    ],
    turns: [
      { ...turn, start: 2, end: 4, toolRuns: [run('a', 100), run('b', 5, { problem })] },
      { ...turn, start: 6, end: 8, finish: 'length' },
    ],
    text: 'me',
    end: { kind: 'truncated', why: 'tokens' },
    spans,
    extra: { agent: 'tool_agent' },
  },
  rewards: { right: 0.5 },
  reward: 0.5,
};
const context = {
  run: 'r',
  experiment: 'first',
  model: 'tiny',
  clockBegan: 1000,
  decode: (ids: Int32Array) => [...ids].map((id) => `<${id}>`).join(''),
};

test('a trajectory is a root and a child per span, each with what happened in it', () => {
  const [root, wait, chat, quick, slow, second, reward] = trajectorySpans(scored, context);
  expect(root).toMatchObject({
    name: 'agent_loop',
    parentId: undefined,
    start: 1000,
    end: 1151,
    error: undefined,
  });
  expect(root!.attributes).toMatchObject({
    'gen_ai.agent.name': 'tool_agent',
    'rollcall.step': 3,
    'rollcall.sample_index': 7,
    'rollcall.attempt': 1,
    'rollcall.end': 'truncated: tokens',
    'rollcall.rewards.right': 0.5,
    'mlflow.traceTag.experiment_name': 'first',
    'mlflow.traceTag.validate': 'false',
    'gen_ai.input.messages': '[{"role":"user","parts":[{"type":"text","content":"who?"}]}]',
  });
  expect(JSON.parse(String(root!.attributes['gen_ai.output.messages']))).toEqual([
    { role: 'assistant', parts: [{ type: 'tool_call', id: 'a', name: 'search', arguments: { query: 'a' } }] },
    { role: 'tool', parts: [{ type: 'tool_call_response', id: 'a', response: 'found a' }] },
    {
      role: 'assistant',
      parts: [
        { type: 'reasoning', content: 'hm' },
        { type: 'text', content: 'me' },
      ],
    },
  ]);
  expect(wait!.name).toBe('wait slot');
  expect(chat!.attributes).toMatchObject({
    'gen_ai.usage.input_tokens': 2,
    'gen_ai.usage.output_tokens': 2,
    'rollcall.response_ids': [3, 4],
    prompt_text: '<1><2>',
    response_text: '<3><4>',
  });
  expect(second!.attributes).toMatchObject({
    'gen_ai.response.finish_reasons': ['length'],
    prompt_text: '<1><2><3><4><5><6>',
  });
  // By duration: the quick one is call b.
  expect(quick).toMatchObject({ name: 'execute_tool search', error: 'tool-threw: no such page' });
  expect(quick!.attributes).toMatchObject({
    'gen_ai.tool.call.id': 'b',
    'gen_ai.tool.call.arguments': '{"query":"b"}',
  });
  expect(slow!.attributes).toMatchObject({
    'gen_ai.tool.call.id': 'a',
    'gen_ai.tool.call.result': 'found a',
  });
  expect(slow!.error).toBeUndefined();
  expect(reward!.name).toBe('reward right');
});

test('ids are those of the trajectory in its run: the same again, others for another', () => {
  const ids = (key: string, attempt: string) =>
    trajectorySpans(
      { ...scored, trajectory: { ...scored.trajectory, id: attempt } },
      { ...context, run: key },
    ).map(({ traceId, spanId }) => `${traceId}/${spanId}`);
  const all = [...ids('r', 'a'), ...ids('r', 'b'), ...ids('s', 'a')];
  expect(new Set(all).size).toBe(all.length);
  expect(ids('r', 'a')).toEqual(all.slice(0, spans.length + 1));
  expect(all[0]).toMatch(/^[0-9a-f]{32}\/[0-9a-f]{16}$/);
});

test('a failed trajectory, and one without spans, are still traces', () => {
  const end = { kind: 'failed' as const, boundary: 'agent' as const, message: 'it broke' };
  const [root, ...rest] = trajectorySpans(
    { trajectory: { ...scored.trajectory, spans: [], end }, rewards: {}, reward: undefined },
    { ...context, decode: undefined },
  );
  expect(rest).toEqual([]);
  expect(root).toMatchObject({ error: 'agent: it broke', start: 1000, end: 1000 });
  expect(root!.attributes).not.toHaveProperty('rollcall.reward');
});
