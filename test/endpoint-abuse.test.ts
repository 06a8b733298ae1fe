import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { agent, rollout } from 'rollcall';
import type { Endpoint } from 'rollcall/agents';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { ENDPOINT_RULES } from '../src/agent/endpoint.ts';
import { openDoor } from '../src/serve/endpoint/door.ts';

const { tokenizer, format } = byteModel();

/** Two attempts at once: the first does what it likes, the second asks for one reply after it and must get it. */
async function abuse(run: (endpoint: Endpoint, other: Endpoint) => Promise<void>, secondsPerBody = 60) {
  const door = openDoor({ ...ENDPOINT_RULES, secondsPerBody });
  const server = scriptedEngine({ tokenizer, reply: () => 'a reply of some length', tokenMs: 1 });
  const endpoints: Endpoint[] = [];
  let both = () => {};
  const ready = new Promise<void>((resolve) => {
    both = resolve;
  });
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const [group] = await rollout({
    tasks: [{ index: 0, task: {} }],
    attempts: 2,
    step: 1,
    agent: agent(async ({ endpoint, attempt }) => {
      endpoints[attempt] = await endpoint();
      if (endpoints[0] && endpoints[1]) both();
      await ready;
      if (attempt === 0) await run(endpoints[0]!, endpoints[1]!).finally(finish);
      await finished;
      expect((await ask(endpoints[attempt]!)).status).toBe(200);
    }),
    server,
    format,
    rewards: [],
    seed: 1,
    door,
  });
  const ends = group!.attempts.map(({ trajectory }) => trajectory.end);
  const late = await ask(endpoints[1]!);
  await door.close();
  expect(server.inFlight).toBe(0);
  return { trajectories: group!.attempts.map(({ trajectory }) => trajectory), ends, late };
}

const BODY = JSON.stringify({ messages: [{ role: 'user', content: 'go' }] });

async function ask({ openai, apiKey }: Pick<Endpoint, 'openai' | 'apiKey'>, body: string = BODY) {
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await fetch(`${openai}/chat/completions`, { method: 'POST', headers, body });
  const told = (await response.json()) as { error?: { message: string; code: string } };
  return { status: response.status, retry: response.headers.get('x-should-retry'), error: told.error };
}

const completed = [{ kind: 'completed' }, { kind: 'completed' }];

function socketTo(url: string): Socket {
  const { hostname, port } = new URL(url);
  return connect(Number(port), hostname)
    .on('error', () => {})
    .resume(); // a socket that is not read is not closed either
}

test('a wrong key, no key, the key of another trajectory and an unknown path are refused, and a late request learns the end', async () => {
  const { ends, late } = await abuse(async (endpoint, other) => {
    for (const apiKey of ['', 'wrong', other.apiKey]) {
      const { status, error } = await ask({ openai: endpoint.openai, apiKey });
      expect([status, error!.code]).toEqual([401, 'invalid_api_key']);
    }
    const nowhere = await fetch(endpoint.openai.replace(/\/t\/.*/, '/anything'));
    expect(nowhere.status).toBe(404);
  });
  expect(ends).toEqual(completed);
  expect(late).toMatchObject({
    status: 409,
    retry: 'false',
    error: { code: 'trajectory_ended', message: 'this trajectory has ended: completed' },
  });
});

test('a huge body is refused before it is read, also one that does not say its length', async () => {
  const { ends } = await abuse(async ({ openai, apiKey }) => {
    const { status, error } = await ask({ openai, apiKey }, `{"x":"${'x'.repeat(33 * 2 ** 20)}"}`);
    expect([status, error!.code]).toEqual([413, 'body_too_large']);
    const chunk = new Uint8Array(2 ** 20).fill(120);
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => (sent++ < 64 ? controller.enqueue(chunk) : controller.close()),
    });
    const headers = { authorization: `Bearer ${apiKey}` };
    const init = { method: 'POST', headers, body, duplex: 'half' };
    const response = await fetch(`${openai}/chat/completions`, init as RequestInit).catch(() => undefined);
    if (response) expect(response.status).toBe(413);
    expect(sent).toBeLessThan(64);
  });
  expect(ends).toEqual(completed);
});

test('a body that does not come is cut, and idle connections keep nobody out', async () => {
  const { ends } = await abuse(async ({ openai, apiKey }) => {
    const slow = socketTo(openai);
    slow.write(
      `POST ${new URL(openai).pathname}/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-length: 1000\r\n\r\n{"mess`,
    );
    let told = '';
    slow.on('data', (bytes) => {
      told += String(bytes);
    });
    const cut = once(slow, 'close');
    const idle = Array.from({ length: 500 }, () => socketTo(openai));
    await Promise.all(idle.map((socket) => once(socket, 'connect')));
    expect((await ask({ openai, apiKey })).status).toBe(200);
    await cut;
    expect(told).toMatch(/^HTTP\/1.1 408/);
    await Promise.all(idle.map((socket) => (socket.closed ? undefined : once(socket, 'close'))));
  }, 2);
  expect(ends).toEqual(completed);
});

test('a stream that is cut leaves an excluded partial, and the run goes on', async () => {
  const { ends, trajectories } = await abuse(async ({ openai, apiKey }) => {
    const socket = socketTo(openai);
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'go' }], stream: true });
    socket.write(
      `POST ${new URL(openai).pathname}/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    let told = '';
    await new Promise<void>((resolve) => {
      socket.on('data', (bytes) => {
        told += String(bytes);
        if (told.includes('"content":"a')) resolve();
      });
    });
    socket.destroy();
  });
  expect(ends).toEqual(completed);
  expect(trajectories[0]!.turns.map(({ untrained, finish }) => [untrained, finish])).toEqual([
    ['abandoned', 'abort'],
    [undefined, 'stop'],
  ]);
});
