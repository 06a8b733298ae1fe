/** OpenAI's `/v1/completions` and `/v1/chat/completions`; ids and log-probs of ids on request. */
import { randomUUID } from 'node:crypto';
import type { Hono } from 'hono';
import { z } from 'zod';
import type { ChatFormat } from '../chat/format.ts';
import type { GenerateResult, SamplingParams } from '../inference/server.ts';
import { BadRequest } from './bad-request.ts';
import { MESSAGE, readMessages, readTools, TOOL, writeToolCalls } from './openai-messages.ts';
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
  n: z.literal(1).default(1),
  stream: z.boolean().nullable().default(false),
  stream_options: z.object({ include_usage: z.boolean().optional() }).nullable().optional(),
  return_token_ids: z.boolean().default(false),
  /** Known, and without a meaning here. */
  user: z.string().optional(),
  metadata: z.unknown().optional(),
  store: z.boolean().nullable().optional(),
  service_tier: z.enum(['auto', 'default']).nullable().optional(),
  /** What clients send where nothing is asked for. */
  response_format: z
    .strictObject({ type: z.literal('text') })
    .nullable()
    .optional(),
  logit_bias: z.strictObject({}).nullable().optional(),
};

const COMPLETION = z.strictObject({
  ...COMMON,
  prompt: z.union([z.string(), z.array(z.number().int())]),
  max_tokens: z.number().int().positive().default(16),
  logprobs: z.number().int().min(0).max(1).nullable().optional(),
  echo: z.literal(false).optional(),
});

const CHAT = z.strictObject({
  ...COMMON,
  messages: z.array(MESSAGE).min(1),
  tools: z.array(TOOL).optional(),
  tool_choice: z.enum(['auto', 'none']).optional(),
  parallel_tool_calls: z.literal(true).optional(),
  max_tokens: z.number().int().positive().nullable().optional(),
  max_completion_tokens: z.number().int().positive().nullable().optional(),
  logprobs: z.boolean().nullable().optional(),
  top_logprobs: z.literal(0).nullable().optional(),
});

type Common = z.infer<typeof COMPLETION> | z.infer<typeof CHAT>;

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
    const choice = (text: string, ids: Int32Array, logprobs: Float32Array, finish: string | null) => ({
      index: 0,
      text,
      finish_reason: finish,
      logprobs:
        body.logprobs == null
          ? null
          : { tokens: Array.from(ids, tokenText(served)), token_logprobs: Array.from(logprobs) },
      ...(body.return_token_ids ? { token_ids: Array.from(ids) } : {}),
    });
    if (!body.stream) {
      const result = await served.generate(request, context.req.raw.signal);
      const text = served.tokenizer.decode(withoutStop(result, request.sampling.stopIds));
      return context.json({
        ...head,
        choices: [choice(text, result.ids, result.logprobs, finishOf(result))],
        usage: usageOf(result),
        ...(body.return_token_ids ? { prompt_token_ids: Array.from(prompt) } : {}),
      });
    }
    return events(context, async (send) => {
      const decoder = served.tokenizer.decoder();
      const result = await served.generate(
        {
          ...request,
          onTokens: (ids, logprobs) => {
            const ends = request.sampling.stopIds.includes(ids[0]!);
            send({ ...head, choices: [choice(ends ? '' : decoder.push(ids), ids, logprobs, null)] });
          },
        },
        context.req.raw.signal,
      );
      const none = new Int32Array();
      send({ ...head, choices: [choice(decoder.end(), none, new Float32Array(), finishOf(result))] });
      if (body.stream_options?.include_usage) send({ ...head, choices: [], usage: usageOf(result) });
    });
  });

  app.post('/v1/chat/completions', async (context) => {
    const body = await bodyOf(context, CHAT);
    const { format } = served;
    if (!format) throw new BadRequest('this model has no chat template; use /v1/completions');
    const tools = body.tool_choice === 'none' ? [] : readTools(body.tools ?? []);
    const { ids: prompt } = format.renderPrompt(readMessages(body.messages), tools);
    const { contextTokens } = await served.info();
    const most = body.max_completion_tokens ?? body.max_tokens ?? Math.max(1, contextTokens - prompt.length);
    const request = requestOf(body, served, prompt, format.stopIds, most);
    const head = headOf(body, 'chatcmpl', body.stream ? 'chat.completion.chunk' : 'chat.completion');
    const extras = (ids: Int32Array, logprobs: Float32Array) => ({
      logprobs: body.logprobs ? chatLogprobs(served, ids, logprobs) : null,
      ...(body.return_token_ids ? { token_ids: Array.from(ids) } : {}),
    });
    if (!body.stream) {
      const result = await served.generate(request, context.req.raw.signal);
      const reply = format.parseReply(result.ids, tools);
      const calls = writeToolCalls(reply.toolCalls);
      const message = {
        role: 'assistant',
        content: reply.content,
        ...(reply.reasoning === '' ? {} : { reasoning_content: reply.reasoning }),
        ...(calls.length === 0 ? {} : { tool_calls: calls }),
      };
      const finish_reason = finishOf(result, calls.length);
      return context.json({
        ...head,
        choices: [{ index: 0, message, finish_reason, ...extras(result.ids, result.logprobs) }],
        usage: usageOf(result),
        ...(body.return_token_ids ? { prompt_token_ids: Array.from(prompt) } : {}),
      });
    }
    return events(context, (send) =>
      streamChat({ served, format, tools, request, head, extras, send, gone: context.req.raw.signal, body }),
    );
  });
}

