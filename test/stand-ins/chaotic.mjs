/**
 * A server of SGLang's or vLLM's protocol that fails in every way a server can. `node chaotic.mjs '{"engine":"sglang",
 * "seed":1,"trouble":0.3}'`. A sound reply is a function of the prompt alone, so that whoever accepts another is found.
 */
import { createServer } from 'node:http';

const { engine, seed, trouble } = {
  engine: 'sglang',
  seed: 1,
  trouble: 0.3,
  ...JSON.parse(process.argv[2] ?? '{}'),
};
let state = seed >>> 0;
const random = () => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return (state >>> 8) / 2 ** 24;
};
const pick = (list) => list[Math.floor(random() * list.length)];

let version = 0;
let paused = false;
let open = 0;

/** Letters by a hash of the prompt, then the stop token. */
function sample(prompt, stopId, most) {
  let hash = 2166136261;
  for (const id of prompt) hash = Math.imul(hash ^ id, 16777619) >>> 0;
  const ids = Array.from({ length: 4 + (hash % 29) }, (_, at) => 97 + (((hash >>> (at % 24)) + at) % 26));
  const whole = [...ids, stopId];
  return whole.slice(0, most);
}
const logprob = (id) => -((id % 7) + 1) / 8;

function reply(body) {
  if (engine === 'sglang') {
    const { max_new_tokens: most, stop_token_ids: stops } = body.sampling_params;
    const ids = sample(body.input_ids, stops[0], most);
    return {
      text: '',
      output_ids: ids,
      meta_info: {
        id: body.rid,
        finish_reason: ids.at(-1) === stops[0] ? { type: 'stop', matched: stops[0] } : { type: 'length' },
        prompt_tokens: body.input_ids.length,
        weight_version: String(version),
        output_token_logprobs: ids.map((id) => [logprob(id), id, null]),
      },
    };
  }
  const { max_tokens: most, stop_token_ids: stops } = body.sampling_params;
  const ids = sample(body.token_ids, stops[0], most);
  return {
    request_id: body.request_id,
    choices: [
      {
        index: 0,
        token_ids: ids,
        logprobs: { content: ids.map((id) => ({ token: `token_id:${id}`, logprob: logprob(id) })) },
        finish_reason: ids.at(-1) === stops[0] ? 'stop' : 'length',
      },
    ],
  };
}

/** A reply that no one may believe. */
function damaged(sound) {
  const copy = structuredClone(sound);
  const ids = engine === 'sglang' ? copy.output_ids : copy.choices[0].token_ids;
  const logprobs =
    engine === 'sglang' ? copy.meta_info.output_token_logprobs : copy.choices[0].logprobs.content;
  const finish = engine === 'sglang' ? copy.meta_info : copy.choices[0];
  switch (pick(['fewer', 'none', 'ids', 'finish', 'positive'])) {
    case 'fewer':
      logprobs.pop();
      break;
    case 'none':
      logprobs.length = 0;
      break;
    case 'ids':
      ids[0] = pick([-3, 1.5, 'x', null]);
      break;
    case 'finish':
      finish.finish_reason = null;
      break;
    case 'positive':
      if (engine === 'sglang') logprobs[0] = [pick([0.7, null, 'NaN']), ids[0], null];
      else logprobs[0].logprob = pick([0.7, null, 'NaN']);
  }
  return JSON.stringify(copy);
}

const GARBAGE = [
  '<html>502 Bad Gateway</html>',
  'null',
  '[]',
  '{}',
  '{"choices":[]}',
  '"',
  '{"meta_info":3}',
  '',
];

