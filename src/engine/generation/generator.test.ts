import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { GenerateResult, SamplingParams } from '../../inference/server.ts';
import { PLAIN_SAMPLING } from '../../lib/plain-sampling.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { openKernels } from '../kernels/open.ts';
import type { ModelConfig } from '../model/config.ts';
import { randomWeight } from '../model/create.ts';
import { FAMILIES } from '../model/families.ts';
import { FileSet } from '../model/files.ts';
import { weightSpecs } from '../model/weights.ts';
import { Generator } from './generator.ts';
import { Head } from './head.ts';
import type { WeightSource } from './packed-weights.ts';
import type { PlainRequest } from './request.ts';

let kernels: Kernels;
beforeAll(async () => {
  kernels = await openKernels({ threads: 2, log: () => {} });
}, 120_000);
afterAll(() => kernels.close());

const CONFIG: ModelConfig = {
  family: 'qwen3',
  vocabulary: 23,
  hidden: 32,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headSize: 16,
  intermediate: 48,
  contextTokens: 160,
  ropeBase: 1000,
  normEpsilon: 1e-6,
  tied: true,
  ...FAMILIES.qwen3.traits,
  bosId: undefined,
  eosIds: [],
};
const BLOCK = 16;
const BLOCK_BYTES = BLOCK * CONFIG.kvHeads * CONFIG.headSize * 4 * 2 * CONFIG.layers;

const SAMPLING: SamplingParams = {
  ...PLAIN_SAMPLING,
  maxTokens: 20,
  stopIds: [],
  seed: 1,
};

const weights =
  (seed: number): WeightSource =>
  (visit) => {
    for (const spec of weightSpecs(CONFIG)) visit(spec).set(randomWeight(spec, seed));
  };

function open({ blocks = 512, maxBatch = 64 } = {}) {
  return new Generator(kernels, CONFIG, weights(7), {
    cacheMegabytes: (blocks * BLOCK_BYTES) / 2 ** 20,
    maxBatch,
    version: 0,
    decoder: () => ({ decode: (ids) => ids.map((id) => String.fromCharCode(97 + id)).join('') }),
  });
}

function request(
  prompt: readonly number[],
  sampling: Partial<SamplingParams> = {},
  more: Partial<PlainRequest> = {},
) {
  return {
    id: 'r',
    prompt: Int32Array.from(prompt),
    sampling: { ...SAMPLING, ...sampling },
    streams: false,
    ...more,
  } satisfies PlainRequest;
}

/** Steps until all is answered; replies by key. */
function run(generator: Generator): Map<number, GenerateResult> {
  const replies = new Map<number, GenerateResult>();
  for (let steps = 0; generator.busy; steps++) {
    if (steps > 5000) throw new Error('no end');
    generator.step();
    const news = generator.takeNews();
    for (const { key, result } of news?.finished ?? []) replies.set(key, result);
    if (news && news.failed.length > 0) throw new Error(news.failed[0]!.message);
  }
  return replies;
}

/** The reply to one request on a fresh engine. */
function alone(wanted: PlainRequest): GenerateResult {
  const generator = open();
  try {
    generator.add(0, wanted);
    return run(generator).get(0)!;
  } finally {
    generator.free();
  }
}

/** The same beside eight more of its kind: with so many at once nothing is guessed. */
function withoutGuesses(wanted: PlainRequest): GenerateResult {
  const generator = open();
  for (let key = 0; key < 9; key++) generator.add(key, { ...wanted, streams: false });
  let reply: GenerateResult | undefined;
  while (!reply) {
    generator.step();
    reply = generator.takeNews()?.finished.find(({ key }) => key === 0)?.result;
  }
  expect(generator.statistics().guessedTokens).toBe(0);
  generator.free();
  return reply;
}

/** Log-probs of the reply's tokens by scoring the whole sequence as a prompt. */
function rescored(wanted: PlainRequest, reply: GenerateResult): Float32Array {
  const whole = [...wanted.prompt, ...reply.ids];
  const { promptLogprobs } = alone(
    request([...whole, 0], { temperature: wanted.sampling.temperature, maxTokens: 1 }, { scorePrompt: true }),
  );
  return promptLogprobs!.slice(wanted.prompt.length, whole.length);
}

const promptOf = (length: number, salt: number) =>
  Array.from({ length }, (_, i) => (i * 7 + salt * (i > 20 ? 5 : 0)) % 23);

const samplingArbitrary = fc.record(
  {
    temperature: fc.constantFrom(0, 0.7, 1, 1.3),
    topP: fc.constantFrom(1, 0.9, 0.5),
    topK: fc.constantFrom(-1, 1, 5),
    minP: fc.constantFrom(0, 0.05),
    repetitionPenalty: fc.constantFrom(1, 1, 1.2),
    presencePenalty: fc.constantFrom(0, 0, 0.5),
    frequencyPenalty: fc.constantFrom(0, 0, 0.3),
    maxTokens: fc.integer({ min: 1, max: 120 }),
    stopIds: fc.constantFrom([], [], [], [], [3]),
    stopStrings: fc.constantFrom<string[]>([], [], [], ['ab'], ['q', 'cde']),
    seed: fc.nat(1000),
  },
  { requiredKeys: ['temperature', 'maxTokens', 'seed'] },
);

