import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { GenerateRequest } from '../src/inference/server.ts';
import { PLAIN_SAMPLING } from '../src/lib/plain-sampling.ts';
import { type SimulatedHardware, simulatedEngine } from './simulated-engine.ts';
import { virtualClock } from './virtual-clock.ts';

/** Numbers that are easily added by hand. */
const HARDWARE: SimulatedHardware = {
  stepMs: 10,
  sequenceMs: 1,
  contextMs: 0.1,
  prefillMs: 0.5,
  maxBatch: 8,
  chunkTokens: 64,
  kvTokens: 1000,
  prefixCache: true,
  blockTokens: 4,
};

const request = (
  id: string,
  prompt: number | Int32Array,
  tokens: number,
  more: Partial<GenerateRequest> = {},
): GenerateRequest => ({
  id,
  trajectory: id,
  prompt:
    typeof prompt === 'number'
      ? Int32Array.from({ length: prompt }, (_, at) => at + 1000 * id.length)
      : prompt,
  sampling: { ...PLAIN_SAMPLING, maxTokens: tokens, stopIds: [], seed: id.length },
  ...more,
});

function engine(hardware: Partial<SimulatedHardware> = {}) {
  const clock = virtualClock();
  const server = simulatedEngine({
    clock,
    hardware: { ...HARDWARE, ...hardware },
    replyTokens: ({ sampling }) => sampling.maxTokens,
  });
  /** The reply and when it came. */
  const ask = async (one: GenerateRequest) => ({ ...(await server.generate(one)), at: clock.now() });
  return { clock, server, ask };
}

test('one request alone: its prompt in one step, which gives the first token, then a step a token', async () => {
  const { server, ask } = engine();
  const reply = await ask(request('a', 20, 3));
  // Prompt: 10 + 0.5·20 = 20. Second token, 21 in context: 10 + 1 + 2.1. Third, 22 in context: 10 + 1 + 2.2.
  expect(reply.at).toBeCloseTo(20 + 13.1 + 13.2, 9);
  expect(reply.ids).toHaveLength(3);
  expect(reply).toMatchObject({ finish: 'stop', promptTokens: 20, cachedTokens: 0 });
  expect(server.statistics()).toMatchObject({ steps: 3, computedPromptTokens: 20, preemptions: 0 });
  expect(server.statistics().busyMs).toBeCloseTo(46.3, 9);
});

test('every request adds its fixed time to the step with its prompt', async () => {
  const { ask } = engine({ requestMs: 3 });
  const both = await Promise.all([ask(request('a', 20, 1)), ask(request('bb', 10, 1))]);
  // One came first and is alone in its step: 10 + 10 + 3. The other's: 10 + 5 + 3.
  expect(both.map(({ at }) => at)).toEqual([23, 41]);
});

test('a prompt longer than a chunk takes several steps', async () => {
  const { ask } = engine();
  // 64 + 36 prompt tokens: (10 + 32) + (10 + 18).
  expect((await ask(request('a', 100, 1))).at).toBeCloseTo(70, 9);
});

test('two requests are batched: a newcomer joins at the next step, and each pays for both', async () => {
  const { clock, ask } = engine();
  const first = ask(request('a', 20, 4));
  const second = new Promise<Awaited<ReturnType<typeof ask>>>((resolve) =>
    clock.timer(25, () => resolve(ask(request('bb', 10, 2)))),
  );
  // a: prompt until 20; its second token's step runs from 20 to 33.1. bb came at 25 and waits for it.
  // 33.1: a decodes with 22 in context beside bb's prompt: 10 + 1 + 2.2 + 5 = 18.2, until 51.3.
  // 51.3: both decode, 23 and 11 in context: 10 + 2 + 3.4 = 15.4, until 66.7, where both are done.
  expect((await first).at).toBeCloseTo(66.7, 9);
  expect((await second).at).toBeCloseTo(66.7, 9);
});

test('a context that was answered before is read from the cache, in whole blocks', async () => {
  const { clock, server, ask } = engine();
  const first = await ask(request('a', 20, 5));
  const context = Int32Array.from([...request('a', 20, 5).prompt, ...first.ids, 7, 7, 7]);
  const asked = clock.now();
  const second = await ask(request('a', context, 1));
  // 28 in context; 24 of 25 had K/V, which are 6 blocks of 4. Computed: 4 tokens, 10 + 0.5·4.
  expect(second.cachedTokens).toBe(24);
  expect(second.at - asked).toBeCloseTo(12, 9);
  expect(server.statistics()).toMatchObject({ computedPromptTokens: 24, cachedPromptTokens: 24 });
});

test('without a prefix cache everything is computed again', async () => {
  const { clock, ask } = engine({ prefixCache: false });
  await ask(request('a', 20, 1));
  const asked = clock.now();
  const second = await ask(request('a', 20, 1));
  expect(second.cachedTokens).toBe(0);
  expect(second.at - asked).toBeCloseTo(20, 9);
});

test('the least recently used context goes first, its end before its beginning', async () => {
  const { ask } = engine({ kvTokens: 60 });
  await ask(request('a', 20, 1));
  await ask(request('bb', 20, 1));
  expect((await ask(request('a', 20, 1))).cachedTokens).toBe(16); // one token is always computed
  // ccc needs 33 of 60, which leaves 27, or six blocks, to the ten that are cached: the last four of bb go.
  await ask(request('ccc', 32, 1));
  expect((await ask(request('a', 20, 1))).cachedTokens).toBe(16);
  expect((await ask(request('bb', 20, 1))).cachedTokens).toBe(4);
});

