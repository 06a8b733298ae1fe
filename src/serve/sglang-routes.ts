/** SGLang's endpoints, by their names, fields and defaults. A field that nothing here reads is refused by name. */
import type { Hono } from 'hono';
import { z } from 'zod';
import type { GenerateResult, SamplingParams, VersionSpan } from '../inference/server.ts';
import { BadRequest } from './bad-request.ts';
import { bodyOf, events } from './request.ts';
import type { ServedModel } from './served-model.ts';

const list = <T extends z.ZodType>(item: T) =>
  z.union([item, z.array(item)]).transform((given) => [given].flat());

const SAMPLING = z.strictObject({
  max_new_tokens: z.number().int().positive().default(128),
  min_new_tokens: z.literal(0).default(0),
  temperature: z.number().min(0).default(1),
  top_p: z.number().default(1),
  top_k: z.number().int().default(-1),
  min_p: z.number().default(0),
  repetition_penalty: z.number().default(1),
  presence_penalty: z.number().default(0),
  frequency_penalty: z.number().default(0),
  stop: list(z.string()).nullable().default([]),
  stop_token_ids: z.array(z.number().int()).nullable().default([]),
  sampling_seed: z.number().int().nullable().default(null),
  n: z.literal(1).default(1),
  ignore_eos: z.boolean().default(false),
  skip_special_tokens: z.boolean().default(true),
  no_stop_trim: z.boolean().default(false),
});

const GENERATE = z.strictObject({
  rid: z.string().optional(),
  text: z.string().optional(),
  input_ids: z.array(z.number().int()).optional(),
  sampling_params: SAMPLING.default(SAMPLING.parse({})),
  return_logprob: z.boolean().default(false),
  logprob_start_len: z.number().int().default(-1),
  stream: z.boolean().default(false),
  lora_path: z.string().nullable().optional(),
  session_id: z.string().optional(),
  priority: z.number().optional(),
});

type Generate = z.infer<typeof GENERATE>;

export function sglangRoutes(app: Hono, served: ServedModel): void {
  app.post('/generate', async (context) => {
    const body = await bodyOf(context, GENERATE);
    const request = requestOf(body, served);
    const gone = context.req.raw.signal;
    if (!body.stream) return context.json(replyOf(body, await served.generate(request, gone), served));
    return events(context, async (send) => {
      const ids: number[] = [];
      const logprobs: number[] = [];
      const last = await served.generate(
        {
          ...request,
          onTokens: (moreIds, moreLogprobs) => {
            ids.push(...moreIds);
            logprobs.push(...moreLogprobs);
            const partial = { ...PARTIAL, promptTokens: request.prompt.length };
            const so = { ...partial, ids: Int32Array.from(ids), logprobs: Float32Array.from(logprobs) };
            send(replyOf(body, so, served, null));
          },
        },
        gone,
      );
      send(replyOf(body, last, served));
    });
  });

  for (const path of ['/model_info', '/get_model_info']) {
    app.get(path, async (context) => {
      const { version, vocabulary, arithmetic } = await served.info();
      return context.json({
        model_path: served.model,
        tokenizer_path: served.model,
        served_model_name: served.model,
        is_generation: true,
        weight_version: String(version),
        has_image_understanding: false,
        model_type: served.config['model_type'],
        architectures: served.config['architectures'],
        vocab_size: vocabulary,
        engine: 'rollcall',
        arithmetic,
      });
    });
  }

  for (const path of ['/server_info', '/get_server_info']) {
    app.get(path, async (context) => {
      const { contextTokens } = await served.info();
      return context.json({
        model_path: served.model,
        context_length: contextTokens,
        tp_size: 1,
        dp_size: 1,
        enable_lora: true,
        enable_memory_saver: false,
        incremental_streaming_output: false,
        internal_states: [await loadOf(served)],
        version: 'rollcall',
      });
    });
  }

  app.get('/v1/loads', async (context) =>
    context.json({ loads: [{ dp_rank: 0, ...(await loadOf(served)) }] }),
  );

  app.get('/health', async (context) => {
    const well = !served.paused && (await served.server.ready());
    return context.body(null, well ? 200 : 503);
  });

  app.post('/abort_request', async (context) => {
    const body = await bodyOf(
      context,
      z.strictObject({ rid: z.string().default(''), abort_all: z.boolean().default(false) }),
    );
    if (body.rid === '' && !body.abort_all)
      throw new BadRequest('rid is empty; give one, or abort_all: true');
    served.abort(body.abort_all ? '' : body.rid);
    return context.json({});
  });

  app.post('/pause_generation', async (context) => {
    const { mode } = await bodyOf(
      context,
      z.strictObject({ mode: z.enum(['abort', 'retract', 'in_place']).default('abort') }),
    );
    await served.pause(mode === 'abort' ? 'abort' : 'keep');
    return context.json({ status: 'ok' });
  });

  app.post('/continue_generation', async (context) => {
    await bodyOf(context, z.strictObject({ torch_empty_cache: z.boolean().optional() }));
    await served.resume();
    return context.json({ status: 'ok' });
  });

  app.on(['GET', 'POST'], '/flush_cache', async (context) => {
    if (served.running > 0) throw new BadRequest(`${served.running} requests are running`);
    await served.server.flush();
    return context.text('Cache flushed.\n');
  });

  app.post('/update_weights_from_disk', async (context) => {
    const body = await bodyOf(
      context,
      z.strictObject({
        model_path: z.string(),
        weight_version: z.string().nullable().optional(),
        flush_cache: z.literal(true).default(true),
        abort_all_requests: z.boolean().default(false),
        load_format: z.null().optional(),
      }),
    );
    if (body.abort_all_requests) served.abort('');
    return answer(context, async () => {
      await served.update(body.model_path, body.weight_version ?? undefined);
      return {
        message: `loaded ${body.model_path}`,
        num_paused_requests: served.paused ? served.running : 0,
      };
    });
  });

  app.post('/load_lora_adapter', async (context) => {
    const body = await bodyOf(
      context,
      z.strictObject({ lora_name: z.string(), lora_path: z.string(), pinned: z.boolean().optional() }),
    );
    return answer(context, async () => {
      await served.loadAdapter(body.lora_name, body.lora_path);
      return { loaded_adapters: served.adapters };
    });
  });

  app.post('/unload_lora_adapter', async (context) => {
    const body = await bodyOf(context, z.strictObject({ lora_name: z.string() }));
    return answer(context, async () => {
      served.unloadAdapter(body.lora_name);
      return { loaded_adapters: served.adapters };
    });
  });

  app.post('/tokenize', async (context) => {
    const body = await bodyOf(
      context,
      z.strictObject({
        model: z.string().optional(),
        prompt: z.string(),
        add_special_tokens: z.boolean().optional(),
      }),
    );
    const tokens = Array.from(served.tokenizer.encode(body.prompt));
    const { contextTokens } = await served.info();
    return context.json({ tokens, count: tokens.length, max_model_len: contextTokens });
  });
}

