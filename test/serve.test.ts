import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openServer } from '../src/engine/server.ts';
import { checkServer } from '../src/inference/check-server.ts';
import type { GenerateRequest } from '../src/inference/server.ts';
import { SglangServer } from '../src/inference/sglang.ts';
import { type StartedServer, startProcess } from './stand-ins/start.ts';
import { tinyModel } from './tiny-model.ts';

const rollcall = fileURLToPath(new URL('../bin/rollcall.js', import.meta.url));

let model: string;
let eosIds: number[];
let other: string;
let served: StartedServer;
let server: SglangServer;

beforeAll(async () => {
  model = await tinyModel(1, '1m');
  const { eos_token_id } = JSON.parse(await readFile(join(model, 'config.json'), 'utf8'));
  eosIds = [eos_token_id].flat();
  other = await tinyModel(2, '1m');
  served = await startProcess([rollcall, 'serve', '--model', model, '--port', '0', '--threads', '1']);
  server = new SglangServer({ url: served.url });
}, 60_000);

afterAll(async () => {
  await server?.close();
  await served?.stop();
});

/** Greedy from 20 tokens on: such a model then repeats itself and does not stop. */
const request = (id: string, more: Partial<GenerateRequest> = {}, maxTokens = 20): GenerateRequest => ({
  id: `${id}/`,
  trajectory: id,
  prompt: Int32Array.from('Once upon', (character) => character.charCodeAt(0)),
  sampling: {
    temperature: maxTokens > 20 ? 0 : 0.8,
    topP: 0.95,
    topK: -1,
    minP: 0,
    repetitionPenalty: 1,
    presencePenalty: 0,
    frequencyPenalty: 0,
    maxTokens,
    stopIds: eosIds,
    stopStrings: [],
    seed: 3,
  },
  ...more,
});

const post = async (path: string, body: object) => {
  const reply = await fetch(served.url + path, { method: 'POST', body: JSON.stringify(body) });
  return { status: reply.status, json: (await reply.json()) as Record<string, unknown> };
};

test('a reply over HTTP is the reply of the engine, token by token and bit by bit', async () => {
  const near = await openServer({ model, threads: 1 });
  const expected = await near.generate(request('near', { scorePrompt: true }));
  await near.close();
  expect(await server.generate(request('far', { scorePrompt: true }))).toEqual({
    ...expected,
    cachedTokens: expect.any(Number),
  });
  const told: number[] = [];
  const onTokens = (ids: Int32Array) => {
    told.push(...ids);
  };
  const streamed = await server.generate(request('streamed', { onTokens }));
  expect([...streamed.ids]).toEqual([...expected.ids]);
  expect(told).toEqual([...expected.ids]);
});

test('the check at start passes, and knows that log-probs are after temperature', async () => {
  const ids = Int32Array.from('What?', (character) => character.charCodeAt(0));
  const info = await checkServer(server, { text: 'What?', ids, vocabulary: 256 });
  expect(info).toMatchObject({ contextTokens: 2048, logprobs: 'temperature' });
  await expect(checkServer(server, { text: 'What?', ids, vocabulary: 99_999 })).rejects.toThrow(
    /another model is served/,
  );
});

test('weights from another folder are served after an update, with their version, and back', async () => {
  const near = await openServer({ model: other, threads: 1 });
  const expected = await near.generate(request('near'));
  await near.close();
  const before = await server.generate(request('before'));
  await server.pause('keep');
  await server.update({ kind: 'disk', version: 7, path: other });
  await server.resume();
  const after = await server.generate(request('after'));
  expect([...after.ids]).toEqual([...expected.ids]);
  expect([...after.ids]).not.toEqual([...before.ids]);
  expect(after.versions).toEqual([{ from: 0, version: 7 }]);
  await expect(server.update({ kind: 'disk', version: 8, path: '/nowhere' })).rejects.toThrow(/nowhere/);
  await server.update({ kind: 'disk', version: 0, path: model });
  expect([...(await server.generate(request('again'))).ids]).toEqual([...before.ids]);
});

/** Requests beside the one under test: they slow the engine down, so that a reply cannot end before it is interrupted. */
const company = () =>
  Promise.all(Array.from({ length: 48 }, (_, at) => server.generate(request(`company-${at}`, {}, 450))));

