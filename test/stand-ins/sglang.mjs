/** Stands in for SGLang: its endpoints, names and refusals, with a toy model. `node sglang.mjs '{"tokenMs":5}'` */
import { createHash } from 'node:crypto';
import { checkFields, EMPTY, listen, Refusal, sleep, spans } from './http.mjs';
import { bytes, firstTable, readTable, sample, score, tokenize } from './toy-model.mjs';

const settings = {
  tokenMs: 0,
  logprobs: 'temperature',
  oldNames: false,
  incremental: false,
  dropLogprob: false,
  ignoreUpdates: false,
  splitsOtherwise: false,
  cutAfter: 0,
  contextLength: 4096,
  /** Before 0.5.19 replies say their last version alone. */
  saysSpans: true,
  /** A token is a byte, and weights are a table that a folder holds. */
  table: false,
  ...JSON.parse(process.argv[2] ?? '{}'),
};

const SAMPLING = [
  'max_new_tokens',
  'min_new_tokens',
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'repetition_penalty',
  'presence_penalty',
  'frequency_penalty',
  'stop',
  'stop_token_ids',
  'sampling_seed',
  'n',
  'ignore_eos',
  'skip_special_tokens',
  'no_stop_trim',
];
const SAMPLING_OPTIONAL = [
  'json_schema',
  'regex',
  'ebnf',
  'structural_tag',
  'stop_regex',
  'logit_bias',
  'custom_params',
];
const GENERATE = [
  'rid',
  'input_ids',
  'sampling_params',
  'return_logprob',
  'logprob_start_len',
  'stream',
  'session_id',
];
const GENERATE_OPTIONAL = [
  'image_data',
  'lora_path',
  'priority',
  'top_logprobs_num',
  'token_ids_logprob',
  'routed_dp_rank',
  'routing_key',
  'extra_key',
  'cache_salt',
  'return_prompt_token_ids',
];

let weights = 'base';
let table = settings.table ? firstTable() : undefined;
let version = 'default';
let paused = false;
let asleep = false;
const running = new Map();
const adapters = new Map();

async function generate(body, _request, response) {
  checkFields('GenerateReqInput', body, GENERATE, GENERATE_OPTIONAL);
  checkFields('sampling_params', body.sampling_params, SAMPLING, SAMPLING_OPTIONAL);
  if (asleep) throw new Refusal(500, 'memory is released');
  if (running.has(body.rid)) throw new Refusal(400, `Duplicate request ID detected: ${body.rid}`);
  if (body.lora_path !== undefined && !adapters.has(body.lora_path)) {
    throw new Refusal(400, `LoRA adapter ${body.lora_path} is not loaded`);
  }
  const flight = { rid: body.rid, aborted: false, ids: [], logprobs: [], versions: [] };
  running.set(body.rid, flight);
  response.on('close', () => {
    if (!response.writableFinished) flight.aborted = true;
  });
  try {
    if (body.stream) response.writeHead(200, { 'content-type': 'text/event-stream' });
    const { sampling_params: params } = body;
    const seed = params.sampling_seed;
    const { temperature, top_k: topK, repetition_penalty: repetition } = params;
    const kind = { temperature, topK, seed, repetition };
    let finish;
    let told = 0;
    const tell = () => {
      if (!body.stream) return;
      const from = settings.incremental ? told : 0;
      response.write(`data: ${JSON.stringify(reply(body, flight, finish ?? null, from))}\n\n`);
      told = flight.ids.length;
    };
    while (!finish) {
      await sleep(settings.tokenMs);
      while (paused && !flight.aborted) await sleep(2);
      if (flight.aborted) {
        finish = { type: 'abort', message: 'Abort in decode', status_code: null, err_type: null };
        break;
      }
      const by = body.lora_path === undefined ? (table ?? weights) : adapters.get(body.lora_path);
      const next = sample(by, [...body.input_ids, ...flight.ids], kind, settings.logprobs);
      flight.ids.push(next.id);
      flight.logprobs.push(next.logprob);
      flight.versions.push(version);
      if (settings.cutAfter > 0 && flight.ids.length >= settings.cutAfter) return void response.destroy();
      if (params.stop_token_ids.includes(next.id)) finish = { type: 'stop', matched: next.id };
      else if (flight.ids.length >= params.max_new_tokens)
        finish = { type: 'length', length: flight.ids.length };
      if (!finish) tell();
    }
    if (!body.stream) return reply(body, flight, finish, 0);
    tell();
    response.end('data: [DONE]\n\n');
  } finally {
    running.delete(body.rid);
  }
}