const PARTIAL = { finish: 'length' as const, versions: [] as readonly VersionSpan[] };

/** SGLang answers a failed update with 400 and `success: false`. */
async function answer(
  context: { json(value: object, status?: 200 | 400): Response },
  act: () => Promise<object>,
): Promise<Response> {
  try {
    return context.json({ success: true, ...(await act()) });
  } catch (error) {
    const message = (error as Error).message;
    return context.json({ success: false, message, error_message: message }, 400);
  }
}

function requestOf(body: Generate, served: ServedModel) {
  const { text, input_ids: ids, sampling_params: params } = body;
  if ((text === undefined) === (ids === undefined)) throw new BadRequest('give either text or input_ids');
  const prompt = ids ? Int32Array.from(ids) : served.tokenizer.encode(text!);
  const stopIds = [...(params.stop_token_ids ?? []), ...(params.ignore_eos ? [] : served.eosIds)];
  const sampling: SamplingParams = {
    temperature: params.temperature,
    topP: params.top_p,
    topK: params.top_k,
    minP: params.min_p,
    repetitionPenalty: params.repetition_penalty,
    presencePenalty: params.presence_penalty,
    frequencyPenalty: params.frequency_penalty,
    maxTokens: params.max_new_tokens,
    stopIds: [...new Set(stopIds)],
    stopStrings: params.stop ?? [],
    seed: params.sampling_seed ?? Math.floor(Math.random() * 2 ** 32),
  };
  return {
    id: body.rid,
    trajectory: body.session_id ?? '',
    prompt,
    sampling,
    scorePrompt: body.return_logprob && body.logprob_start_len >= 0,
    ...(body.priority === undefined ? {} : { priority: body.priority }),
    ...(body.lora_path ? { adapter: body.lora_path } : {}),
  };
}

function replyOf(body: Generate, result: GenerateResult, served: ServedModel, finish?: null) {
  const { ids, logprobs, versions, promptLogprobs, promptTokens, cachedTokens = 0 } = result;
  const output = Array.from(ids);
  const from = Math.max(0, body.logprob_start_len);
  const last = versions.at(-1)?.version;
  return {
    text: served.tokenizer.decode(ids),
    output_ids: output,
    meta_info: {
      id: body.rid ?? null,
      finish_reason: finish === null ? null : finishOf(result),
      prompt_tokens: promptTokens,
      completion_tokens: ids.length,
      cached_tokens: cachedTokens,
      ...(last === undefined ? {} : { weight_version: String(last) }),
      weight_versions: versions.map(({ from, version }, at) => ({
        version: String(version),
        start: from,
        end: versions[at + 1]?.from ?? ids.length,
      })),
      ...(body.return_logprob
        ? { output_token_logprobs: Array.from(logprobs, (value, at) => [value, output[at]!, null]) }
        : {}),
      ...(promptLogprobs
        ? {
            input_token_logprobs: Array.from(promptLogprobs, (value, at) => [
              Number.isNaN(value) ? null : value,
              body.input_ids?.[at] ?? null,
              null,
            ]).slice(from),
          }
        : {}),
    },
  };
}

function finishOf({ finish, ids }: GenerateResult) {
  if (finish === 'stop') return { type: 'stop', matched: ids.at(-1) ?? null };
  if (finish === 'length') return { type: 'length', length: ids.length };
  return { type: 'abort', message: 'aborted', status_code: null, err_type: null };
}

async function loadOf(served: ServedModel) {
  const load = await served.server.stats();
  const prompts = load.cachedPromptTokens + load.computedPromptTokens;
  return {
    num_running_reqs: load.running,
    num_waiting_reqs: load.waiting,
    token_usage: load.blocksHeld / load.blocks,
    max_total_num_tokens: load.blocks * load.blockTokens,
    cache_hit_rate: prompts === 0 ? 0 : load.cachedPromptTokens / prompts,
    num_retracted_reqs: load.preemptions,
    generated_tokens: load.sampledTokens,
  };
}
