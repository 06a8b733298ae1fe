import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ConfigError, EngineError } from '../errors.ts';
import type { GenerateRequest, GenerateResult, SamplingParams } from '../inference/server.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';
import { embedded } from './embedded.ts';
import { createModel, randomWeight } from './model/create.ts';
import { FileSet, readModelConfig } from './model/files.ts';
import { weightElements, weightSpecs } from './model/weights.ts';
import { type EmbeddedServer, type EmbeddedServerOptions, openServer } from './server.ts';
import { openTrainer } from './training/trainer.ts';

const folder = mkdtempSync(join(tmpdir(), 'rollcall-server-'));
const model = join(folder, 'model');
const other = join(folder, 'other');
const VOCABULARY = 40;
let server: EmbeddedServer;

beforeAll(async () => {
  // Words w0 w1 …, decoded without spaces between them.
  const vocab = Object.fromEntries(Array.from({ length: VOCABULARY }, (_, id) => [`w${id}.`, id]));
  const tokenizer = {
    added_tokens: [],
    normalizer: null,
    post_processor: null,
    pre_tokenizer: { type: 'WhitespaceSplit' },
    decoder: { type: 'Fuse' },
    model: { type: 'WordLevel', vocab, unk_token: 'w0.' },
  };
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
  const overrides = { contextTokens: 1024 };
  createModel({ directory: model, size: 'tiny', tokenizer: folder, family: 'qwen2', seed: 1, overrides });
  createModel({ directory: other, size: 'tiny', tokenizer: folder, family: 'qwen2', seed: 2, overrides });
  server = await open();
}, 120_000);

afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

const open = (options: Partial<EmbeddedServerOptions> = {}) =>
  openServer({ model, threads: 1, log: () => {}, ...options });

const SAMPLING: SamplingParams = {
  ...PLAIN_SAMPLING,
  temperature: 0.8,
  maxTokens: 24,
  stopIds: [],
  seed: 3,
};

let requests = 0;
function request(
  prompt: readonly number[],
  sampling: Partial<SamplingParams> = {},
  more: Partial<GenerateRequest> = {},
): GenerateRequest {
  return {
    id: `request-${requests++}-`,
    trajectory: 't',
    prompt: Int32Array.from(prompt),
    sampling: { ...SAMPLING, ...sampling },
    ...more,
  };
}

const PROMPT = [5, 6, 7, 8, 9];
/** Long enough that something can be done while it runs. */
const LONG = { maxTokens: 900 };

test('a server tells what it is and answers', async () => {
  const info = await server.info();
  expect(info).toMatchObject({ engine: 'embedded', vocabulary: VOCABULARY, contextTokens: 1024, version: 0 });
  expect([...info.can].sort()).toEqual(['disk', 'lora', 'memory', 'pauseKeep', 'scorePrompt', 'seeds']);
  const reply = await server.generate(request(PROMPT));
  expect(reply).toMatchObject({ finish: 'length', promptTokens: 5, versions: [{ from: 0, version: 0 }] });
  expect(reply.ids.length).toBe(24);
  expect(reply.logprobs.length).toBe(24);
});

test('log-probs, streamed or returned, are those the trainer scores', async () => {
  const streamed: number[] = [];
  const wanted = request(PROMPT, LONG, {
    scorePrompt: true,
    onTokens: (ids, logprobs) => streamed.push(ids[0]!, logprobs[0]!),
  });
  const reply = await server.generate(wanted);
  expect(streamed).toEqual([...reply.ids].flatMap((id, at) => [id, reply.logprobs[at]]));
  const trainer = await openTrainer({ model, threads: 1, trainable: false });
  try {
    const ids = Int32Array.from([...wanted.prompt, ...reply.ids]);
    const targets = new Uint8Array(ids.length).fill(1, 1);
    const scored = await trainer.score([{ ids, targets }], { temperature: 0.8, outputs: ['logprob'] });
    const reported = [...reply.promptLogprobs!, ...reply.logprobs];
    expect(reported[0]).toBeNaN();
    const worst = Math.max(
      ...reported.slice(1).map((value, at) => Math.abs(value - scored.logprob![0]![at + 1]!)),
    );
    expect(worst).toBe(0);
  } finally {
    await trainer.close();
  }
});