test('short of memory, the last in line loses its place and goes on by computing it again', async () => {
  const { server, ask } = engine({ kvTokens: 50, prefixCache: false });
  const [first, second] = await Promise.all([ask(request('a', 20, 8)), ask(request('bb', 20, 8))]);
  // a's prompt until 20. bb's prompt beside a's second token: 10 + 1 + 2.1 + 10, until 43.1, 43 of 50 held.
  // Three steps of both, 43 in context and 2 more each: 16.3 + 16.5 + 16.7, until 92.6, 49 held. bb gives way.
  // a alone, 25 to 27 in context: 13.5 + 13.6 + 13.7, done at 133.4.
  // bb computes its 24 again, which gives its fifth token: 22; then 25 to 27 in context: 40.8, done at 196.2.
  expect(first.at).toBeCloseTo(133.4, 9);
  expect(second.at).toBeCloseTo(196.2, 9);
  expect(second.ids).toHaveLength(8);
  expect(server.statistics().preemptions).toBe(1);
});

test('a higher priority goes first; beyond the largest batch requests queue', async () => {
  const { server, ask } = engine({ maxBatch: 1 });
  const all = [
    ask(request('a', 20, 2)),
    ask(request('bb', 20, 2)),
    ask(request('ccc', 20, 2, { priority: 1 })),
  ];
  expect(await server.load()).toMatchObject({ running: 1, queued: 2, preemptions: 0 });
  const [first, second, third] = await Promise.all(all);
  expect(first!.at).toBeLessThan(third!.at);
  expect(third!.at).toBeLessThan(second!.at);
  expect(await server.load()).toMatchObject({ running: 0, queued: 0, kvUse: 0, kvTokens: 1000 });
});

test('an aborted request gives what it has; paused requests go on, or come back as partials', async () => {
  const { clock, server, ask } = engine();
  const stop = new AbortController();
  const given = ask(request('a', 20, 100, { signal: stop.signal }));
  clock.timer(40, () => stop.abort());
  // Tokens at 20, 33.1, 46.3: the third step runs when the request is given up, and counts.
  expect(await given).toMatchObject({ finish: 'abort', ids: expect.objectContaining({ length: 3 }) });
  expect(clock.now()).toBeCloseTo(46.3, 9);

  const began = clock.now();
  const kept = ask(request('bb', 20, 3));
  clock.timer(25, () => void server.pause('keep'));
  clock.timer(1000, () => void server.resume());
  // The second token's step (20 to 33.1) is lost at 25 and done again from 1000 on: 13.1 + 13.2.
  expect((await kept).at - began).toBeCloseTo(1026.3, 9);

  const partial = ask(request('ccc', 20, 30));
  clock.timer(25, () => void server.pause('abort'));
  expect(await partial).toMatchObject({ finish: 'abort', ids: expect.objectContaining({ length: 1 }) });
});

test('new weights empty the cache, and the rest of a reply is theirs', async () => {
  const { clock, server, ask } = engine();
  const reply = ask(request('a', 20, 5));
  clock.timer(40, () => void server.update({ kind: 'disk', version: 7, path: '' }));
  // Two tokens by 33.1. At 40 all 22 are computed anew: 10 + 11, which gives the third at 61.
  expect((await reply).versions).toEqual([
    { from: 0, version: 0 },
    { from: 2, version: 7 },
  ]);
  expect((await reply).at).toBeCloseTo(61 + 13.3 + 13.4, 9);
});

test('a request that can never fit is refused with both numbers', async () => {
  await expect(engine({ kvTokens: 100 }).ask(request('a', 90, 20))).rejects.toThrow(/needs 110 .* are 100/);
});

test('whatever comes, every request ends once with its tokens, memory is never exceeded and is free at the end', () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          at: fc.integer({ min: 0, max: 500 }),
          family: fc.integer({ min: 0, max: 3 }),
          prompt: fc.integer({ min: 1, max: 60 }),
          tokens: fc.integer({ min: 1, max: 30 }),
        }),
        { minLength: 1, maxLength: 20 },
      ),
      fc.integer({ min: 90, max: 200 }),
      fc.boolean(),
      async (requests, kvTokens, prefixCache) => {
        const { clock, server, ask } = engine({ kvTokens, prefixCache, maxBatch: 5 });
        const replies = await Promise.all(
          requests.map(
            ({ at, family, prompt, tokens }, number) =>
              new Promise<Awaited<ReturnType<typeof ask>>>((resolve) => {
                const ids = Int32Array.from({ length: prompt }, (_, position) => family * 100 + position);
                clock.timer(at, () => resolve(ask(request(`${number}`, ids, tokens))));
              }),
          ),
        );
        replies.forEach((reply, number) => {
          expect(reply.ids).toHaveLength(requests[number]!.tokens);
          expect(reply.at).toBeGreaterThan(requests[number]!.at);
        });
        const { mostHeldTokens, busyMs } = server.statistics();
        expect(mostHeldTokens).toBeLessThanOrEqual(kvTokens);
        expect(busyMs).toBeLessThanOrEqual(clock.now() + 1e-6);
        expect(await server.load()).toMatchObject({ running: 0, queued: 0, kvUse: 0 });
        expect(clock.pending).toBe(0);
      },
    ),
    { numRuns: 60 },
  ));
