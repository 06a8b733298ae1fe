import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { startStandIn } from '../../test/stand-ins/start.ts';
import { ConfigError, EngineError } from '../errors.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';
import { checkLogprobs, checkServer } from './check-server.ts';
import type { GenerateRequest, SamplingParams } from './server.ts';
import { SglangServer } from './sglang.ts';
import { VllmServer } from './vllm.ts';

const open: (() => Promise<void>)[] = [];
afterAll(async () => {
  await Promise.all(open.map((close) => close()));
});

async function start(engine: 'sglang' | 'vllm', settings: Record<string, unknown> = {}) {
  const standIn = await startStandIn(engine, settings);
  const options = { url: standIn.url, timeoutMs: 10_000 };
  const server = engine === 'sglang' ? new SglangServer(options) : new VllmServer(options);
  open.push(async () => {
    await server.close();
    await standIn.stop();
  });
  return { server, standIn };
}

const SAMPLING: SamplingParams = {
  ...PLAIN_SAMPLING,
  maxTokens: 8,
  stopIds: [],
  seed: 5,
};

const request = (
  id: string,
  more: Partial<GenerateRequest> = {},
  sampling: Partial<SamplingParams> = {},
) => ({
  id: `${id}/`,
  trajectory: id,
  prompt: Int32Array.of(1, 2, 3),
  sampling: { ...SAMPLING, ...sampling },
  ...more,
});

/** Waits until this many requests have arrived, and have had time for some tokens. */
async function untilSampling(standIn: Awaited<ReturnType<typeof startStandIn>>, requests: number) {
  const arrived = async () => (await standIn.calls()).filter(({ name }) => name.endsWith('/generate')).length;
  while ((await arrived()) < requests) await wait(10);
  await wait(100);
}

const TEXT = 'What is served here?';
const EXPECTED = {
  text: TEXT,
  ids: Int32Array.from(TEXT, (character) => character.charCodeAt(0) % 97),
  vocabulary: 97,
};

test('a vLLM server states a version that was pushed to it, and refuses one that was not', async () => {
  const { server, standIn } = await start('vllm');
  const push = (version: number) =>
    fetch(`${standIn.url}/collective_rpc`, {
      method: 'POST',
      body: JSON.stringify({
        method: 'rollcall_take_weights',
        args: [JSON.stringify({ last: true, version })],
      }),
    });
  await expect(server.update({ kind: 'pushed', version: 3 })).rejects.toThrow(
    /has version unknown of the weights; 3 was pushed/,
  );
  await push(3);
  await server.update({ kind: 'pushed', version: 3 });
  expect((await server.info()).version).toBe(3);
  expect((await standIn.calls()).map(({ name }) => name)).toContain('POST /reset_prefix_cache');
  await expect(server.update({ kind: 'pushed', version: 4 })).rejects.toThrow(/has version 3/);
});

test('an SGLang server takes a pushed version that it states, and refuses another', async () => {
  const { server } = await start('sglang');
  await server.update({ kind: 'disk', version: 3, path: '/weights' }); // states a version as a push does
  await server.update({ kind: 'pushed', version: 3 });
  expect((await server.info()).version).toBe(3);
  await expect(server.update({ kind: 'pushed', version: 4 })).rejects.toThrow(/has version 3.*4 was pushed/);
});

