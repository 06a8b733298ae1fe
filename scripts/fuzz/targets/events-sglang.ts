import { SglangServer } from '../../../src/inference/sglang.ts';
import { askedOf, events, servedBytes } from '../served-bytes.ts';
import type { FuzzTarget } from '../target.ts';

const place = await servedBytes();
const STREAMED = 's'.charCodeAt(0);
const chunk = (ids: readonly number[], finish: object | null) => ({
  text: 'x',
  output_ids: ids,
  meta_info: {
    ...{ id: 'r', finish_reason: finish, prompt_tokens: 3, cached_tokens: 0, weight_version: '2' },
    output_token_logprobs: ids.map((id) => [-0.25, id, null]),
    input_token_logprobs: [1, 2, 3].map((id, at) => [at === 0 ? null : -1.5, id, null]),
    completion_tokens: ids.length,
  },
});

/** Server-sent events, or a whole reply, of an SGLang server; the first byte says which. */
export const target: FuzzTarget = {
  name: 'events-sglang',
  seeds: () => [
    `s${events(chunk([1], null), chunk([1, 2], { type: 'stop', matched: 2 }), '[DONE]')}`,
    `s${events(chunk([1], { type: 'abort', message: 'no', status_code: 400 }), '[DONE]')}`,
    `w${JSON.stringify(chunk([1, 2, 33, 444], { type: 'length', length: 4 }))}`,
    `w${JSON.stringify(chunk([], { type: 'stop', matched: 0 }))}`,
    `w${JSON.stringify(chunk([5], { type: 'abort', message: 'unknown' })).replace('-0.25', '-1.2e-05')}`,
  ],
  words: [
    'data: ',
    '[DONE]',
    '\n\n',
    'null',
    '[]',
    '{}',
    '"meta_info":',
    '"output_ids":[',
    '"output_token_logprobs":[',
  ],
  run: async (bytes) => {
    const streams = bytes[0] === STREAMED;
    place.set(streams ? 'text/event-stream' : 'application/json', bytes.subarray(1));
    const server = new SglangServer({ url: place.url });
    try {
      await server.generate(askedOf(streams));
    } finally {
      await server.close();
    }
  },
};
