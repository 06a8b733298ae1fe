import { byteModel, scriptedEngine, virtualClock } from 'rollcall/testing';
import { expect, test } from 'vitest';
import type { GenerateRequest, GenerateResult } from '../inference/server.ts';
import { DEFAULT_SAMPLING } from './sampling.ts';
import { generateWhole } from './whole-reply.ts';

const { tokenizer, format } = byteModel();
const WHOLE = 'a reply in pieces';
const STOP = format.stopIds[0]!;

/** A server that stops after a number of tokens of its script; weights change between the pieces. */
function givingUpAfter(...lengths: readonly number[]) {
  const engine = scriptedEngine({
    tokenizer,
    reply: ({ text }) => WHOLE.slice(text.slice('prompt:'.length).length),
  });
  const requests: GenerateRequest[] = [];
  const server = {
    generate: async (request: GenerateRequest): Promise<GenerateResult> => {
      const length = lengths[requests.push(request) - 1];
      const result = await engine.generate(request);
      await engine.update({ kind: 'disk', version: requests.length, path: '' });
      if (length === undefined) return result;
      return {
        ...result,
        ids: result.ids.slice(0, length),
        logprobs: result.logprobs.slice(0, length),
        versions: length === 0 ? [] : result.versions,
        finish: 'abort',
      };
    },
  };
  return { server, requests, replies: engine.replies };
}

const requestOf = (maxTokens = 100, signal = new AbortController().signal) => ({
  id: 'train/task-1/reply-1/',
  trajectory: 'train/task-1',
  prompt: tokenizer.encode('prompt:'),
  sampling: { ...DEFAULT_SAMPLING, maxTokens, stopIds: format.stopIds, seed: 7 },
  signal,
});

test('what a server gave up is kept, and the rest is asked for after it', async () => {
  const { server, requests, replies } = givingUpAfter(4, 0, 6);
  const { ids, logprobs, finish, versions } = await generateWhole(server, requestOf(), virtualClock());
  expect([tokenizer.decode(ids), finish]).toEqual([
    `${WHOLE}${tokenizer.decode(Int32Array.of(STOP))}`,
    'stop',
  ]);
  expect([...logprobs]).toEqual([
    ...replies[0]!.logprobs.slice(0, 4),
    ...replies[2]!.logprobs.slice(0, 6),
    ...replies[3]!.logprobs,
  ]);
  expect(versions).toEqual([
    { from: 0, version: 0 },
    { from: 4, version: 2 },
    { from: 10, version: 3 },
  ]);
  expect(requests.map(({ prompt }) => tokenizer.decode(prompt))).toEqual([
    'prompt:',
    'prompt:a re',
    'prompt:a re',
    'prompt:a reply in',
  ]);
  expect(requests.map(({ sampling }) => sampling.maxTokens)).toEqual([100, 96, 96, 90]);
  expect(new Set(requests.map(({ sampling }) => sampling.seed)).size).toBe(4);
});

test('no id of a piece begins with that of another', async () => {
  const { server, requests } = givingUpAfter(...Array.from({ length: 11 }, () => 1));
  await generateWhole(server, requestOf(), virtualClock());
  const ids = requests.map(({ id }) => id);
  expect(ids).toHaveLength(12);
  for (const id of ids) expect(ids.filter((other) => other.startsWith(id))).toEqual([id]);
});

test('a reply given up at its stop token or at its limit is complete', async () => {
  const atStop = givingUpAfter(WHOLE.length + 1);
  expect((await generateWhole(atStop.server, requestOf(), virtualClock())).finish).toBe('stop');
  const atLimit = givingUpAfter(5);
  const { ids, finish } = await generateWhole(atLimit.server, requestOf(5), virtualClock());
  expect([ids.length, finish, atLimit.requests.length]).toEqual([5, 'length', 1]);
});

test('a server that gives up without a token again and again is gone', async () => {
  const clock = virtualClock();
  const { server, requests } = givingUpAfter(4, 0, 0, 0, 0, 0, 0, 0);
  await expect(generateWhole(server, requestOf(), clock)).rejects.toThrow(
    /gave up request train\/task-1\/reply-1\/ after 4 tokens, and 5 more times without a token/,
  );
  expect(requests).toHaveLength(6);
  expect(clock.now()).toBe(100 + 200 + 400 + 800);
});

test('an abort of our own ends it with what there is', async () => {
  const controller = new AbortController();
  const { server } = givingUpAfter(4, 3);
  const stopping = {
    generate: async (request: GenerateRequest) => {
      const result = await server.generate(request);
      if (result.ids.length === 3) controller.abort();
      return result;
    },
  };
  const { ids, finish } = await generateWhole(stopping, requestOf(100, controller.signal), virtualClock());
  expect([ids.length, finish]).toEqual([7, 'abort']);
});
