import OpenAI from 'openai';
import { type AgentContext, agent, rollout, type Tool, tool } from 'rollcall';
import { byteModel, type ScriptedEngineOptions, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { z } from 'zod';

const { tokenizer, format } = byteModel();

const add: Tool = tool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => String(a + b),
});

const call = (name: string, input: object) =>
  `<tool_call>${JSON.stringify({ name, arguments: input })}</tool_call>`;

/** One attempt of an agent against a scripted engine. */
async function play(
  run: (context: AgentContext<{ question: string }>) => Promise<void>,
  reply: ScriptedEngineOptions['reply'],
) {
  const server = scriptedEngine({ tokenizer, reply });
  const [group] = await rollout({
    tasks: [{ index: 0, task: { question: '1 + 2?' } }],
    attempts: 1,
    step: 1,
    agent: agent(run, { tools: [add] }),
    server,
    format,
    rewards: [],
    seed: 1,
  });
  return { trajectory: group!.attempts[0]!.trajectory, server };
}

async function own({ model, task, tools }: AgentContext<{ question: string }>) {
  const chat = model.chat({ system: 'S', tools });
  chat.user(task.question);
  for (;;) {
    const reply = await chat.sample();
    if (reply.final) return;
    await chat.runTools(reply);
  }
}

/** The same loop by the plain client. */
async function chatClient(client: OpenAI, question: string) {
  const messages: OpenAI.ChatCompletionMessageParam[] = [
    { role: 'system', content: 'S' },
    { role: 'user', content: question },
  ];
  const { name, description, parameters } = add.schema.function;
  for (;;) {
    const { choices } = await client.chat.completions.create({
      model: 'policy',
      messages,
      tools: [{ type: 'function', function: { name, description, parameters: { ...parameters } } }],
    });
    const { message } = choices[0]!;
    messages.push(message);
    if (!message.tool_calls) return;
    for (const made of message.tool_calls) {
      if (made.type !== 'function') throw new Error(made.type);
      const { a, b } = JSON.parse(made.function.arguments) as { a: number; b: number };
      messages.push({ role: 'tool', tool_call_id: made.id, content: String(a + b) });
    }
  }
}

const SCRIPT = [
  call('add', { a: 1, b: 2 }),
  call('add', { a: 1 }).slice(0, -20),
  call('add', { a: 3, b: 4 }),
  'It is 7.',
];

test.each(['over HTTP', 'without a socket'])(
  'the openai client samples the tokens of an own loop, %s',
  async (how) => {
    const expected = await play(own, ({ turn }) => SCRIPT[turn]!);
    const { trajectory } = await play(
      async ({ endpoint, task }) => {
        const { openai, apiKey, fetch } = await endpoint();
        await chatClient(
          new OpenAI({ baseURL: openai, apiKey, ...(how === 'over HTTP' ? {} : { fetch }) }),
          task.question,
        );
      },
      ({ turn }) => SCRIPT[turn]!,
    );
    expect(trajectory.end).toEqual({ kind: 'completed' });
    expect(trajectory.segments).toEqual(expected.trajectory.segments);
    expect(trajectory.turns).toHaveLength(4);
    expect(trajectory.endpoint).toEqual({ requests: 3, forcedSampling: 0, ignoredFields: {} });
  },
);