test('a reply ends at a stop id or with the token that completes a stop string, and keeps it', async () => {
  const whole = await server.generate(request(PROMPT, { maxTokens: 60 }));
  const stopId = whole.ids[20]!;
  const byId = await server.generate(request(PROMPT, { maxTokens: 60, stopIds: [stopId] }));
  expect(byId.finish).toBe('stop');
  expect([...byId.ids]).toEqual([...whole.ids.subarray(0, whole.ids.indexOf(stopId) + 1)]);

  const text = [...whole.ids].map((id) => `w${id}.`);
  const stop = text.slice(30, 33).join('').slice(1, -1); // begins and ends inside tokens
  const byText = await server.generate(request(PROMPT, { maxTokens: 60, stopStrings: ['nowhere', stop] }));
  const first = text.findIndex((_, at) =>
    text
      .slice(0, at + 1)
      .join('')
      .includes(stop),
  );
  expect(byText.finish).toBe('stop');
  expect([...byText.ids]).toEqual([...whole.ids.subarray(0, first + 1)]);
});

test('a request that arrives while 31 are mid-reply has its first token within three steps', async () => {
  const full = await open();
  try {
    let streamed = 0;
    const onTokens = () => streamed++;
    const running = Array.from({ length: 31 }, (_, at) =>
      full.generate(request([at, 1, 2], LONG, { onTokens })),
    );
    while (streamed < 31 * 3) await new Promise(setImmediate);
    // Frozen while the request arrives, so that steps can be counted: each gives the 31 one token.
    await full.pause('keep');
    const before = streamed;
    let steps = 0;
    const prompt = Array.from({ length: 300 }, (_, at) => at % 40);
    const late = full.generate(
      request(prompt, { maxTokens: 1 }, { onTokens: () => (steps = (streamed - before) / 31) }),
    );
    await full.resume();
    await late;
    expect(steps).toBeLessThanOrEqual(3);
    await full.pause('abort');
    await Promise.all(running);
  } finally {
    await full.close();
  }
});

test('an aborted request returns what it has, the others go on', async () => {
  const expected = await server.generate(request(PROMPT, LONG));
  const controller = new AbortController();
  let streamed = 0;
  const aborted = server.generate(
    request(PROMPT, LONG, {
      signal: controller.signal,
      onTokens: () => {
        if (++streamed === 3) controller.abort();
      },
    }),
  );
  const [partial, whole] = await Promise.all([aborted, server.generate(request(PROMPT, LONG))]);
  expect(partial.finish).toBe('abort');
  expect(partial.ids.length).toBeGreaterThanOrEqual(3);
  expect(partial.ids.length).toBeLessThan(900);
  expect([...partial.ids]).toEqual([...expected.ids.subarray(0, partial.ids.length)]);
  expect([...whole.ids]).toEqual([...expected.ids]);
  const early = await server.generate(request(PROMPT, {}, { signal: AbortSignal.abort() }));
  expect(early).toMatchObject({ finish: 'abort', promptTokens: 5 });
});

test('its load says how many run, how many wait, and what they hold', async () => {
  const narrow = await open({ maxBatch: 2 });
  try {
    const controller = new AbortController();
    let streamed = 0;
    const begun = new Promise<void>((resolve) => {
      for (let at = 0; at < 5; at++) {
        const onTokens = () => void (++streamed === 20 && resolve());
        const more = { signal: controller.signal, onTokens };
        void narrow.generate(request([1, 2, 3, at], { ...LONG, seed: at }, more));
      }
    });
    await begun;
    const load = await narrow.load();
    expect(load).toMatchObject({ running: 2, queued: 3, preemptions: 0 });
    expect(load.kvUse).toBeGreaterThan(0);
    expect(load.kvUse).toBeLessThanOrEqual(1);
    controller.abort();
    while ((await narrow.load()).running > 0);
    expect(await narrow.load()).toMatchObject({ running: 0, queued: 0, kvUse: 0 });
  } finally {
    await narrow.close();
  }
});