function reply(body, { rid, ids, logprobs, versions }, finish, from) {
  const out = logprobs.slice(from).map((logprob, at) => [logprob, ids[from + at], null]);
  return {
    text: '',
    output_ids: ids.slice(from),
    meta_info: {
      id: rid,
      finish_reason: finish,
      prompt_tokens: body.input_ids.length,
      completion_tokens: ids.length,
      cached_tokens: 0,
      weight_version: version,
      ...(finish && settings.saysSpans ? { weight_versions: spans(versions) } : {}),
      output_token_logprobs: settings.dropLogprob ? out.slice(1) : out,
      ...(body.logprob_start_len === 0
        ? {
            input_token_logprobs: score(table ?? weights, body.input_ids).map((value, at) => [
              value,
              body.input_ids[at],
              null,
            ]),
          }
        : {}),
    },
  };
}

const modelInfo = () => ({
  model_path: 'stand-in/toy',
  served_model_name: 'toy',
  tokenizer_path: 'stand-in/toy',
  is_generation: true,
  weight_version: version,
  has_image_understanding: false,
});
const serverInfo = () => ({
  context_length: settings.contextLength,
  enable_lora: true,
  enable_memory_saver: true,
  enable_deterministic_inference: settings.table,
  incremental_streaming_output: settings.incremental,
  version: '0.5.23',
});
const [model, server] = settings.oldNames
  ? ['/get_model_info', '/get_server_info']
  : ['/model_info', '/server_info'];

const idle = () => {
  if (running.size > 0) throw new Refusal(500, 'the engine is not idle');
};

listen({
  'POST /generate': generate,
  [`GET ${model}`]: modelInfo,
  [`GET ${server}`]: serverInfo,
  'GET /health': () => {
    if (paused) throw new Refusal(503, 'no token in time');
    return {};
  },
  'POST /tokenize': (body) => {
    checkFields('TokenizeRequest', body, ['prompt'], ['model', 'add_special_tokens']);
    const split = settings.table ? bytes : tokenize;
    const tokens = split(settings.splitsOtherwise ? `${body.prompt}.` : body.prompt);
    return { tokens, count: tokens.length, max_model_len: settings.contextLength };
  },
  'POST /abort_request': (body) => {
    checkFields('AbortReq', body, [], ['rid', 'abort_all']);
    for (const flight of running.values()) {
      if (body.abort_all || flight.rid.startsWith(body.rid)) flight.aborted = true;
    }
    return EMPTY;
  },
  'POST /pause_generation': (body) => {
    checkFields('PauseGenerationReqInput', body, ['mode']);
    if (!['abort', 'retract', 'in_place'].includes(body.mode)) throw new Refusal(422, `mode ${body.mode}`);
    paused = true;
    if (body.mode === 'abort') for (const flight of running.values()) flight.aborted = true;
    return { status: 'ok' };
  },
  'POST /continue_generation': (body) => {
    checkFields('ContinueGenerationReqInput', body, [], ['torch_empty_cache']);
    paused = false;
    return { status: 'ok' };
  },
  'POST /update_weights_from_disk': (body) => {
    checkFields(
      'UpdateWeightFromDiskReqInput',
      body,
      ['model_path'],
      ['weight_version', 'flush_cache', 'abort_all_requests', 'load_format', 'is_async', 'keep_pause'],
    );
    if (body.model_path.includes('missing')) return { success: false, message: 'no such folder' };
    if (!settings.ignoreUpdates) weights = body.model_path;
    if (settings.table) table = readTable(body.model_path);
    version = body.weight_version ?? version;
    return { success: true, message: 'Succeeded to update model weights.', num_paused_requests: 0 };
  },
  'POST /weights_checker': (body) => {
    checkFields('WeightsCheckerReqInput', body, ['action']);
    if (body.action !== 'checksum') throw new Refusal(400, `action ${body.action}`);
    return {
      success: true,
      ranks: [
        { checksums: { 'model.embed_tokens.weight': createHash('sha256').update(weights).digest('hex') } },
      ],
    };
  },
  'POST /load_lora_adapter': (body) => {
    checkFields('LoadLoRAAdapterReqInput', body, ['lora_name', 'lora_path'], ['pinned']);
    if (adapters.has(body.lora_name)) {
      const message = `Failed to load LoRA adapter ${body.lora_name} because it is already loaded`;
      throw new Refusal(400, message, { success: false, error_message: message });
    }
    adapters.set(body.lora_name, body.lora_path);
    return { success: true, loaded_adapters: Object.fromEntries(adapters) };
  },
  'POST /unload_lora_adapter': (body) => {
    checkFields('UnloadLoRAAdapterReqInput', body, ['lora_name']);
    if (!adapters.delete(body.lora_name)) throw new Refusal(400, `${body.lora_name} is not loaded`);
    return { success: true, loaded_adapters: Object.fromEntries(adapters) };
  },
  'POST /release_memory_occupation': (body) => {
    checkFields('ReleaseMemoryOccupationReqInput', body, [], ['tags']);
    idle();
    asleep = true;
    return EMPTY;
  },
  'POST /resume_memory_occupation': (body) => {
    checkFields('ResumeMemoryOccupationReqInput', body, [], ['tags']);
    asleep = false;
    return EMPTY;
  },
});
