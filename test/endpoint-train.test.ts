import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { type AgentContext, agent, arrayDataset, reward, type TrainOptions, tool, train } from 'rollcall';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { CLIENTS } from './endpoint-clients.ts';
import { tinyModel } from './tiny-model.ts';

const add = tool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => String(a + b),
});

const SYSTEM = 'Add.';
const QUESTION = '1 + 2?';

async function own({ model, tools }: AgentContext) {
  const chat = model.chat({ system: SYSTEM, tools });
  chat.user(QUESTION);
  for (;;) {
    const reply = await chat.sample();
    if (reply.final) return;
    await chat.runTools(reply);
  }
}

let model: string;
beforeAll(async () => {
  model = await tinyModel();
});

async function weightsAfter(
  run: (context: AgentContext) => Promise<unknown>,
  options: Partial<TrainOptions> = {},
) {
  const runDir = await mkdtemp(join(tmpdir(), 'rollcall-endpoint-'));
  const metrics: Record<string, number>[] = [];
  for await (const report of train({
    model,
    runDir,
    tasks: arrayDataset([{}, {}]),
    agent: agent(async (context) => void (await run(context)), { tools: [add] }),
    rewards: [reward('length', ({ trajectory }) => trajectory.text.length % 7)],
    steps: 2,
    tasksPerStep: 2,
    attemptsPerTask: 4,
    limits: { tokensPerReply: 12, turns: 3 },
    optimizer: { learningRate: 1e-2 },
    evaluation: { before: false, every: 0 },
    ...options,
  })) {
    metrics.push(report.metrics);
  }
  const weights = await readFile(join(runDir, 'checkpoints', 'global_step_2', 'model.safetensors'));
  return { weights, metrics };
}

/** All of them give the same tokens (endpoint.test.ts); `npm run prove agents` trains with all of them. */
const TRAINED = ['chat completions, streamed', 'responses by previous_response_id', 'messages, streamed'];

test('after two steps, a client of each dialect gives the weights of an own loop, bit for bit', {
  timeout: 180_000,
}, async () => {
  const expected = await weightsAfter(own);
  const before = await readFile(join(model, 'model.safetensors'));
  expect(expected.weights.equals(before)).toBe(false);
  for (const name of TRAINED) {
    const client = CLIENTS[name]!;
    const { weights, metrics } = await weightsAfter(async ({ endpoint, tools }) => {
      const { fetch: _, ...overHttp } = await endpoint();
      await client(overHttp, { system: SYSTEM, question: QUESTION, tools });
    });
    expect(weights.equals(expected.weights), name).toBe(true);
    expect(metrics.at(-1)!['endpoint/requests']).toBeGreaterThanOrEqual(8);
  }
});

test('a step that trains no token is an error that says why', { timeout: 60_000 }, async () => {
  const hot = async ({ endpoint }: AgentContext) => {
    const { openai, apiKey } = await endpoint();
    const client = new OpenAI({ baseURL: openai, apiKey });
    const messages = [{ role: 'user' as const, content: 'go' }];
    await client.chat.completions.create({ model: 'policy', temperature: 0.5, messages });
  };
  await expect(weightsAfter(hot, { endpoint: { sampling: 'exclude' } })).rejects.toThrow(
    /^step 1 sampled \d+ tokens and trains none of them: \d+ tokens were sampled with a temperature, top-p or penalty that the agent chose/,
  );
  const { metrics } = await weightsAfter(hot, { steps: 2 });
  expect(metrics[0]).toMatchObject({
    'endpoint/requests': 8,
    'endpoint/forced_sampling': 8,
    'segments/mean': 1,
  });
});