test('attempts of one prompt and later turns compute what is new and little else', async () => {
  const fresh = await open();
  try {
    const attempts = Array.from({ length: 8 }, () => Array.from({ length: 75 }, (_, at) => (at * 3) % 40));
    let necessary = 75; // one prompt for all eight
    for (let turn = 0; turn < 4; turn++) {
      const replies = await Promise.all(
        attempts.map((prompt, at) => fresh.generate(request(prompt, { seed: at, maxTokens: 21 }))),
      );
      replies.forEach(({ ids }, at) => {
        const answer = [1, 2, 3, 4, 5, 6, 7, turn];
        attempts[at]!.push(...ids, ...answer);
        // The last sampled token has no K/V yet; the answer is new.
        if (turn < 3) necessary += 1 + answer.length;
      });
    }
    const { computedPromptTokens } = await fresh.stats();
    expect(computedPromptTokens).toBeGreaterThanOrEqual(necessary);
    // Seven attempts compute the last prompt token again, for its logits.
    expect(computedPromptTokens).toBeLessThanOrEqual(necessary + 7);
  } finally {
    await fresh.close();
  }
});

test('pause wait lets what runs finish and holds what comes; resume lets it go', async () => {
  const running = server.generate(request(PROMPT, LONG));
  const order: string[] = [];
  const paused = server.pause('wait').then(() => order.push('paused'));
  const later = server.generate(request(PROMPT)).then(() => order.push('later'));
  expect((await running).finish).toBe('length');
  await paused;
  await server.resume();
  await later;
  expect(order).toEqual(['paused', 'later']);
});

test('pause abort returns partials, and a request in between waits for resume', async () => {
  let streamed = 0;
  const running = server.generate(request(PROMPT, LONG, { onTokens: () => streamed++ }));
  while (streamed === 0) await new Promise(setImmediate);
  await server.pause('abort');
  expect((await running).finish).toBe('abort');
  const later = server.generate(request(PROMPT));
  await server.resume();
  expect((await later).ids.length).toBe(24);
});

test('weights change between steps: old tokens stay, new ones are those of the new weights alone', async () => {
  const wanted = request([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 7], LONG);
  const live = await open();
  let streamed = 0;
  const running = live.generate({ ...wanted, onTokens: () => streamed++ });
  while (streamed < 20) await new Promise(setImmediate);
  await live.pause('keep');
  const frozen = streamed;
  await live.update({ kind: 'disk', version: 4, path: other });
  expect((await live.info()).version).toBe(4);
  await live.resume();
  const reply = await running;
  const before = reply.versions[1]!.from;
  expect(reply.versions).toEqual([
    { from: 0, version: 0 },
    { from: before, version: 4 },
  ]);
  expect(before).toBeGreaterThanOrEqual(frozen);
  const fresh = await live.generate({ ...wanted, id: 'again' });
  await live.close();

  const old = await server.generate({ ...wanted, id: 'old' });
  expect([...reply.ids.subarray(0, before)]).toEqual([...old.ids.subarray(0, before)]);
  expect(fresh.versions).toEqual([{ from: 0, version: 4 }]);
  expect([...fresh.ids]).not.toEqual([...old.ids]);
  const elsewhere = await open({ model: other });
  expect([...(await elsewhere.generate({ ...wanted, id: 'new' })).ids]).toEqual([...fresh.ids]);
  // The tokens after the update, scored by the new weights with the old tokens as their prompt.
  const ids = [...wanted.prompt, ...reply.ids];
  const start = wanted.prompt.length + before;
  const scored = await elsewhere.generate(request(ids, { maxTokens: 1 }, { scorePrompt: true }));
  const worst = ids
    .slice(start)
    .map((_, at) => Math.abs(reply.logprobs[before + at]! - scored.promptLogprobs![start + at]!));
  expect(Math.max(...worst)).toBeLessThanOrEqual(1e-4);
  await elsewhere.close();
});

test('weights from memory are those of the same folder, and a wrong set leaves the old in use', async () => {
  const config = readModelConfig(model);
  const tensors = new Map(
    weightSpecs(config).map((spec) => {
      const data = new Float32Array(new SharedArrayBuffer(weightElements(spec) * 4));
      data.set(randomWeight(spec, 2));
      return [spec.name, { shape: spec.shape, data }];
    }),
  );
  const live = await open();
  const elsewhere = await open({ model: other });
  const first = await live.generate(request(PROMPT));
  const broken = new Map(tensors);
  broken.delete('model.norm.weight');
  await expect(live.update({ kind: 'memory', version: 1, tensors: broken })).rejects.toThrow(/model\.norm/);
  const nan = new Map(tensors);
  const bad = new Float32Array(new SharedArrayBuffer(32 * 4)).fill(Number.NaN);
  nan.set('model.norm.weight', { shape: [32], data: bad });
  await expect(live.update({ kind: 'memory', version: 1, tensors: nan })).rejects.toThrow(/not finite/);
  expect([...(await live.generate(request(PROMPT))).ids]).toEqual([...first.ids]);
  await live.update({ kind: 'memory', version: 1, tensors });
  const [mine, theirs] = await Promise.all([
    live.generate(request(PROMPT)),
    elsewhere.generate(request(PROMPT)),
  ]);
  expect([...mine.ids]).toEqual([...theirs.ids]);
  await live.close();
  await elsewhere.close();
});