describe.each(['sglang', 'vllm'] as const)('%s', (engine) => {
  test('a reply has ids and log-probs, and its log-probs are those of the same tokens scored as a prompt', async () => {
    const { server } = await start(engine);
    const reply = await server.generate(request('a'));
    expect(reply).toMatchObject({ finish: 'length', promptTokens: 3, cachedTokens: 0 });
    expect(reply.versions).toEqual([{ from: 0, version: 0 }]);
    expect(reply.ids).toHaveLength(8);
    const prompt = Int32Array.from([1, 2, 3, ...reply.ids]);
    const scored = await server.generate(request('b', { prompt, scorePrompt: true }, { maxTokens: 1 }));
    expect(scored.promptLogprobs).toHaveLength(prompt.length);
    expect(scored.promptLogprobs![0]).toBeNaN();
    expect([...scored.promptLogprobs!.subarray(3)]).toEqual([...reply.logprobs]);
    const stopped = await server.generate(request('c', {}, { stopIds: [reply.ids[2]!] }));
    expect(stopped.finish).toBe('stop');
    expect([...stopped.ids]).toEqual([...reply.ids.subarray(0, reply.ids.indexOf(reply.ids[2]!) + 1)]);
  });

  test('a trajectory may be named in any script', async () => {
    const { server } = await start(engine);
    const reply = await server.generate(request('验证/task-1'));
    expect(reply.ids).toEqual((await server.generate(request('plain'))).ids);
  });

  test('a streamed reply is the same as a whole one, told token by token', async () => {
    const { server } = await start(engine);
    const whole = await server.generate(request('a'));
    const told: number[] = [];
    const toldLogprobs: number[] = [];
    const streamed = await server.generate(
      request('b', {
        onTokens: (ids, logprobs) => {
          told.push(...ids);
          toldLogprobs.push(...logprobs);
        },
      }),
    );
    expect(streamed).toEqual(whole);
    expect(told).toEqual([...whole.ids]);
    expect(toldLogprobs).toEqual([...whole.logprobs]);
  });

  test('a signal ends one request with what it has, and not one whose id begins alike', async () => {
    const { server, standIn } = await start(engine, { tokenMs: 10 });
    const stop = new AbortController();
    const cut = server.generate(request('t/1', { signal: stop.signal }, { maxTokens: 500 }));
    const other = server.generate(request('t/12', {}, { maxTokens: 20 }));
    await untilSampling(standIn, 2);
    stop.abort(new Error('enough'));
    const partial = await cut;
    expect(partial.finish).toBe('abort');
    expect(partial.ids.length).toBeGreaterThan(0);
    expect(partial.ids.length).toBeLessThan(100);
    expect(partial.logprobs).toHaveLength(partial.ids.length);
    expect((await other).finish).toBe('length');
  });

  test('a pause by abort hands back partials, and requests made meanwhile wait for the resume', async () => {
    const { server, standIn } = await start(engine, { tokenMs: 5 });
    const running = server.generate(request('a', {}, { maxTokens: 1000 }));
    await untilSampling(standIn, 1);
    await server.pause('abort');
    expect(await running).toMatchObject({ finish: 'abort' });
    expect((await running).ids.length).toBeGreaterThan(0);
    expect(await server.ready()).toBe(true); // a paused server is not a dead one
    let answered = false;
    const later = server.generate(request('b')).then((reply) => {
      answered = true;
      return reply;
    });
    await wait(80);
    expect(answered).toBe(false);
    await server.resume();
    expect((await later).ids).toHaveLength(8);
  });

  test('a pause that waits lets running requests finish, and an update then changes every new token', async () => {
    const { server } = await start(engine, { tokenMs: 5 });
    const running = server.generate(request('a', {}, { maxTokens: 30 }));
    await wait(20);
    await server.pause('wait');
    const before = await running;
    expect(before.finish).toBe('length');
    await server.update({ kind: 'disk', version: 4, path: '/weights/4' });
    await server.resume();
    const after = await server.generate(request('b', {}, { maxTokens: 30 }));
    expect(after.versions).toEqual([{ from: 0, version: 4 }]);
    expect([...after.ids]).not.toEqual([...before.ids]);
    expect((await server.info()).version).toBe(4);
  });

  test('a reply that spans an update carries both versions: exactly where it was streamed or the server says so', async () => {
    const older = { tokenMs: 5, saysSpans: false, release: '0.23.0' };
    const { server, standIn } = await start(engine, older);
    const newer = await start(engine, { tokenMs: 5 });
    let made = 0;
    const count = (ids: Int32Array) => {
      made += ids.length;
    };
    const streamed = server.generate(request('a', { onTokens: count }, { maxTokens: 120 }));
    const whole = server.generate(request('b', {}, { maxTokens: 120 }));
    const told = newer.server.generate(request('c', {}, { maxTokens: 120 }));
    await untilSampling(newer.standIn, 1);
    await newer.server.pause('keep');
    await newer.server.update({ kind: 'disk', version: 1, path: '/weights/1' });
    await newer.server.resume();
    await untilSampling(standIn, 2);
    await server.pause('keep');
    await wait(30);
    const atPause = made;
    await server.update({ kind: 'disk', version: 1, path: '/weights/1' });
    await server.resume();
    expect((await streamed).versions).toEqual([
      { from: 0, version: 0 },
      { from: atPause, version: 1 },
    ]);
    expect((await whole).versions).toEqual([
      { from: 0, version: 0 },
      { from: 119, version: 1 },
    ]);
    const spans = (await told).versions;
    expect(spans.map(({ version }) => version)).toEqual([0, 1]);
    expect(spans[1]!.from).toBeGreaterThan(0);
    expect(spans[1]!.from).toBeLessThan(119);
  });

  test('adapters are named by version, requests use the newest, and the older but one are unloaded', async () => {
    const { server, standIn } = await start(engine);
    const plain = await server.generate(request('a'));
    for (const version of [1, 2, 3]) {
      await server.update({ kind: 'lora', version, name: `policy@${version}`, path: `/adapters/${version}` });
    }
    const adapted = await server.generate(request('b'));
    expect(adapted.versions).toEqual([{ from: 0, version: 3 }]);
    expect([...adapted.ids]).not.toEqual([...plain.ids]);
    const older = await server.generate(request('c', { adapter: 'policy@2' }));
    expect(older.versions).toEqual([{ from: 0, version: 2 }]);
    const unload = engine === 'sglang' ? 'POST /unload_lora_adapter' : 'POST /v1/unload_lora_adapter';
    expect((await standIn.calls(unload)).map(({ body }) => body)).toEqual([{ lora_name: 'policy@1' }]);
  });

  test('a server that was started anew takes adapters again', async () => {
    const { server, standIn } = await start(engine);
    const load = (version: number) =>
      server.update({ kind: 'lora', version, name: `policy@${version}`, path: `/adapters/${version}` });
    for (const version of [1, 2]) await load(version);
    await standIn.stop('SIGKILL');
    const again = await startStandIn(engine, {}, Number(new URL(standIn.url).port));
    open.push(() => again.stop());
    for (const version of [3, 4, 5]) await load(version);
    expect((await server.generate(request('a'))).versions).toEqual([{ from: 0, version: 5 }]);
  });

  test('sleep waits for what runs, holds what comes, and wake lets it through', async () => {
    const { server } = await start(engine, { tokenMs: 5 });
    const running = server.generate(request('a', {}, { maxTokens: 20 }));
    await wait(20);
    const asleep = server.sleep();
    const later = server.generate(request('b'));
    await asleep;
    expect((await running).finish).toBe('length');
    await server.wake();
    expect((await later).ids).toHaveLength(8);
  });

  test('log-probs that are fewer than the tokens are refused', async () => {
    const { server } = await start(engine, { dropLogprob: true });
    await expect(server.generate(request('a'))).rejects.toThrow(/8 tokens and 7 log-probs/);
  });

  test('a request that is aborted while it is being prepared is not sent', async () => {
    const { server, standIn } = await start(engine, { tokenMs: 10 });
    const stop = new AbortController();
    const cut = server.generate(request('a', { signal: stop.signal }, { maxTokens: 500 }));
    stop.abort(new Error('enough'));
    expect(await cut).toMatchObject({ finish: 'abort', ids: new Int32Array() });
    const sent = (await standIn.calls()).filter(({ name }) => name.endsWith('/generate'));
    expect(sent).toEqual([]);
  });

  test('a request that is given up is closed at once, without asking for its partial', async () => {
    const { server, standIn } = await start(engine, { tokenMs: 10 });
    await server.generate(request('a', {}, { maxTokens: 1 }));
    const stop = new AbortController();
    const cut = server.generate(request('b', { signal: stop.signal }, { maxTokens: 500 }));
    await wait(60);
    stop.abort(new EngineError('too late'));
    await expect(cut).rejects.toThrow('too late');
    expect((await standIn.calls()).filter(({ name }) => name.includes('abort'))).toEqual([]);
  });

  test('a pause that fails leaves no request waiting at a door that nobody opens', async () => {
    const { server, standIn } = await start(engine, { tokenMs: 20 });
    const running = server.generate(request('a'));
    await wait(30);
    const all = Promise.allSettled([running, server.pause('wait'), server.generate(request('b'))]);
    await standIn.stop('SIGKILL');
    for (const outcome of await all) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(EngineError) });
    }
    await expect(server.resume()).rejects.toThrow(EngineError);
    await expect(server.generate(request('c'))).rejects.toThrow(EngineError);
  });

  test('weights that cannot travel over HTTP are refused by kind', async () => {
    const { server } = await start(engine);
    const update = server.update({ kind: 'memory', version: 1, tensors: new Map() });
    await expect(update).rejects.toThrow(/takes weights by disk.* not memory/);
  });

  test.each(['raw', 'temperature', 'processed'] as const)(
    'the check at start finds that log-probs are %s, and whether they are after penalties',
    async (logprobs) => {
      const { server } = await start(engine, { logprobs });
      const logprobsAfterPenalties = logprobs !== 'raw';
      expect(await checkServer(server, EXPECTED)).toMatchObject({ logprobs, logprobsAfterPenalties });
    },
  );

  test('the check at start refuses another tokenizer, with both ids', async () => {
    const { server } = await start(engine, { splitsOtherwise: true });
    await expect(checkServer(server, EXPECTED)).rejects.toThrow(ConfigError);
    await expect(checkServer(server, EXPECTED)).rejects.toThrow(
      /splits "What is served here\?" into ids \[87,7/,
    );
  });

  test('a server that is gone is an EngineError with its address, and not ready', async () => {
    const { server, standIn } = await start(engine, { tokenMs: 20 });
    const cut = server.generate(request('a', {}, { maxTokens: 500 })).catch((error: unknown) => error);
    await wait(100);
    await standIn.stop('SIGKILL');
    expect(await cut).toBeInstanceOf(EngineError);
    expect(String(await cut)).toContain(standIn.url);
    expect(await server.ready()).toBe(false);
  });
});

