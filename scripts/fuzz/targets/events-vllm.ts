import { VllmServer } from '../../../src/inference/vllm.ts';
import { askedOf, events, servedBytes } from '../served-bytes.ts';
import type { FuzzTarget } from '../target.ts';

const place = await servedBytes();
const STREAMED = 's'.charCodeAt(0);
const choice = (ids: readonly number[], finish: string | null) => ({
  token_ids: ids,
  logprobs: { content: ids.map(() => ({ logprob: -0.5 })) },
  finish_reason: finish,
});

/** Server-sent events, or a whole reply, of a vLLM server; the first byte says which. */
export const target: FuzzTarget = {
  name: 'events-vllm',
  seeds: () => [
    `s${events({ choices: [choice([1, 2], null)] }, { choices: [choice([3], 'stop')], usage: { prompt_tokens: 3 } }, '[DONE]')}`,
    `s: a comment\nevent: x\r\n${events({ error: { code: 400, message: 'no' } })}`,
    `s${events({ choices: [{ token_ids: [7], logprobs: { token_logprobs: [-1] }, finish_reason: 'length' }] }, '[DONE]')}`,
    `w${JSON.stringify({ choices: [choice([1, 2], 'stop')], usage: { prompt_tokens: 3, prompt_tokens_details: { cached_tokens: 1 } } })}`,
    `w${JSON.stringify({
      choices: [{ ...choice([1, 2], 'stop'), weight_versions: [{ version: '3', start: 0, end: 2 }] }],
      prompt_logprobs: [null, { 2: { logprob: -1 } }, { 3: { logprob: -2 } }],
    })}`,
  ],
  words: ['data: ', '[DONE]', '\n\n', 'null', '[]', '{}', '"choices":', '"token_ids":', '"stop"', '"error":'],
  run: async (bytes) => {
    const streams = bytes[0] === STREAMED;
    place.set(streams ? 'text/event-stream' : 'application/json', bytes.subarray(1));
    const server = new VllmServer({ url: place.url });
    try {
      await server.generate(askedOf(streams));
    } finally {
      await server.close();
    }
  },
};