test('the newest adapter answers as the model with its product added, beside requests to the model itself', async () => {
  const config = readModelConfig(model);
  const adapter = join(folder, 'adapter');
  const merged = join(folder, 'merged');
  const rank = 4;
  const alpha = 8;
  const targets = ['q_proj', 'v_proj', 'o_proj', 'gate_proj', 'down_proj'];
  const loras: { name: string; shape: number[]; data: Float32Array }[] = [];
  const weights = weightSpecs(config).map((spec) => {
    const data = randomWeight(spec, 1);
    const { name } = spec;
    if (targets.some((target) => name.endsWith(`${target}.weight`))) {
      const [out, input] = spec.shape as [number, number];
      const value = (at: number, salt: number) => Math.sin(at * 1.7 + salt) * 0.2;
      const a = Float32Array.from({ length: rank * input }, (_, at) => value(at, out));
      const b = Float32Array.from({ length: out * rank }, (_, at) => value(at, input));
      const peft = `base_model.model.${name.slice(0, -'.weight'.length)}`;
      loras.push({ name: `${peft}.lora_A.weight`, shape: [rank, input], data: a });
      loras.push({ name: `${peft}.lora_B.weight`, shape: [out, rank], data: b });
      for (let o = 0; o < out; o++) {
        for (let i = 0; i < input; i++) {
          let sum = 0;
          for (let r = 0; r < rank; r++) sum += b[o * rank + r]! * a[r * input + i]!;
          data[o * input + i]! += (alpha / rank) * sum;
        }
      }
    }
    return { name, shape: spec.shape, data };
  });
  mkdirSync(adapter);
  mkdirSync(merged);
  const files = new FileSet(adapter);
  const settings = { peft_type: 'LORA', r: rank, lora_alpha: alpha, target_modules: targets, bias: 'none' };
  files.text('adapter_config.json', JSON.stringify(settings));
  files.tensors('adapter_model.safetensors', loras);
  files.commit();
  const whole = new FileSet(merged);
  whole.copy(model, ['config.json']);
  whole.tensors('model.safetensors', weights);
  whole.commit();

  const live = await open();
  const elsewhere = await open({ model: merged });
  const plain = await live.generate(request(PROMPT));
  await live.update({ kind: 'lora', version: 2, name: 'mine', path: adapter });
  const greedy = { temperature: 0, maxTokens: 60 };
  const [adapted, same, expected] = await Promise.all([
    live.generate(request(PROMPT, greedy, { scorePrompt: true })),
    live.generate(request(PROMPT, {}, { adapter: null })),
    elsewhere.generate(request(PROMPT, greedy, { scorePrompt: true })),
  ]);
  expect([...same.ids]).toEqual([...plain.ids]);
  expect([...adapted.ids]).toEqual([...expected.ids]);
  expect([...adapted.ids]).not.toEqual([
    ...(await live.generate(request(PROMPT, greedy, { adapter: null }))).ids,
  ]);
  expected.promptLogprobs!.forEach((value, at) => {
    if (at > 0) expect(Math.abs(value - adapted.promptLogprobs![at]!)).toBeLessThan(1e-4);
  });
  await expect(live.update({ kind: 'lora', version: 3, name: 'mine', path: model })).rejects.toThrow(
    /adapter_config\.json/,
  );
  for (const version of [7, 8])
    await live.update({ kind: 'lora', version, name: `policy@${version}`, path: adapter });
  const of = (name: string) => live.generate(request(PROMPT, greedy, { adapter: name }));
  for (const name of ['mine', 'policy@8']) expect([...(await of(name)).ids]).toEqual([...expected.ids]);
  await expect(of('policy@7')).rejects.toThrow(/loaded adapters: "mine", "policy@8"/);
  await live.close();
  await elsewhere.close();
});

