import { Hono } from 'hono';
import { BadRequest } from '../../../src/serve/bad-request.ts';
import { chatRoutes } from '../../../src/serve/chat-routes.ts';
import { openaiRoutes } from '../../../src/serve/openai-routes.ts';
import { type ServedEngine, ServedModel } from '../../../src/serve/served-model.ts';
import { sglangRoutes } from '../../../src/serve/sglang-routes.ts';
import { byteModel, scriptedEngine } from '../../../testing/index.ts';
import type { FuzzTarget } from '../target.ts';

const { tokenizer, format } = byteModel();
const engine = scriptedEngine({ tokenizer, reply: () => 'yes' });
const served = new ServedModel({
  server: {
    ...engine,
    stats: () => Promise.reject(new Error('none')),
    flush: async () => {},
  } as ServedEngine,
  ...{ model: 'm', config: {}, tokenizer, eosIds: [0], format },
});
let failure: Error | undefined;
const app = new Hono();
sglangRoutes(app, served);
openaiRoutes(app, served);
chatRoutes(app, served);
app.onError((error, context) => {
  if (!(error instanceof BadRequest)) failure = error;
  return context.text(error.message, error instanceof BadRequest ? 400 : 500);
});

const PATHS = [
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1/completions',
  '/generate',
  '/v1/messages/count_tokens',
];
const tool = {
  name: 'f',
  description: 'd',
  parameters: { type: 'object', properties: { a: { type: 'number' } } },
};
const dialogue = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
  },
  { role: 'tool', tool_call_id: 'c', content: '2' },
];

/** A request to `rollcall serve`; the first byte chooses the path. Whatever it says, it is answered, and never with 500. */
export const target: FuzzTarget = {
  name: 'requests',
  seeds: () => [
    `0${JSON.stringify({ model: 'm', messages: dialogue, tools: [{ type: 'function', function: tool }], max_tokens: 4, n: 2, stop: ['x'], logprobs: true })}`,
    `0${JSON.stringify({ model: 'm', messages: dialogue.slice(0, 2), stream: true, stream_options: { include_usage: true }, response_format: { type: 'json_object' } })}`,
    `1${JSON.stringify({
      model: 'm',
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'x' }] },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: 'y' },
      ],
      instructions: 'z',
      tools: [{ type: 'function', ...tool }],
      stream: true,
    })}`,
    `2${JSON.stringify({
      model: 'm',
      max_tokens: 9,
      system: [{ type: 'text', text: 's' }],
      messages: [
        { role: 'user', content: 'x' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'c', content: [{ type: 'text', text: 'r' }] }],
        },
      ],
      tools: [{ name: 'f', input_schema: {} }],
      tool_choice: { type: 'any' },
      thinking: { type: 'enabled', budget_tokens: 5 },
    })}`,
    `3${JSON.stringify({ prompt: 'abc', max_tokens: 3, logprobs: 1, stream: true, seed: 4 })}`,
    `4${JSON.stringify({ input_ids: [1, 2, 3], sampling_params: { max_new_tokens: 3, temperature: 0.5, stop: 'x' }, return_logprob: true, rid: 'r' })}`,
    `5${JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }] })}`,
  ],
  words: [
    'null',
    '[]',
    '{}',
    '""',
    '"role":',
    '"content":',
    '"type":"image_url"',
    '"tool_calls":',
    '-1',
    '1e999',
    '"stream":true',
    '\\ud800',
  ],
  run: async (bytes) => {
    failure = undefined;
    const path = PATHS[(bytes[0] ?? 0) % PATHS.length]!;
    const answer = await app.request(path, {
      method: 'POST',
      body: Uint8Array.from(bytes.subarray(1)),
      headers: { host: 'localhost' },
    });
    const text = await answer.text();
    if (failure) throw failure;
    if (answer.status >= 500) throw new TypeError(`${path} answers ${answer.status}: ${text.slice(0, 200)}`);
  },
};
