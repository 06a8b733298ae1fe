/** OpenAI's `/v1/completions`, whose prompt is text or ids, and the list of models; ids and log-probs of ids on request. */
import { randomUUID } from 'node:crypto';
import type { Hono } from 'hono';
import { z } from 'zod';
import type { GenerateResult, SamplingParams } from '../inference/server.ts';
import { MOST_REPLIES } from './chat-routes.ts';
import { bodyOf, events } from './request.ts';
import type { ServedModel } from './served-model.ts';

const COMMON = {
  model: z.string().optional(),
  temperature: z.number().min(0).nullable().default(1),
  top_p: z.number().nullable().default(1),
  top_k: z.number().int().default(-1),
  min_p: z.number().default(0),
  repetition_penalty: z.number().default(1),
  presence_penalty: z.number().nullable().default(0),
  frequency_penalty: z.number().nullable().default(0),
  seed: z.number().int().nullable().optional(),
  stop: z
    .union([z.string(), z.array(z.string())])
    .nullable()
    .optional(),
  stop_token_ids: z.array(z.number().int()).default([]),
  n: z.number().int().min(1).max(MOST_REPLIES).nullable().default(1),
  stream: z.boolean().nullable().default(false),
  stream_options: z.object({ include_usage: z.boolean().optional() }).nullable().optional(),
  return_token_ids: z.boolean().default(false),
};

/** Other fields are ignored, and named in the header `x-rollcall-ignored`. */
const COMPLETION = z.object({
  ...COMMON,
  prompt: z.union([z.string(), z.array(z.number().int())]),
  max_tokens: z.number().int().positive().default(16),
  logprobs: z.number().int().min(0).max(1).nullable().optional(),
});

export function openaiRoutes(app: Hono, served: ServedModel): void {
  app.get('/v1/models', async (context) => {
    const { contextTokens } = await served.info();
    const entry = (id: string) => ({
      id,
      object: 'model',
      owned_by: 'rollcall',
      max_model_len: contextTokens,
    });
    return context.json({ object: 'list', data: [served.model, ...served.adapters].map(entry) });
  });

  app.post('/v1/completions', async (context) => {
    const body = await bodyOf(context, COMPLETION);
    const prompt =
      typeof body.prompt === 'string' ? served.tokenizer.encode(body.prompt) : Int32Array.from(body.prompt);
    const stopIds = served.eosIds;
    const request = requestOf(body, served, prompt, stopIds, body.max_tokens);
    const head = headOf(body, 'cmpl', 'text_completion');
    type Said = Pick<GenerateResult, 'ids' | 'logprobs'>;
    const choice = (index: number, text: string, { ids, logprobs }: Said, finish: string | null) => ({
      index,
      text,
      finish_reason: finish,
      logprobs:
        body.logprobs == null
          ? null
          : { tokens: Array.from(ids, tokenText(served)), token_logprobs: Array.from(logprobs) },
      ...(body.return_token_ids ? { token_ids: Array.from(ids) } : {}),
    });
    if (!body.stream) {
      const results = await generateAll(served, choicesOf(request, body), context.req.raw.signal);
      const textOf = (result: GenerateResult) =>
        served.tokenizer.decode(withoutStop(result, request.sampling.stopIds));
      return context.json({
        ...head,
        choices: results.map((result, index) => choice(index, textOf(result), result, result.finish)),
        usage: usageOf(results),
        ...(body.return_token_ids ? { prompt_token_ids: Array.from(prompt) } : {}),
      });
    }
    return events(context, async (send) => {
      const streamed = choicesOf(request, body).map((one, index) => {
        const decoder = served.tokenizer.decoder();
        const onTokens = (ids: Int32Array, logprobs: Float32Array) => {
          const ends = request.sampling.stopIds.includes(ids[0]!);
          const text = ends ? '' : decoder.push(ids);
          send({ ...head, choices: [choice(index, text, { ids, logprobs }, null)] });
        };
        return { request: { ...one, onTokens }, end: () => decoder.end() };
      });
      const sent = streamed.map((one) => one.request);
      const results = await generateAll(served, sent, context.req.raw.signal);
      const nothing = { ids: new Int32Array(), logprobs: new Float32Array() };
      for (const [index, result] of results.entries())
        send({ ...head, choices: [choice(index, streamed[index]!.end(), nothing, result.finish)] });
      if (body.stream_options?.include_usage) send({ ...head, choices: [], usage: usageOf(results) });
    });
  });
}

/** One request for each reply that is asked for. */
function choicesOf(request: ReturnType<typeof requestOf>, { n }: z.infer<typeof COMPLETION>) {
  const { sampling } = request;
  return Array.from({ length: n ?? 1 }, (_, at) => ({
    ...request,
    sampling: { ...sampling, seed: (sampling.seed + at) % 2 ** 32 },
  }));
}

const generateAll = (
  served: ServedModel,
  requests: readonly Parameters<ServedModel['generate']>[0][],
  gone: AbortSignal,
) => Promise.all(requests.map((request) => served.generate(request, gone)));

function requestOf(
  body: z.infer<typeof COMPLETION>,
  served: ServedModel,
  prompt: Int32Array,
  stopIds: readonly number[],
  maxTokens: number,
) {
  const sampling: SamplingParams = {
    temperature: body.temperature ?? 1,
    topP: body.top_p ?? 1,
    topK: body.top_k,
    minP: body.min_p,
    repetitionPenalty: body.repetition_penalty,
    presencePenalty: body.presence_penalty ?? 0,
    frequencyPenalty: body.frequency_penalty ?? 0,
    maxTokens,
    stopIds: [...new Set([...stopIds, ...body.stop_token_ids])],
    stopStrings: [body.stop ?? []].flat(),
    seed: body.seed ?? Math.floor(Math.random() * 2 ** 32),
  };
  const adapter = served.adapters.find((name) => name === body.model);
  return { trajectory: '', prompt, sampling, ...(adapter === undefined ? {} : { adapter }) };
}

function headOf(body: z.infer<typeof COMPLETION>, prefix: string, object: string) {
  const created = Math.floor(Date.now() / 1000);
  return { id: `${prefix}-${randomUUID()}`, object, created, model: body.model ?? 'default' };
}

function usageOf(results: readonly GenerateResult[]) {
  const { promptTokens, cachedTokens = 0 } = results[0]!;
  const sampled = results.reduce((sum, { ids }) => sum + ids.length, 0);
  return {
    prompt_tokens: promptTokens,
    completion_tokens: sampled,
    total_tokens: promptTokens + sampled,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

function withoutStop({ ids, finish }: GenerateResult, stopIds: readonly number[]): Int32Array {
  return finish === 'stop' && stopIds.includes(ids.at(-1)!) ? ids.subarray(0, -1) : ids;
}

const tokenText =
  ({ tokenizer }: ServedModel) =>
  (id: number) =>
    tokenizer.decode(Int32Array.of(id));
