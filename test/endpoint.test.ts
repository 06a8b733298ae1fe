import { type AgentContext, agent, rollout, tool } from 'rollcall';
import { byteModel, type ScriptedEngineOptions, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { CLIENTS } from './endpoint-clients.ts';

const { tokenizer, format } = byteModel();

const add = tool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => String(a + b),
});

const call = (name: string, input: object) =>
  `<tool_call>${JSON.stringify({ name, arguments: input })}</tool_call>`;

const QUESTION = '1 + 2?';

/** One attempt of an agent against a scripted engine. */
async function play(
  run: (context: AgentContext) => Promise<unknown>,
  reply: ScriptedEngineOptions['reply'],
  options: Partial<Parameters<typeof rollout>[0]> = {},
) {
  const server = scriptedEngine({ tokenizer, reply });
  const [group] = await rollout({
    tasks: [{ index: 0, task: {} }],
    attempts: 1,
    step: 1,
    agent: agent(async (context) => void (await run(context)), { tools: [add] }),
    server,
    format,
    rewards: [],
    seed: 1,
    ...options,
  });
  return { trajectory: group!.attempts[0]!.trajectory, server };
}

async function own({ model, tools }: AgentContext) {
  const chat = model.chat({ system: 'S', tools });
  chat.user(QUESTION);
  for (;;) {
    const reply = await chat.sample();
    if (reply.final) return;
    await chat.runTools(reply);
  }
}

/** Words and a call, a call that cannot be read, one of a tool that does not exist, two at once, an answer. */
const SCRIPT = [
  `Let me see.${call('add', { a: 1, b: 2 })}`,
  'Hm. <tool_call>{"name": "add", "arguments": {"a"</tool_call>',
  call('multiply', { a: 1 }),
  `<think>both</think>${call('add', { a: 3, b: 4 })}${call('add', { b: 6, a: 5 })}`,
  'It is 7.',
];
const script: ScriptedEngineOptions['reply'] = ({ turn }) => SCRIPT[turn]!;

test.each(Object.entries(CLIENTS))('%s samples the tokens of an own loop', async (_, client) => {
  const expected = await play(own, script);
  const { trajectory } = await play(async ({ endpoint, tools }) => {
    const { fetch: _, ...overHttp } = await endpoint();
    expect(await client(overHttp, { system: 'S', question: QUESTION, tools })).toBe('It is 7.');
  }, script);
  expect(trajectory.end).toEqual({ kind: 'completed' });
  expect(trajectory.segments).toEqual(expected.trajectory.segments);
  expect(trajectory.turns.map(({ toolRuns }) => toolRuns.map(({ result }) => result))).toEqual(
    expected.trajectory.turns.map(({ toolRuns }) => toolRuns.map(({ result }) => result)),
  );
  expect(trajectory.endpoint).toEqual({ requests: 3, forcedSampling: 0, ignoredFields: {} });
});

test('without a socket, the clients do the same', async () => {
  const expected = await play(own, script);
  for (const client of Object.values(CLIENTS)) {
    const { trajectory } = await play(async ({ endpoint, tools }) => {
      await client(await endpoint(), { system: 'S', question: QUESTION, tools });
    }, script);
    expect(trajectory.segments).toEqual(expected.trajectory.segments);
  }
});