test('the stand-ins refuse a field they do not know and a request that lacks one', async () => {
  for (const [engine, path] of [
    ['sglang', '/generate'],
    ['vllm', '/inference/v1/generate'],
  ] as const) {
    const { server, standIn } = await start(engine);
    await server.generate(request('a'));
    const { body } = (await standIn.calls(`POST ${path}`))[0]!;
    const send = async (changed: object) =>
      (await fetch(`${standIn.url}${path}`, { method: 'POST', body: JSON.stringify(changed) })).status;
    expect(await send({ ...body, surprise: 1 })).toBe(422);
    for (const name of Object.keys(body!)) expect(await send({ ...body, [name]: undefined })).toBe(422);
    const params = body!['sampling_params'] as Record<string, unknown>;
    for (const name of Object.keys(params)) {
      expect(await send({ ...body, sampling_params: { ...params, [name]: undefined } })).toBe(422);
    }
  }
});

test('SGLang under its old endpoint names and with incremental streams gives the same', async () => {
  const { server: present } = await start('sglang');
  const { server: past } = await start('sglang', { oldNames: true, incremental: true });
  expect(await past.info()).toEqual(await present.info());
  const onTokens = () => {};
  expect(await past.generate(request('a', { onTokens }))).toEqual(await present.generate(request('a')));
});

