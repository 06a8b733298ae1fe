/** Stands in for vLLM: its endpoints, names and refusals, with a toy model. `node vllm.mjs '{"tokenMs":5}'` */
import { checkFields, EMPTY, listen, Refusal, sleep, spans } from './http.mjs';
import { sample, score, tokenize } from './toy-model.mjs';

const settings = {
  tokenMs: 0,
  logprobs: 'raw',
  /** An older server: only /v1/completions. */
  completionsOnly: false,
  /** VLLM_SERVER_DEV_MODE=1. */
  devMode: true,
  dropLogprob: false,
  keepsCache: false,
  splitsOtherwise: false,
  /** 0.23.0 has no versions in replies, no /update_weight_version and no /weight_checker. */
  release: '0.32.0',
  /** Started with --enable-scale-out. */
  scaleOut: true,
  ...JSON.parse(process.argv[2] ?? '{}'),
};

const SAMPLING = [
  'max_tokens',
  'min_tokens',
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'repetition_penalty',
  'presence_penalty',
  'frequency_penalty',
  'seed',
  'n',
  'stop',
  'stop_token_ids',
  'ignore_eos',
  'skip_special_tokens',
  'include_stop_str_in_output',
  'logprobs',
  'prompt_logprobs',
];

const isNew = settings.release !== '0.23.0';
let weights = 'base';
let version = 'default';
let paused = false;
let asleep = false;
const running = new Map();
const adapters = new Map();
const images = new Set();

function checkModel(name) {
  if (name !== 'toy' && !adapters.has(name)) throw new Refusal(404, `The model ${name} does not exist.`);
}

async function generate(body, _request, response) {
  if (!settings.scaleOut) {
    throw new Refusal(403, 'Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out');
  }
  checkFields(
    'GenerateRequest',
    body,
    ['request_id', 'model', 'token_ids', 'sampling_params', 'priority', 'stream'],
    ['content_parts', 'features', 'cache_salt', 'return_token_ids'],
  );
  for (const [at, { url, uuid }] of (body.content_parts ?? []).entries()) {
    if (url) images.add(uuid);
    else if (!images.has(uuid))
      throw new Refusal(400, `Cache miss for image at index ${at} but data is not provided.`);
  }
  checkFields(
    'sampling_params',
    body.sampling_params,
    [...SAMPLING, 'detokenize', 'output_kind'],
    ['structured_outputs'],
  );
  const { sampling_params: params, token_ids: prompt } = body;
  return run(`generate-tokens-${body.request_id}`, { body, prompt, params, response }, (ids, logprobs) => ({
    content: ids.map((id, at) => ({ token_id: id, logprob: logprobs[at], rank: 1, top_logprobs: [] })),
  }));
}

async function complete(body, _request, response) {
  const { request_id, model, prompt, return_token_ids, priority, stream, ...params } = body;
  checkFields('CompletionRequest', { request_id, model, prompt, return_token_ids, priority, stream }, [
    'request_id',
    'model',
    'prompt',
    'return_token_ids',
    'priority',
    'stream',
  ]);
  checkFields('CompletionRequest', params, SAMPLING, ['structured_outputs']);
  if (params.logprobs !== 1) throw new Refusal(400, 'token_logprobs come with logprobs: 1');
  return run(`cmpl-${request_id}-0`, { body, prompt, params, response }, (ids, logprobs) => ({
    tokens: ids.map(String),
    token_logprobs: logprobs,
  }));
}

async function run(id, { body, prompt, params, response }, describe) {
  checkModel(body.model);
  if (asleep) throw new Refusal(503, 'the engine sleeps');
  const flight = { aborted: false, ids: [], logprobs: [], versions: [] };
  running.set(id, flight);
  response.on('close', () => {
    if (!response.writableFinished) flight.aborted = true;
  });
  const scored = () =>
    score(weights, prompt).map((value, at) =>
      at === 0 ? null : { [prompt[at]]: { logprob: value, rank: 1 } },
    );
  const usage = () => ({
    prompt_tokens: prompt.length,
    completion_tokens: flight.ids.length,
    prompt_tokens_details: { cached_tokens: 0 },
  });
  const choice = (from, finish) => {
    const ids = flight.ids.slice(from);
    const logprobs = flight.logprobs.slice(from);
    const told = settings.dropLogprob ? [ids.slice(1), logprobs.slice(1)] : [ids, logprobs];
    const versions = isNew ? { weight_versions: finish ? spans(flight.versions) : null } : {};
    return { index: 0, token_ids: ids, finish_reason: finish, logprobs: describe(...told), ...versions };
  };
  try {
    if (body.stream) response.writeHead(200, { 'content-type': 'text/event-stream' });
    const { temperature, top_k: topK, seed, repetition_penalty: repetition } = params;
    const kind = { temperature, topK, seed, repetition };
    let finish = null;
    let told = 0;
    while (finish === null) {
      await sleep(settings.tokenMs);
      while (paused && !flight.aborted) await sleep(2);
      if (flight.aborted) finish = 'abort';
      else {
        const by = adapters.get(body.model) ?? weights;
        const next = sample(by, [...prompt, ...flight.ids], kind, settings.logprobs);
        flight.ids.push(next.id);
        flight.logprobs.push(next.logprob);
        flight.versions.push(version);
        if (params.stop_token_ids.includes(next.id)) finish = 'stop';
        else if (flight.ids.length >= params.max_tokens) finish = 'length';
      }
      if (body.stream) {
        const event = {
          request_id: id,
          choices: [choice(told, finish)],
          ...(finish ? { usage: usage() } : {}),
        };
        response.write(`data: ${JSON.stringify(event)}\n\n`);
        told = flight.ids.length;
      }
    }
    if (body.stream) return void response.end('data: [DONE]\n\n');
    const prompt_logprobs = params.prompt_logprobs === 0 ? scored() : null;
    return {
      request_id: id,
      model: body.model,
      created: 0,
      choices: [choice(0, finish)],
      usage: usage(),
      prompt_logprobs,
    };
  } finally {
    running.delete(id);
  }
}

