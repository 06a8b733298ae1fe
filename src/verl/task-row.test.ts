import { describe, expect, test } from 'vitest';
import { taskRow } from './task-row.ts';

const bytes = new Uint8Array([1, 2, 3]);

test('a row of verl’s tool script becomes a task with one spelling for each thing', () => {
  const row = {
    data_source: 'openai/gsm8k',
    agent_name: 'tool_agent',
    prompt: [
      { role: 'system', content: 's' },
      { role: 'user', content: 'q' },
    ],
    ability: 'math',
    reward_model: { style: 'rule', ground_truth: '72' },
    extra_info: {
      index: 3,
      need_tools_kwargs: true,
      tools_kwargs: {
        calc_gsm8k_reward: { create_kwargs: { ground_truth: '72' }, execute_kwargs: null },
        other: null,
      },
      interaction_kwargs: { name: 'gsm8k', query: 'q' },
    },
  };
  expect(taskRow(row)).toEqual({
    prompt: row.prompt,
    dataSource: 'openai/gsm8k',
    ability: 'math',
    groundTruth: '72',
    agentName: 'tool_agent',
    toolsKwargs: { calc_gsm8k_reward: { create_kwargs: { ground_truth: '72' } } },
    interactionKwargs: { name: 'gsm8k', query: 'q' },
    extraInfo: row.extra_info,
  });
});

test('the spelling tool_kwargs is the same thing', () => {
  const row = { prompt: 'q', extra_info: { tool_kwargs: { calculator: { create_kwargs: { a: 1 } } } } };
  expect(taskRow(row).toolsKwargs).toEqual({ calculator: { create_kwargs: { a: 1 } } });
});

test('a geometry row, a list of typed parts, is one user message', () => {
  const row = {
    prompt: [
      { type: 'image', image: '/path/to/geometry.png' },
      { type: 'text', text: 'Find the angle...' },
    ],
    tools: ['geometry_calculator', 'angle_solver'],
  };
  expect(taskRow(row)).toMatchObject({
    prompt: [
      {
        role: 'user',
        content: [
          { type: 'image', source: { path: '/path/to/geometry.png' } },
          { type: 'text', text: 'Find the angle...' },
        ],
      },
    ],
    tools: ['geometry_calculator', 'angle_solver'],
  });
});

test('multi-turn prompts keep assistant and tool messages', () => {
  const prompt = [
    { role: 'user', content: 'Natalia sold clips to...' },
    { role: 'assistant', content: 'Let me calculate...' },
    { role: 'tool', content: '48', name: 'calculator' },
  ];
  expect(taskRow({ prompt }).prompt).toEqual([
    prompt[0],
    prompt[1],
    { role: 'tool', content: '48', name: 'calculator', toolCallId: 'prompt-2' },
  ]);
});

test('tool calls of an assistant message in OpenAI’s form are read', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":1}' } };
  expect(taskRow({ prompt: [{ role: 'assistant', content: '', tool_calls: [call] }] }).prompt).toEqual([
    { role: 'assistant', content: '', toolCalls: [{ id: 'c1', name: 'add', arguments: { a: 1 } }] },
  ]);
});

test('each <image> in a text takes the next image of the row', () => {
  const row = {
    prompt: [{ role: 'user', content: '<image>Compare with <image>.' }],
    images: [{ bytes, path: null }, { path: 'b.png' }],
  };
  expect(taskRow(row).prompt).toEqual([
    {
      role: 'user',
      content: [
        { type: 'image', source: { bytes } },
        { type: 'text', text: 'Compare with ' },
        { type: 'image', source: { path: 'b.png' } },
        { type: 'text', text: '.' },
      ],
    },
  ]);
});

describe('what is not a task is named by column', () => {
  const user = (content: unknown) => [{ role: 'user', content }];
  test.each([
    [{}, 'column prompt is missing: a row needs a prompt'],
    [{ prompt: [] }, 'column prompt is an empty list'],
    [{ prompt: 3 }, 'column prompt is neither text nor a list of messages; it is 3'],
    [
      { prompt: [{ role: 'robot', content: 'x' }] },
      'column prompt[0].role is none of system, user, assistant, tool; it is "robot"',
    ],
    [{ prompt: user(5) }, 'column prompt[0].content is neither text nor a list of parts; it is 5'],
    [{ prompt: user([{ type: 'video' }]) }, 'column prompt[0].content[0] is neither'],
    [
      { prompt: user('<image>x') },
      'column prompt[0].content has an <image> without an image; it is "<image>x"',
    ],
    [
      { prompt: user('x'), images: [{ path: 'a' }] },
      'column images holds 1 images, but the prompt has a place for 0',
    ],
    [{ prompt: user('<image>'), images: 'a.png' }, 'column images is not a list of images'],
    [{ prompt: user('<image>'), images: [7] }, 'column images[0] is not an image'],
    [{ prompt: 'x', reward_model: '72' }, 'column reward_model is not a struct; it is "72"'],
    [{ prompt: 'x', extra_info: [] }, 'column extra_info is not a struct'],
    [{ prompt: 'x', data_source: 1 }, 'column data_source is not text; it is 1'],
    [{ prompt: 'x', tools: 'calculator' }, 'column tools is not a list of names'],
    [
      { prompt: 'x', extra_info: { need_tools_kwargs: true } },
      'column extra_info.tools_kwargs is empty, but need_tools_kwargs is true',
    ],
  ])('%j', (row, message) => {
    expect(() => taskRow(row)).toThrow(message);
  });
});