test('a stream cut in the middle fails', async () => {
  const { server } = await start('sglang', { cutAfter: 3 });
  await expect(server.generate(request('a', { onTokens: () => {} }))).rejects.toThrow(EngineError);
  await expect(server.generate(request('b'))).rejects.toThrow(EngineError);
});

test('SGLang is asked for ready by /model_info, and sampling is sent whole', async () => {
  const { server, standIn } = await start('sglang');
  await server.ready();
  await server.generate(
    request('a', {}, { constraint: { kind: 'jsonSchema', schema: { type: 'object' } }, topK: 7 }),
  );
  const calls = await standIn.calls();
  expect(calls.map(({ name }) => name)).toEqual(['GET /model_info', 'POST /generate']);
  expect(calls[1]!.headers['x-smg-routing-key']).toBe('a');
  expect(calls[1]!.body!['sampling_params']).toEqual({
    max_new_tokens: 8,
    min_new_tokens: 0,
    temperature: 1,
    top_p: 1,
    top_k: 7,
    min_p: 0,
    repetition_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    stop: [],
    stop_token_ids: [],
    sampling_seed: 5,
    n: 1,
    ignore_eos: false,
    skip_special_tokens: false,
    no_stop_trim: true,
    json_schema: '{"type":"object"}',
  });
});

test('an SGLang server that could not load weights says why', async () => {
  const { server } = await start('sglang');
  const update = server.update({ kind: 'disk', version: 1, path: '/missing' });
  await expect(update).rejects.toThrow(/did not load \/missing: no such folder/);
  expect((await server.info()).version).toBe(0);
});

test('a vLLM that lacks a model is not taken for one that lacks /inference/v1/generate', async () => {
  const { server, standIn } = await start('vllm');
  await expect(server.generate(request('a', { adapter: 'policy@9' }))).rejects.toThrow('answered 404');
  await server.generate(request('b'));
  expect(await standIn.calls('POST /v1/completions')).toEqual([]);
});

test('an abort while a request is being prepared is not lost', async () => {
  const standIn = await startStandIn('sglang', { tokenMs: 10 });
  const stop = new AbortController();
  const server = new SglangServer({
    url: standIn.url,
    readImage: async () => {
      stop.abort(new Error('enough'));
      return new Uint8Array(4);
    },
  });
  open.push(async () => {
    await server.close();
    await standIn.stop();
  });
  const images = [{ blob: 'a', mime: 'image/png', width: 1, height: 1 }] as never;
  const cut = await server.generate(request('a', { signal: stop.signal, images }, { maxTokens: 500 }));
  expect(cut).toMatchObject({ finish: 'abort', ids: new Int32Array() });
});