interface ChatStream {
  readonly served: ServedModel;
  readonly format: ChatFormat;
  readonly tools: ReturnType<typeof readTools>;
  readonly request: ReturnType<typeof requestOf>;
  readonly head: object;
  readonly body: z.infer<typeof CHAT>;
  readonly gone: AbortSignal;
  extras(ids: Int32Array, logprobs: Float32Array): object;
  send(value: object): void;
}

async function streamChat(chat: ChatStream): Promise<void> {
  const { served, format, tools, request, head, extras, send, gone, body } = chat;
  const reply = format.streamReply(tools);
  let calls = 0;
  const tell = (delta: ReturnType<typeof reply.push>, ids: Int32Array, logprobs: Float32Array) => {
    const told = {
      ...(delta.content === '' ? {} : { content: delta.content }),
      ...(delta.reasoning === '' ? {} : { reasoning_content: delta.reasoning }),
      ...(delta.toolCalls.length === 0 ? {} : { tool_calls: writeToolCalls(delta.toolCalls, calls) }),
    };
    calls += delta.toolCalls.length;
    if (Object.keys(told).length === 0 && !body.logprobs && !body.return_token_ids) return;
    send({ ...head, choices: [{ index: 0, delta: told, finish_reason: null, ...extras(ids, logprobs) }] });
  };
  send({ ...head, choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] });
  const onTokens = (ids: Int32Array, logprobs: Float32Array) => tell(reply.push(ids), ids, logprobs);
  const result = await served.generate({ ...request, onTokens }, gone);
  tell(reply.end(), new Int32Array(), new Float32Array());
  send({ ...head, choices: [{ index: 0, delta: {}, finish_reason: finishOf(result, calls) }] });
  if (body.stream_options?.include_usage) send({ ...head, choices: [], usage: usageOf(result) });
}

function requestOf(
  body: Common,
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

function headOf(body: Common, prefix: string, object: string) {
  const created = Math.floor(Date.now() / 1000);
  return { id: `${prefix}-${randomUUID()}`, object, created, model: body.model ?? 'default' };
}

function finishOf({ finish }: GenerateResult, calls = 0): string {
  return finish === 'stop' && calls > 0 ? 'tool_calls' : finish;
}

function usageOf({ promptTokens, ids, cachedTokens = 0 }: GenerateResult) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: ids.length,
    total_tokens: promptTokens + ids.length,
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

function chatLogprobs(served: ServedModel, ids: Int32Array, logprobs: Float32Array) {
  const text = tokenText(served);
  return {
    content: Array.from(ids, (id, at) => ({
      token: text(id),
      logprob: logprobs[at]!,
      bytes: null,
      top_logprobs: [],
    })),
  };
}