test('a server with the weights of a trainer reports the log-probs that the trainer scores, to the bit', async () => {
  const asked = { temperature: 1, outputs: ['logprob'] } as const;
  const row = { ids: Int32Array.of(...PROMPT), targets: Uint8Array.of(0, 1, 1, 1, 1) };
  const ways = (['float32', 'bfloat16'] as const).flatMap((weights) => [
    { weights },
    { weights, lora: { rank: 4, alpha: 6 } },
  ]);
  for (const [way, { weights, lora }] of ways.entries()) {
    const [live, trainer] = await Promise.all([
      open({ weights }),
      openTrainer({ model, threads: 1, weights, ...(lora ? { lora } : {}) }),
    ]);
    const before = await trainer.score([row], asked);
    for (const version of [1, 2]) {
      const pass = await trainer.forward([row], asked);
      await pass.backward({ logprob: [Float32Array.from(row.targets, (target) => -target)] });
      const adam = { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, clipNorm: 1 };
      await trainer.optimStep({ learningRate: 0.01, ...adam });
      const path = join(folder, `trained-${way}-${version}`);
      if (lora) await trainer.save(path);
      const name = `policy@${version}`;
      await live.update(lora ? { kind: 'lora', version, name, path } : await trainer.publish(version));
    }
    const { logprob } = await trainer.score([row], asked);
    const asking = request(PROMPT, { temperature: 1, maxTokens: 1 }, { scorePrompt: true });
    const { promptLogprobs } = await live.generate(asking);
    expect([...promptLogprobs!.subarray(1)]).toEqual([...logprob![0]!.subarray(1)]);
    expect([...logprob![0]!]).not.toEqual([...before.logprob![0]!]);
    await live.close();
    await trainer.close();
  }
});

test('weights held in bfloat16 answer as a trainer that holds them so, and not as float32', async () => {
  const weights = 'bfloat16';
  const [live, trainer, plain] = await Promise.all([
    open({ weights }),
    openTrainer({ model, threads: 1, weights, trainable: false }),
    server.generate(request(PROMPT, { maxTokens: 40 }, { scorePrompt: true })),
  ]);
  expect((await live.info()).arithmetic).toBe(trainer.arithmetic);
  expect((await server.info()).arithmetic).not.toBe(trainer.arithmetic);
  const { arithmetic } = trainer;
  const [beside] = await embedded({ threads: 1, log: () => {} }).servers.open(model, { arithmetic });
  expect((await beside!.info()).arithmetic).toBe(arithmetic);
  await beside!.close();
  const { ids, logprobs } = await live.generate(request(PROMPT, { maxTokens: 40, temperature: 1 }));
  const row = { ids: Int32Array.of(...PROMPT, ...ids), targets: new Uint8Array(PROMPT.length + ids.length) };
  row.targets.fill(1, PROMPT.length);
  const { logprob } = await trainer.score([row], { temperature: 1, outputs: ['logprob'] });
  logprobs.forEach((value, at) => {
    expect(value).toBe(logprob![0]![PROMPT.length + at]!);
  });
  const again = await live.generate(request(PROMPT, { maxTokens: 1 }, { scorePrompt: true }));
  const distances = PROMPT.slice(1).map((_, at) =>
    Math.abs(again.promptLogprobs![at + 1]! - plain.promptLogprobs![at + 1]!),
  );
  expect(Math.max(...distances)).toBeGreaterThan(1e-5);
  expect(Math.max(...distances)).toBeLessThan(0.05);
  await Promise.all([live.close(), trainer.close()]);
});

test('weights held in int8 answer nearly as float32, and say that their arithmetic is another', async () => {
  const live = await open({ weights: 'int8' });
  const scored = (from: EmbeddedServer) =>
    from.generate(request(PROMPT, { maxTokens: 1 }, { scorePrompt: true }));
  const [plain, rounded] = await Promise.all([scored(server), scored(live)]);
  const distances = PROMPT.slice(1).map((_, at) =>
    Math.abs(rounded.promptLogprobs![at + 1]! - plain.promptLogprobs![at + 1]!),
  );
  expect(Math.max(...distances)).toBeGreaterThan(1e-5);
  expect(Math.max(...distances)).toBeLessThan(0.1);
  expect((await live.info()).arithmetic).not.toBe((await server.info()).arithmetic);
  await live.close();
});