describe('the same request and seed give the same tokens', () => {
  const arrival = fc.record({
    prompt: fc
      .tuple(fc.integer({ min: 1, max: 70 }), fc.nat(3))
      .map(([length, salt]) => promptOf(length, salt)),
    sampling: samplingArbitrary,
    step: fc.nat(30),
    abortAfter: fc.option(fc.integer({ min: 1, max: 25 }), { freq: 6 }),
    priority: fc.constantFrom(0, 0, 1),
    scorePrompt: fc.constantFrom(false, false, true),
  });
  test('alone or among many, whatever arrives, is shared, evicted, preempted or aborted', () => {
    let evictions = 0;
    let cached = 0;
    fc.assert(
      fc.property(
        fc.array(arrival, { minLength: 4, maxLength: 64, size: 'max' }),
        fc.constantFrom(11, 14, 20, 512),
        fc.constantFrom(3, 64),
        (arrivals, blocks, maxBatch) => {
          const generator = open({ blocks, maxBatch });
          const replies = new Map<number, GenerateResult>();
          const requests = arrivals.map(({ prompt, sampling, priority, scorePrompt }) =>
            request(prompt, sampling, { priority, scorePrompt }),
          );
          const aborted = new Map<number, number>();
          for (let step = 0; step <= 30 || generator.busy; step++) {
            if (step > 3000) throw new Error(`no end: ${JSON.stringify(generator.statistics())}`);
            arrivals.forEach((one, key) => {
              if (one.step === step) generator.add(key, requests[key]!);
              if (one.abortAfter && one.step + one.abortAfter === step) generator.abort(key);
            });
            generator.step();
            for (const { key, result } of generator.takeNews()?.finished ?? []) replies.set(key, result);
          }
          const statistics = generator.statistics();
          evictions += statistics.evictions;
          cached += statistics.cachedPromptTokens;
          generator.free();
          expect(replies.size).toBe(arrivals.length);
          for (const [key, reply] of replies) {
            const expected = alone(requests[key]!);
            const length = reply.finish === 'abort' ? reply.ids.length : expected.ids.length;
            expect([...reply.ids]).toEqual([...expected.ids.subarray(0, length)]);
            expect([...reply.logprobs]).toEqual([...expected.logprobs.subarray(0, length)]);
            if (reply.finish === 'abort') aborted.set(key, length);
            else {
              expect(reply.finish).toBe(expected.finish);
              expect(reply.promptLogprobs).toEqual(expected.promptLogprobs);
            }
          }
        },
      ),
      { numRuns: 12, endOnFailure: true },
    );
    // The property is only worth something if this happened.
    expect(Math.min(evictions, cached)).toBeGreaterThan(0);
  }, 60_000);

  test('when blocks run out again and again', () => {
    const generator = open({ blocks: 11 });
    const requests = Array.from({ length: 8 }, (_, seed) =>
      request(promptOf(30, seed), { seed, maxTokens: 110 }),
    );
    requests.forEach((wanted, key) => {
      generator.add(key, wanted);
    });
    const replies = run(generator);
    expect(generator.statistics().preemptions).toBeGreaterThan(5);
    generator.free();
    requests.forEach((wanted, key) => {
      const expected = alone(wanted);
      expect([...replies.get(key)!.ids]).toEqual([...expected.ids]);
      expect([...replies.get(key)!.logprobs]).toEqual([...expected.logprobs]);
    });
  });

  test('with guesses, of which some are right, and without', () => {
    for (const sampling of [
      { temperature: 0 },
      { temperature: 0.3, seed: 4 },
      { temperature: 1, stopIds: [3] },
    ]) {
      const wanted = request(promptOf(30, 1), { ...sampling, maxTokens: 100 }, { streams: true });
      const expected = withoutGuesses(wanted);
      const one = open();
      one.add(0, wanted);
      const streamed: number[] = [];
      let result: GenerateResult | undefined;
      while (one.busy) {
        one.step();
        const news = one.takeNews();
        streamed.push(...(news?.streamed.ids ?? []));
        result ??= news?.finished[0]?.result;
      }
      const { steps, rightGuesses, guessedTokens, sampledTokens } = one.statistics();
      expect(result).toEqual(expected);
      expect(streamed).toEqual([...expected.ids]);
      expect(sampledTokens).toBe(expected.ids.length);
      expect(guessedTokens).toBeGreaterThan(0);
      if (sampling.temperature === 0) {
        expect(rightGuesses).toBeGreaterThan(20);
        expect(steps).toBeLessThan(expected.ids.length - 10);
      }
      one.free();
    }
  });

  test('with guesses while other requests come, end, are aborted and fail beside it, few blocks or many', () => {
    let guessed = 0;
    const neighbour = fc.record({
      step: fc.integer({ min: 1, max: 60 }),
      length: fc.integer({ min: 1, max: 40 }),
      maxTokens: fc.integer({ min: 1, max: 12 }),
      temperature: fc.constantFrom(0, 0.6),
      aborts: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.array(neighbour, { maxLength: 30 }),
        fc.constantFrom(1, 2, 4, 8),
        fc.constantFrom(12, 512),
        fc.record({ temperature: fc.constantFrom(0, 0.3, 0.6), seed: fc.nat(50) }),
        fc.constantFrom([], ['dd'], ['abc', 'q']),
        (neighbours, maxBatch, blocks, sampling, stopStrings) => {
          const wanted = request(promptOf(30, 1), { ...sampling, stopStrings, maxTokens: 100 });
          const generator = open({ blocks, maxBatch });
          generator.add(0, wanted);
          let reply: GenerateResult | undefined;
          for (let step = 1; !reply; step++) {
            for (const [index, { length, maxTokens, temperature, ...other }] of neighbours.entries()) {
              const key = 1 + index;
              if (other.step === step)
                generator.add(key, request(promptOf(length, key), { maxTokens, temperature }));
              if (other.step + 2 === step && other.aborts) generator.abort(key);
            }
            generator.step();
            reply = generator.takeNews()?.finished.find(({ key }) => key === 0)?.result;
          }
          guessed += generator.statistics().guessedTokens;
          generator.free();
          const expected = withoutGuesses(wanted);
          expect([...reply.ids]).toEqual([...expected.ids]);
          expect([...reply.logprobs]).toEqual([...expected.logprobs]);
          expect(reply.finish).toBe(expected.finish);
        },
      ),
      { numRuns: 60 },
    );
    expect(guessed).toBeGreaterThan(100);
  });

  test('with guesses when rows are sampled one by one, since one of them was bad', () => {
    const wanted = request(promptOf(30, 1), { temperature: 0.3, seed: 4, maxTokens: 100 });
    const sample = Head.prototype.sample;
    const failing = vi.spyOn(Head.prototype, 'sample').mockImplementation(function (this: Head, ...call) {
      if (call[3].length > 1) throw new Error('one of these rows is bad');
      sample.apply(this, call);
    });
    const reply = alone(wanted);
    failing.mockRestore();
    expect([...reply.ids]).toEqual([...withoutGuesses(wanted).ids]);
  });

  test('and other seeds give other tokens', () => {
    const replies = Array.from({ length: 8 }, (_, seed) => alone(request([1, 2, 3], { seed })).ids.join());
    expect(new Set(replies).size).toBe(8);
  });
});