test('a reply that spans an update says from which token on', async () => {
  const others = company();
  let made = 0;
  let paused: Promise<void> | undefined;
  const onTokens = (ids: Int32Array) => {
    made += ids.length;
    if (made >= 5) paused ??= server.pause('keep');
  };
  const long = server.generate(request('long', { onTokens }, 450));
  while (!paused) await wait(1);
  await paused;
  await server.update({ kind: 'disk', version: 1, path: other });
  await server.resume();
  const { versions, ids } = await long;
  expect(ids.length).toBe(450);
  expect(versions.map(({ version }) => version)).toEqual([0, 1]);
  expect(versions[1]!.from).toBeGreaterThanOrEqual(5);
  await others;
  await server.update({ kind: 'disk', version: 0, path: model });
});

test('an aborted request hands over what it has', async () => {
  const others = company();
  const stop = new AbortController();
  const cut = server.generate(
    request('cut', { signal: stop.signal, onTokens: () => stop.abort(new Error('enough')) }, 480),
  );
  const partial = await cut;
  expect(partial.finish).toBe('abort');
  expect(partial.ids.length).toBeGreaterThan(0);
  expect(partial.ids.length).toBeLessThan(480);
  await others;
});

test('a caller that hangs up frees its request', async () => {
  await server.pause('keep');
  const hangUp = new AbortController();
  const body = JSON.stringify({ text: 'x', sampling_params: { max_new_tokens: 400 } });
  const gone = fetch(`${served.url}/generate`, { method: 'POST', body, signal: hangUp.signal }).catch(
    () => 'gone',
  );
  const running = async () => (await fetch(`${served.url}/flush_cache`)).status;
  while ((await running()) !== 400) await wait(5);
  hangUp.abort();
  expect(await gone).toBe('gone');
  while ((await running()) !== 200) await wait(5);
  await server.resume();
});

test('what a request gets wrong is answered with its field', async () => {
  expect(await post('/generate', { input_ids: [1], surprise: 1 })).toMatchObject({
    status: 400,
    json: { error: { message: expect.stringContaining('surprise') } },
  });
  expect((await post('/generate', { text: 'x', sampling_params: { n: 2 } })).status).toBe(400);
  expect((await post('/generate', { input_ids: [99_999] })).json).toMatchObject({
    error: { message: expect.stringContaining('prompt[0] is 99999') },
  });
  expect((await post('/generate', {})).status).toBe(400);
  expect((await post('/nonsense', {})).status).toBe(404);
});

test('OpenAI clients get completions, with ids and log-probs on request, whole and streamed alike', async () => {
  const body = { prompt: 'Once', max_tokens: 12, seed: 5, return_token_ids: true, logprobs: 1 };
  const { json } = await post('/v1/completions', body);
  const choice = (
    json['choices'] as { text: string; token_ids: number[]; logprobs: { token_logprobs: number[] } }[]
  )[0]!;
  expect(choice.token_ids).toHaveLength(12);
  expect(choice.logprobs.token_logprobs).toHaveLength(12);
  const reply = await fetch(`${served.url}/v1/completions`, {
    method: 'POST',
    body: JSON.stringify({ ...body, stream: true }),
  });
  const lines = (await reply.text()).split('\n').filter((line) => line.startsWith('data: '));
  expect(lines.at(-1)).toBe('data: [DONE]');
  const parts = lines.slice(0, -1).map((line) => JSON.parse(line.slice(6)).choices[0]);
  expect(parts.flatMap((part) => part.token_ids)).toEqual(choice.token_ids);
  expect(parts.map((part) => part.text).join('')).toBe(choice.text);
  expect(parts.at(-1).finish_reason).toBe('length');
});