test('a request that cannot run is refused by field and value, and the engine goes on', async () => {
  const refused = (wanted: GenerateRequest) =>
    server.generate(wanted).then(
      () => 'answered',
      (error: Error) => (error instanceof EngineError ? error.message : `${error.name}: ${error.message}`),
    );
  expect(await refused(request([1, 40]))).toMatch(/prompt\[1\] is 40; .*0 to 39/);
  expect(await refused(request([-1]))).toMatch(/prompt\[0\] is -1/);
  expect(await refused(request([]))).toMatch(/prompt is empty/);
  expect(await refused(request(new Array(1024).fill(1)))).toMatch(/prompt is 1024 tokens long; .*1023/);
  expect(await refused(request([1], { maxTokens: 0 }))).toMatch(/sampling\.maxTokens is 0/);
  expect(await refused(request([1], { temperature: Number.NaN }))).toMatch(/sampling\.temperature is NaN/);
  expect(await refused(request([1], { temperature: -1 }))).toMatch(/sampling\.temperature is -1/);
  expect(await refused(request([1], { topP: Number.POSITIVE_INFINITY }))).toMatch(/topP is Infinity/);
  expect(await refused(request([1], { topK: 0 }))).toMatch(/topK is 0/);
  expect(await refused(request([1], { minP: 2 }))).toMatch(/minP is 2/);
  expect(await refused(request([1], { repetitionPenalty: 0 }))).toMatch(/repetitionPenalty is 0/);
  expect(await refused(request([1], { seed: 0.5 }))).toMatch(/seed is 0\.5/);
  expect(await refused(request([1], { stopStrings: [''] }))).toMatch(/stopStrings\[0\]/);
  expect(await refused(request([1], { constraint: { kind: 'regex', source: 'a' } }))).toMatch(/constraint/);
  expect(await refused(request([1], {}, { adapter: 'none' }))).toMatch(
    /adapter is none; loaded adapters: none/,
  );
  const images = [{ blob: 'x', mime: 'image/png', width: 1, height: 1, tokens: 1 }];
  expect(await refused(request([1], {}, { images }))).toMatch(/images/);
  expect((await server.generate(request(PROMPT))).ids.length).toBe(24);
  await expect(server.update({ kind: 'collective', version: 1, group: 'g' })).rejects.toThrow(/collective/);
  await expect(server.update({ kind: 'disk', version: 1, path: join(folder, 'nowhere') })).rejects.toThrow(
    /nowhere/,
  );
});

test('what cannot open says why', async () => {
  await expect(open({ model: join(folder, 'absent') })).rejects.toThrow(ConfigError);
  await expect(open({ maxBatch: 0 })).rejects.toThrow(/maxBatch is 0/);
  await expect(open({ cacheMegabytes: 0.001 })).rejects.toThrow(/cacheMegabytes is 0.001/);
});

test('close rejects what is in flight and ends the thread', async () => {
  const closing = await open();
  const running = closing.generate(request(PROMPT, LONG)).then(
    () => 'answered',
    (error: Error) => error.message,
  );
  const paused = closing.pause('wait').catch((error: Error) => error.message);
  await closing.close();
  expect(await running).toMatch(/closed/);
  expect(await paused).toMatch(/closed/);
  expect(await closing.ready()).toBe(false);
  await expect(closing.generate(request(PROMPT))).rejects.toThrow(EngineError);
  await closing.close();
});

test('requests of any shape end in a reply or in their own error', async () => {
  const odd = [Number.NaN, Number.POSITIVE_INFINITY, -1, 0, 0.5, 1, 2, 1e9];
  const pick = (at: number) => odd[at % odd.length]!;
  const outcomes = await Promise.all(
    Array.from({ length: 300 }, (_, at) => {
      const numbers = {
        temperature: pick(at),
        topP: at % 3 ? 1 : pick(at + 1),
        topK: at % 5 ? -1 : pick(at >> 2),
        minP: at % 7 ? 0 : pick(at >> 1),
        maxTokens: at % 4 ? 5 : pick(at >> 3),
        repetitionPenalty: at % 6 ? 1 : pick(at >> 1),
      };
      const length = at % 11;
      const prompt = Array.from({ length }, (_, token) => (at * 31 + token * 17) % 41);
      return server.generate(request(prompt, numbers)).then(
        (reply: GenerateResult) => reply.finish,
        (error: Error) => error.constructor.name,
      );
    }),
  );
  expect(new Set(outcomes)).toEqual(new Set(['length', 'EngineError']));
  expect((await server.stats()).running).toBe(0);
});