async function generate(body, request, response) {
  const sound = reply(body);
  const text = JSON.stringify(sound);
  const kind = random() < trouble ? pick(FAULTS) : 'sound';
  const head = (status, length) =>
    response.writeHead(status, {
      'content-type': 'application/json',
      ...(length === undefined ? {} : { 'content-length': length }),
    });
  while (paused && !response.destroyed) await sleep(5);
  switch (kind) {
    case 'slow':
      await sleep(20 + 300 * random());
      break;
    case 'hang':
      return; // until the client closes
    case 'cut':
      return void request.socket.destroy();
    case 'cutHead':
      head(200, text.length);
      response.flushHeaders();
      return void setTimeout(() => request.socket.destroy(), 5);
    case 'cutMiddle':
      head(200, text.length);
      response.write(text.slice(0, Math.floor(text.length * random())));
      return void setTimeout(() => request.socket.destroy(), 5);
    case 'noHttp':
      return void request.socket.end('what?\r\n\r\n');
    case 'garbage':
      head(200);
      return void response.end(pick(GARBAGE));
    case 'damaged':
      head(200);
      return void response.end(damaged(sound));
    case 429:
    case 500:
    case 503:
      head(kind);
      return void response.end(pick(['{"error":{"message":"busy"}}', 'Internal Server Error', '']));
  }
  if (!body.stream) {
    head(200);
    return void response.end(text);
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const cutAt = random() < trouble / 3 ? random() : 2;
  const parts = streamed(sound);
  for (const [at, part] of parts.entries()) {
    if (at / parts.length >= cutAt) return void request.socket.destroy();
    response.write(`data: ${JSON.stringify(part)}\n\n`);
    await sleep(1);
  }
  response.end('data: [DONE]\n\n');
}

/** Cumulative for SGLang, in parts for vLLM. */
function streamed(sound) {
  if (engine === 'vllm') {
    const [choice] = sound.choices;
    return choice.token_ids.map((id, at) => ({
      choices: [
        {
          index: 0,
          token_ids: [id],
          logprobs: { content: [choice.logprobs.content[at]] },
          finish_reason: at === choice.token_ids.length - 1 ? choice.finish_reason : null,
        },
      ],
    }));
  }
  const { output_ids: ids, meta_info: meta } = sound;
  return ids.map((_, at) => ({
    ...sound,
    output_ids: ids.slice(0, at + 1),
    meta_info: {
      ...meta,
      finish_reason: at === ids.length - 1 ? meta.finish_reason : null,
      output_token_logprobs: meta.output_token_logprobs.slice(0, at + 1),
    },
  }));
}

/** A request that hangs costs its client seconds, so there are few of them. */
const OFTEN = [
  'slow',
  'slow',
  'slow',
  'cut',
  'cutHead',
  'cutMiddle',
  'noHttp',
  'garbage',
  'damaged',
  429,
  500,
  503,
];
const FAULTS = [...OFTEN, ...OFTEN, ...OFTEN, ...OFTEN, 'hang'];

const CONTROLS = {
  'GET /model_info': () => ({ model_path: 'chaos', weight_version: String(version) }),
  'GET /server_info': () => ({
    context_length: 4096,
    enable_lora: false,
    incremental_streaming_output: false,
  }),
  'GET /health': () => ({}),
  'GET /v1/models': () => ({ data: [{ id: 'chaos', max_model_len: 4096 }] }),
  'POST /pause_generation': () => {
    paused = true;
    return {};
  },
  'POST /continue_generation': () => {
    paused = false;
    return {};
  },
  'POST /pause': () => {
    paused = true;
    return {};
  },
  'POST /resume': () => {
    paused = false;
    return {};
  },
  'POST /update_weights_from_disk': ({ weight_version: next }) => {
    version = Number(next);
    return { success: true };
  },
  'POST /collective_rpc': () => ({}),
  'POST /reset_prefix_cache': () => ({ success: true }),
  'POST /update_weight_version': ({ new_version: next }) => {
    version = Number(next);
    return {};
  },
  'POST /abort_request': () => ({}),
  'POST /abort_requests': () => ({}),
};

const server = createServer(async (request, response) => {
  let text = '';
  try {
    for await (const chunk of request) text += chunk;
  } catch {
    return; // the client is gone
  }
  const name = `${request.method} ${request.url.split('?')[0]}`;
  if (name === 'GET /stand-in/open') return void response.end(JSON.stringify(open));
  const body = text === '' ? {} : JSON.parse(text);
  if (name === 'POST /generate' || name === 'POST /inference/v1/generate') {
    open++;
    response.once('close', () => open--);
    return generate(body, request, response);
  }
  if (random() < trouble / 5) {
    response.statusCode = 500;
    return void response.end('trouble');
  }
  const control = CONTROLS[name];
  response.statusCode = control ? 200 : 404;
  response.end(JSON.stringify(control?.(body) ?? {}));
});
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () =>
  console.log(`listening ${server.address().port}`),
);

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
