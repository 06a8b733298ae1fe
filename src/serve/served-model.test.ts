import { expect, test } from 'vitest';
import type { GenerateRequest } from '../inference/server.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';
import { type ServedEngine, ServedModel, type ServedModelOptions } from './served-model.ts';

test('a caller that was gone before its request ran is not answered at length', async () => {
  const given: GenerateRequest[] = [];
  const server = {
    generate: async (request: GenerateRequest) => {
      given.push(request);
      return { ids: new Int32Array() };
    },
  } as Partial<ServedEngine> as ServedEngine;
  const served = new ServedModel({ server } as ServedModelOptions);
  const request = {
    trajectory: 'a',
    prompt: Int32Array.of(1),
    sampling: { ...PLAIN_SAMPLING, maxTokens: 1, stopIds: [], seed: 1 },
  };
  await served.generate(request, AbortSignal.abort());
  await served.generate(request, new AbortController().signal);
  expect(given.map(({ signal }) => signal?.aborted)).toEqual([true, false]);
  expect(served.running).toBe(0);
});
