import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, expect, test } from 'vitest';
import { byteModel, scriptedEngine } from '../../testing/index.ts';
import { reward } from '../reward/reward.ts';
import { rollout } from '../rollout.ts';
import type { Task } from '../types.ts';
import { type RemoteAgentOptions, remoteAgent } from './remote-agent.ts';

const { tokenizer, format } = byteModel();

/** What the service is sent. */
interface Call {
  readonly task: { readonly question: string };
  readonly openai: string;
  readonly url: string;
  readonly apiKey: string;
  readonly attempt: number;
  readonly id: string;
  readonly seconds: number;
}

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

const post = async ({ apiKey }: Call, url: string, body: object) => {
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  return (await response.json()) as { readonly id: string };
};
const ask = (call: Call) =>
  post(call, `${call.openai}/chat/completions`, {
    model: 'policy',
    messages: [{ role: 'user', content: call.task.question }],
  });

/** Attempts by a service that answers with what `work` gives: a status and a body. */
async function play(
  work: (call: Call) => Promise<readonly [number, string]>,
  options: Omit<RemoteAgentOptions, 'url'> = {},
) {
  let calls = 0;
  server = createServer(async (request, response) => {
    calls++;
    const [status, body] = await work(JSON.parse(await text(request)) as Call);
    response.writeHead(status).end(body);
  });
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const [group] = await rollout<Task>({
    tasks: [{ index: 0, task: { question: 'six?' } }],
    attempts: 1,
    step: 1,
    agent: remoteAgent({ url: `http://127.0.0.1:${port}/run`, ...options }),
    server: scriptedEngine({ tokenizer, reply: () => 'hello' }),
    format,
    rewards: [reward('one', () => 1)],
    seed: 1,
    failures: { tolerateShare: 1, retries: 1 },
  });
  return { ...group!.attempts[0]!, calls };
}

test('a service gets the task and the endpoint, and answers with what the attempt was worth', async () => {
  let given: Call | undefined;
  const { trajectory, reward: value } = await play(async (call) => {
    given = call;
    const { id } = await ask(call);
    return [200, JSON.stringify({ reward: 0.5, replies: { [id]: { reward: 0.2 } }, mine: 'x' })];
  });
  expect([trajectory.end.kind, value, trajectory.turns[0]!.reward]).toEqual(['completed', 0.5, 0.2]);
  expect(given).toMatchObject({ task: { question: 'six?' }, attempt: 0, id: trajectory.id, seconds: 600 });
  const plain = await play(async (call) => {
    await ask(call);
    return [204, ''];
  });
  expect(plain.reward).toBe(1);
});

test('with done: complete, the attempt lasts until the service posts its end', async () => {
  const { reward: value, trajectory } = await play(
    async (call) => {
      setTimeout(async () => {
        await ask(call);
        await post(call, `${call.url}/complete`, { reward: 0.25 });
      }, 50);
      return [202, 'started'];
    },
    { done: 'complete' },
  );
  expect([value, trajectory.turns.length]).toEqual([0.25, 1]);
});

test('a service that refuses fails the attempt; one that is busy is tried again', async () => {
  const refused = await play(async () => [500, 'KeyError: question']);
  expect(refused.trajectory.end).toMatchObject({
    boundary: 'agent',
    message: expect.stringMatching(/answered with 500: KeyError: question/),
  });
  expect(refused.calls).toBe(1);
  const busy = await play(async () => [503, 'starting']);
  expect(busy.trajectory.end).toMatchObject({ kind: 'failed', boundary: 'environment' });
  expect(busy.calls).toBe(2);
  const wrong = await play(async () => [200, '{"reward": "much"}']);
  expect(wrong.trajectory.end).toMatchObject({
    message: expect.stringMatching(/is not \{reward\?, agents\?, error\?, replies\?\}/),
  });
});