test('log-probs reported at sampling are those of scoring the finished sequence', () => {
  fc.assert(
    fc.property(samplingArbitrary, fc.integer({ min: 1, max: 60 }), (sampling, length) => {
      const maxTokens = Math.min(60, sampling.maxTokens);
      const wanted = request(promptOf(length, 1), { ...sampling, maxTokens });
      const reply = alone(wanted);
      const again = rescored(wanted, reply);
      reply.logprobs.forEach((value, at) => {
        expect(Math.abs(value - again[at]!)).toBeLessThanOrEqual(1e-4);
      });
    }),
    { numRuns: 20 },
  );
});

test('every token names the version of what sampled it: the newest adapter, one that is named, or the model', () => {
  const directory = mkdtempSync(join(tmpdir(), 'rollcall-adapter-'));
  const files = new FileSet(directory);
  const settings = { peft_type: 'LORA', r: 1, lora_alpha: 1, target_modules: ['q_proj'], bias: 'none' };
  files.text('adapter_config.json', JSON.stringify(settings));
  files.tensors(
    'adapter_model.safetensors',
    weightSpecs(CONFIG)
      .filter(({ name }) => name.endsWith('q_proj.weight'))
      .flatMap(({ name, shape: [out, input] }) =>
        [
          { part: 'lora_A', shape: [1, input!] },
          { part: 'lora_B', shape: [out!, 1] },
        ].map(({ part, shape }) => ({
          name: `base_model.model.${name.replace('weight', `${part}.weight`)}`,
          shape,
          data: new Float32Array(shape[0]! * shape[1]!).fill(0.1),
        })),
      ),
  );
  files.commit();
  const generator = open();
  try {
    generator.updateAdapter(11, 'policy@11', directory);
    generator.add(0, request([1, 2, 3]));
    generator.add(1, request([1, 2, 3], {}, { adapter: null }));
    for (let step = 0; step < 5; step++) generator.step();
    generator.updateAdapter(12, 'policy@12', directory);
    generator.add(2, request([1, 2, 3], {}, { adapter: 'policy@12' }));
    expect(generator.version).toBe(12);
    for (let step = 0; step < 5; step++) generator.step();
    generator.updateAdapter(13, 'policy@12', directory);
    const replies = run(generator);
    generator.updateWeights(14, weights(8));
    generator.add(3, request([1, 2, 3]));
    replies.set(3, run(generator).get(3)!);
    expect([0, 1, 2, 3].map((key) => replies.get(key)!.versions)).toEqual([
      [{ from: 0, version: 11 }],
      [{ from: 0, version: 0 }],
      [
        { from: 0, version: 12 },
        { from: 5, version: 13 },
      ],
      [{ from: 0, version: 14 }],
    ]);
  } finally {
    generator.free();
    rmSync(directory, { recursive: true });
  }
});