test('OpenAI clients chat, whole and streamed alike', async () => {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
  ];
  const body = { messages, max_completion_tokens: 10, seed: 9, logprobs: true, return_token_ids: true };
  const { json } = await post('/v1/chat/completions', body);
  const choice = (json['choices'] as { message: { content: string }; token_ids: number[] }[])[0]!;
  expect(json['usage']).toMatchObject({ completion_tokens: choice.token_ids.length });
  const reply = await fetch(`${served.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ ...body, stream: true }),
  });
  const lines = (await reply.text()).split('\n').filter((line) => line.startsWith('data: {'));
  const parts = lines.map((line) => JSON.parse(line.slice(6)).choices[0]);
  expect(parts.flatMap((part) => part.token_ids ?? [])).toEqual(choice.token_ids);
  expect(parts.map((part) => part.delta.content ?? '').join('')).toBe(choice.message.content);
  const shown = {
    role: 'user',
    content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }],
  };
  expect(await post('/v1/chat/completions', { messages: [shown] })).toMatchObject({
    status: 400,
    json: { error: { message: expect.stringContaining('reads text only') } },
  });
});

test('fields that the server does not know are ignored and named, several replies are given', async () => {
  const unknown = {
    prompt_cache_key: 'k',
    reasoning_effort: 'low',
    parallel_tool_calls: false,
    response_format: { type: 'json_object' },
    top_logprobs: 5,
  };
  const known = { messages: [{ role: 'user', content: 'Hello' }], tool_choice: 'required', n: 2 };
  const reply = await fetch(`${served.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ ...known, ...unknown, seed: 3, max_tokens: 8 }),
  });
  const named = reply.headers.get('x-rollcall-ignored')!.split(', ').sort();
  expect(named).toEqual([...Object.keys(unknown), 'tool_choice'].sort());
  const { choices, usage } = (await reply.json()) as {
    choices: { index: number; message: { content: string } }[];
    usage: { completion_tokens: number };
  };
  expect(choices.map(({ index }) => index)).toEqual([0, 1]);
  expect(choices[0]!.message.content).not.toBe(choices[1]!.message.content);
  expect(usage.completion_tokens).toBe(16);
  expect((await post('/v1/chat/completions', { ...known, temperature: 'warm' })).json).toMatchObject({
    error: { message: 'temperature is "warm"; use a number' },
  });
});

test('Responses and Messages are served too', async () => {
  const response = await post('/v1/responses', { input: 'Hello', max_output_tokens: 8, seed: 9 });
  expect(response.json).toMatchObject({ object: 'response', usage: { output_tokens: 8 } });
  const messages = [{ role: 'user', content: 'Hello' }];
  const message = await post('/v1/messages', { messages, max_tokens: 8, seed: 9 });
  expect(message.json).toMatchObject({
    type: 'message',
    stop_reason: 'max_tokens',
    usage: { output_tokens: 8 },
  });
  const { json } = await post('/v1/messages/count_tokens', { messages });
  expect(json['input_tokens']).toBe((message.json['usage'] as { input_tokens: number }).input_tokens);
});

test('rollcall servers shows how servers stand, and says which is gone', async () => {
  const child = spawn(process.execPath, [rollcall, 'servers', served.url, 'http://127.0.0.1:1', '--json']);
  let out = '';
  for await (const text of child.stdout) out += text;
  const [here, gone] = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(here).toMatchObject({
    url: served.url,
    state: 'ready',
    model,
    context: 2048,
    version: '0',
    running: 0,
  });
  expect(gone).toMatchObject({ state: 'gone', error: expect.stringContaining('ECONNREFUSED') });
});

test('rollcall bench servers measures trajectories at several turns, and refuses what does not fit', async () => {
  const bench = async (...flags: string[]) => {
    const child = spawn(process.execPath, [rollcall, 'bench', 'servers', '--url', served.url, ...flags]);
    let [out, errors] = ['', ''];
    child.stderr.on('data', (text) => {
      errors += text;
    });
    for await (const text of child.stdout) out += text;
    return { out, errors };
  };
  const sizes = ['--prompt-tokens', '64', '--reply-tokens', '8', '--result-tokens', '8'];
  const { out, errors } = await bench('--turns', '1,3', '--trajectories', '16', ...sizes, '--json');
  expect(errors).not.toContain('Warning'); // more requests at once than a signal has listeners by default
  const [one, three] = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  for (const [turns, measured] of [
    [1, one],
    [3, three],
  ] as const) {
    expect(measured).toMatchObject({ turns, trajectories: 16, failed: 0 });
    expect(measured.trajectoriesPerSecond * measured.seconds).toBeCloseTo(16);
    const replies = measured.tokensPerReply * 16 * turns;
    expect(measured.tokensPerSecond * measured.seconds).toBeCloseTo(replies);
    expect(measured.turnP99Seconds).toBeGreaterThanOrEqual(measured.turnP50Seconds);
  }
  // Two of three prompts of a trajectory repeat what the server has just seen.
  expect(three.cached).toBeGreaterThan(0.5);
  expect((await bench('--turns', '5', '--reply-tokens', '1000')).errors).toContain(
    '5 turns need 5768 tokens',
  );
  expect((await bench('--turns', '0')).errors).toContain("--turns <list>' argument '0'");
}, 60_000);