test('a vLLM without /inference/v1/generate answers by /v1/completions the same', async () => {
  const { server: present } = await start('vllm');
  const { server: past } = await start('vllm', { completionsOnly: true });
  expect(await past.generate(request('a'))).toEqual(await present.generate(request('a')));
  expect(await past.generate(request('b', { onTokens: () => {} }))).toEqual(
    await present.generate(request('b')),
  );
});

test('a vLLM outside of dev mode still lets go of a request by closing it', async () => {
  const { server } = await start('vllm', { devMode: false, tokenMs: 10 });
  const stop = new AbortController();
  const cut = server.generate(request('a', { signal: stop.signal }, { maxTokens: 500 }));
  await wait(60);
  stop.abort(new Error('enough'));
  expect(await cut).toMatchObject({ finish: 'abort', ids: new Int32Array() });
});

test('a vLLM that keeps the cache of old weights fails the update', async () => {
  const { server } = await start('vllm', { keepsCache: true });
  const update = server.update({ kind: 'disk', version: 1, path: '/weights/1' });
  await expect(update).rejects.toThrow(/did not drop its cache/);
});

test('images travel as data, beside a prompt with their placeholders', async () => {
  const image = { blob: 'abc', mime: 'image/png', width: 1, height: 1, tokens: 4 };
  const readImage = async () => Uint8Array.of(1, 2, 3);
  const sglang = await startStandIn('sglang');
  const vllm = await startStandIn('vllm');
  const servers = [
    new SglangServer({ url: sglang.url, readImage }),
    new VllmServer({ url: vllm.url, readImage }),
  ];
  open.push(async () => {
    await Promise.all([...servers.map((server) => server.close()), sglang.stop(), vllm.stop()]);
  });
  for (const server of servers) await server.generate(request('a', { images: [image] }));
  expect((await sglang.calls('POST /generate'))[0]!.body!['image_data']).toEqual([
    'data:image/png;base64,AQID',
  ]);
  expect((await vllm.calls('POST /inference/v1/generate'))[0]!.body!['content_parts']).toEqual([
    { type: 'image_url', url: 'data:image/png;base64,AQID', uuid: 'abc' },
  ]);
});

test('vLLM gets the bytes of an image once, and again when it has lost them', async () => {
  const standIn = await startStandIn('vllm');
  const server = new VllmServer({ url: standIn.url, readImage: async () => Uint8Array.of(1, 2, 3) });
  open.push(async () => {
    await server.close();
    await standIn.stop();
  });
  const [a, b] = ['abc', 'def'].map((blob) => ({ blob, mime: 'image/png', width: 1, height: 1, tokens: 1 }));
  await server.generate(request('1', { images: [a!], imagePlaces: [0] }));
  await server.generate(request('2', { images: [a!, b!], imagePlaces: [0, 1] }));
  await fetch(`${standIn.url}/reset_mm_cache`, { method: 'POST' });
  const told: number[] = [];
  const onTokens = (ids: Int32Array) => void told.push(...ids);
  const { ids } = await server.generate(request('3', { images: [a!, b!], imagePlaces: [0, 1], onTokens }));
  expect(told).toEqual([...ids]);
  const calls = await standIn.calls('POST /inference/v1/generate');
  const bytes = calls.map(({ body }) =>
    (body!['content_parts'] as { url?: string }[]).map(({ url }) => !!url),
  );
  expect(bytes).toEqual([[true], [false, true], [false, false], [true, true]]);
});

test('log-probs that the trainer cannot match are refused before the run', () => {
  const info = {
    engine: 'vllm',
    model: 'm',
    vocabulary: 0,
    contextTokens: 1,
    version: 0,
    can: new Set<never>(),
  } as const;
  const sampling = PLAIN_SAMPLING;
  checkLogprobs({ ...info, logprobs: 'raw' }, sampling);
  expect(() => checkLogprobs({ ...info, logprobs: 'raw' }, { ...sampling, temperature: 0.7 })).toThrow(
    /before temperature, and sampling.temperature is 0.7/,
  );
  expect(() => checkLogprobs({ ...info, logprobs: 'processed' }, { ...sampling, topP: 0.9 })).toThrow(
    ConfigError,
  );
  const penalised = { ...info, logprobs: 'temperature', logprobsAfterPenalties: true } as const;
  checkLogprobs(penalised, sampling);
  expect(() => checkLogprobs(penalised, { ...sampling, repetitionPenalty: 1.1 })).toThrow(
    /after penalties, and sampling.repetitionPenalty is 1.1/,
  );
});