const drained = async () => {
  while (running.size > 0) await sleep(2);
};

let pushed = null;

const dev = {
  'POST /pause': async (_body, _request, _response, query) => {
    const mode = query.get('mode');
    if (!['abort', 'wait', 'keep'].includes(mode)) throw new Refusal(422, `mode ${mode}`);
    if (mode === 'wait') await drained();
    paused = true;
    if (mode === 'abort') for (const flight of running.values()) flight.aborted = true;
    return { status: 'paused' };
  },
  'POST /resume': () => {
    paused = false;
    return { status: 'resumed' };
  },
  'POST /abort_requests': (body) => {
    checkFields('AbortRequest', body, [], ['request_ids']);
    for (const [id, flight] of running)
      if (!body.request_ids || body.request_ids.includes(id)) flight.aborted = true;
    return EMPTY;
  },
  'POST /collective_rpc': (body) => {
    checkFields('CollectiveRpc', body, ['method'], ['args', 'kwargs', 'timeout']);
    // With rollcall_torch.vllm_extension.TakesWeights mixed into its workers.
    if (body.method === 'rollcall_weights_version') return { results: [[pushed]] };
    if (body.method === 'rollcall_take_weights') {
      const bucket = JSON.parse(body.args[0]);
      if (bucket.last) pushed = bucket.version;
      return { results: [null] };
    }
    if (body.method !== 'reload_weights') throw new Refusal(400, `no method ${body.method}`);
    checkFields('reload_weights', body.kwargs, [], ['weights_path']);
    weights = body.kwargs.weights_path;
    return { results: [null] };
  },
  'POST /reset_prefix_cache': () => ({ success: !settings.keepsCache }),
  'POST /reset_encoder_cache': () => EMPTY,
  'POST /reset_mm_cache': () => {
    images.clear();
    return EMPTY;
  },
  ...(isNew && {
    'POST /update_weight_version': (body) => {
      checkFields('UpdateWeightVersion', body, ['new_version']);
      version = body.new_version;
      return {};
    },
    'GET /weight_info': () => ({ weight_version: version }),
    'POST /weight_checker': (body) => {
      checkFields('WeightChecker', body, ['action']);
      return { checksums: { 'dp0:pp0:pcp0:tp0:model.embed_tokens.weight': weights } };
    },
  }),
  'POST /sleep': () => {
    if (running.size > 0) throw new Refusal(500, 'requests are running');
    asleep = true;
    return EMPTY;
  },
  'POST /wake_up': () => {
    asleep = false;
    return EMPTY;
  },
};

listen({
  ...(settings.completionsOnly ? {} : { 'POST /inference/v1/generate': generate }),
  'POST /v1/completions': complete,
  'GET /health': () => EMPTY,
  'GET /version': () => ({ version: settings.release }),
  'GET /v1/models': () => ({
    object: 'list',
    data: [
      { id: 'toy', max_model_len: 2048, parent: null },
      ...[...adapters.keys()].map((id) => ({ id, parent: 'toy' })),
    ],
  }),
  'POST /tokenize': (body) => {
    checkFields('TokenizeRequest', body, ['model', 'prompt'], ['add_special_tokens']);
    const tokens = tokenize(settings.splitsOtherwise ? `${body.prompt}.` : body.prompt);
    return { tokens, count: tokens.length, max_model_len: 2048 };
  },
  'POST /v1/load_lora_adapter': (body) => {
    checkFields('LoadLoRAAdapterRequest', body, ['lora_name', 'lora_path'], ['load_inplace']);
    if (adapters.has(body.lora_name)) throw new Refusal(400, `${body.lora_name} has already been loaded`);
    adapters.set(body.lora_name, body.lora_path);
    return `Success: LoRA adapter '${body.lora_name}' added successfully.`;
  },
  'POST /v1/unload_lora_adapter': (body) => {
    checkFields('UnloadLoRAAdapterRequest', body, ['lora_name']);
    if (!adapters.delete(body.lora_name)) throw new Refusal(404, `${body.lora_name} cannot be found`);
    return `Success: LoRA adapter '${body.lora_name}' removed successfully.`;
  },
  ...(settings.devMode ? dev : {}),
});
