/** An SGLang server, or `rollcall serve`, at a URL: token ids in, token ids out. */
import { ConfigError, EngineError } from '../errors.ts';
import type { ImageRef } from '../types.ts';
import { dataUri } from './data-uri.ts';
import { HttpStatusError } from './http/client.ts';
import { type Began, checkedReply, isObject, reportedSpans, spansOf, wholeNumber } from './http-reply.ts';
import { HttpServer } from './http-server.ts';
import type { GenerateRequest, GenerateResult, ServerInfo, ServerLoad, VersionSpan } from './server.ts';
import { sglangLoad } from './server-load.ts';
import {
  type Chunk,
  isChunk,
  readReply,
  replyOfChunk,
  type SglangReply,
  type TokenLogprob,
} from './sglang-reply.ts';
import { generateCall } from './sglang-request.ts';

interface ModelInfo {
  readonly model_path: string;
  readonly weight_version?: string | null;
  readonly has_image_understanding?: boolean;
  /** What only `rollcall serve` says. */
  readonly vocab_size?: number;
  readonly engine?: string;
  readonly arithmetic?: string;
}

interface ServerFlags {
  readonly context_length?: number | null;
  readonly max_req_input_len?: number | null;
  readonly enable_lora?: boolean | null;
  readonly enable_memory_saver?: boolean;
  /** Without this flag the server ignores seeds. */
  readonly enable_deterministic_inference?: boolean;
  readonly version?: string;
  readonly incremental_streaming_output?: boolean;
  readonly internal_states?: readonly { readonly max_req_input_len?: number }[];
}

/** `retract` puts running requests back into the queue, so that their K/V are computed again with new weights. */
const PAUSE_MODE = { abort: 'abort', wait: 'retract', keep: 'retract' } as const;

export class SglangServer extends HttpServer {
  logprobs: ServerInfo['logprobs'] = 'temperature';
  #flags: Promise<ServerFlags> | undefined;

  async info(): Promise<ServerInfo> {
    const [model, flags] = await Promise.all([this.#modelInfo(), this.#serverFlags()]);
    return {
      engine: model.engine ?? 'sglang',
      ...(model.engine === undefined && flags.version ? { release: flags.version } : {}),
      ...(model.arithmetic === undefined ? {} : { arithmetic: model.arithmetic }),
      model: model.model_path,
      vocabulary: model.vocab_size ?? 0,
      contextTokens: await this.#contextTokens(flags),
      version: this.version,
      logprobs: this.logprobs,
      logprobsAfterPenalties: this.logprobsAfterPenalties,
      can: new Set([
        'scorePrompt',
        'disk',
        'pauseKeep',
        ...(model.engine === undefined ? (['pushed'] as const) : []), // `rollcall serve` speaks as SGLang does
        ...((model.vocab_size !== undefined || flags.enable_deterministic_inference) && this.seeds
          ? (['seeds'] as const)
          : []),
        // Our own server, which says its vocabulary, does not hold replies to a schema.
        ...(model.vocab_size === undefined ? (['constraint'] as const) : []),
        ...(model.has_image_understanding ? (['images'] as const) : []),
        ...(this.saysSpans ? (['versionSpans'] as const) : []),
        ...(flags.enable_lora ? (['lora'] as const) : []),
        ...(flags.enable_memory_saver ? (['sleep'] as const) : []),
      ]),
    };
  }

  async statedVersion(): Promise<string | undefined> {
    return (await this.#modelInfo()).weight_version ?? undefined;
  }

  load(signal?: AbortSignal): Promise<ServerLoad | undefined> {
    return sglangLoad(this.http, signal);
  }

  async tokenize(text: string): Promise<readonly number[] | undefined> {
    return (await this.#tokenize(text))?.tokens;
  }

  async checksum(): Promise<string | undefined> {
    const { status, text } = await this.http.call('/weights_checker', { body: { action: 'checksum' } });
    return status === 200 ? text : undefined;
  }

  /** Not `/health`, which generates a token and so fails while the server is paused. */
  protected reach(signal?: AbortSignal): Promise<ModelInfo> {
    return this.#modelInfo(signal);
  }

  protected askToPause(mode: keyof typeof PAUSE_MODE): Promise<void> {
    return this.http.tell('/pause_generation', { body: { mode: PAUSE_MODE[mode] } });
  }

  protected askToResume(): Promise<void> {
    return this.http.tell('/continue_generation', { body: {} });
  }

  protected askToSleep(): Promise<void> {
    return this.http.tell('/release_memory_occupation', { body: { tags: ['kv_cache', 'weights'] } });
  }

  protected askToWake(): Promise<void> {
    return this.http.tell('/resume_memory_occupation', { body: { tags: ['kv_cache', 'weights'] } });
  }

  protected async loadFromDisk({ path, version }: { path: string; version: number }): Promise<void> {
    const body = {
      model_path: path,
      weight_version: String(version),
      flush_cache: true,
      abort_all_requests: false,
    };
    const { success, message } = await this.http.json<{ success: boolean; message?: string }>(
      '/update_weights_from_disk',
      { body, timeoutMs: this.updateTimeoutMs },
    );
    if (!success) throw new EngineError(`${this.url} did not load ${path}: ${message ?? 'no reason given'}`);
  }

  /** The trainer named the version with the last tensors; the server dropped its cache then. */
  protected async checkPushed({ version }: { version: number }): Promise<void> {
    const { weight_version: has } = await this.#modelInfo();
    if (has === String(version)) return;
    throw new EngineError(
      `${this.url} has version ${has ?? 'unknown'} of the weights; ${version} was pushed`,
    );
  }

  protected async loadAdapter(name: string, path: string): Promise<void> {
    const { success, error_message: why } = await this.http.json<{
      success: boolean;
      error_message?: string;
    }>('/load_lora_adapter', { body: { lora_name: name, lora_path: path } });
    if (!success)
      throw new EngineError(`${this.url} did not load adapter ${name}: ${why ?? 'no reason given'}`);
  }

  protected unloadAdapter(name: string, timeoutMs?: number): Promise<void> {
    const limit = timeoutMs === undefined ? {} : { timeoutMs };
    return this.http.tell('/unload_lora_adapter', { body: { lora_name: name }, ...limit });
  }

  protected async sample(request: GenerateRequest): Promise<GenerateResult> {
    const { signal, images = [] } = request;
    const rid = this.nextId(request);
    const began = this.began(request);
    const imageData = images.length > 0 ? await this.#imageData(images) : undefined;
    signal?.throwIfAborted();
    return this.ask(request, {
      path: '/generate',
      call: () => generateCall(request, rid, began.adapter, imageData, this.seeds),
      abort: { path: '/abort_request', body: { rid, abort_all: false } },
      read: (reply) => this.#result(request, this.#read(reply), began),
      readEvents: (events) => this.#readEvents(request, events, began),
    });
  }

  async #readEvents(
    request: GenerateRequest,
    events: AsyncIterable<unknown>,
    { before, adapter }: Began,
  ): Promise<GenerateResult> {
    const { incremental_streaming_output: incremental = false } = await this.#serverFlags();
    const whole: { ids: number[]; logprobs: TokenLogprob[] } = { ids: [], logprobs: [] };
    let madeBefore: number | undefined;
    let last: Chunk | undefined;
    for await (const event of events) {
      if (isObject(event) && event.error) {
        const { message = 'failed' } = event.error as { readonly message?: string };
        throw new EngineError(`${this.url}/generate: ${message}`);
      }
      const part = this.#checked(event, () => JSON.stringify(event));
      const from = incremental ? 0 : whole.ids.length;
      const ids = (part.output_ids ?? []).slice(from);
      const logprobs = (part.meta_info.output_token_logprobs ?? []).slice(from);
      whole.ids.push(...ids);
      whole.logprobs.push(...logprobs);
      if (this.version === before) madeBefore = whole.ids.length;
      last = part;
      if (ids.length > 0 && ids.length === logprobs.length) {
        request.onTokens!(
          Int32Array.from(ids),
          Float32Array.from(logprobs, ([value]) => value ?? Number.NaN),
        );
      }
    }
    if (!last) throw new EngineError(`${this.url}/generate: the stream had no reply`);
    const meta_info = { ...last.meta_info, output_token_logprobs: whole.logprobs };
    const reply = replyOfChunk({ output_ids: whole.ids, meta_info });
    return this.#result(request, reply, { before, adapter, madeBefore });
  }

  #read(bytes: Buffer): SglangReply {
    const parse = (text: string) => this.#checked(this.http.parse('/generate', text), () => text);
    return readReply(bytes, parse) ?? replyOfChunk(parse(bytes.toString()));
  }

  #checked(reply: unknown, text: () => string): Chunk {
    if (isChunk(reply)) return reply;
    const what =
      isObject(reply) && isObject(reply.meta_info)
        ? 'with something that is not a reply'
        : 'without meta_info';
    throw new EngineError(`${this.url}/generate answered ${what}: ${text().slice(0, 200)}`);
  }

  #result(
    request: GenerateRequest,
    { ids, logprobs, meta }: SglangReply,
    { before, adapter, madeBefore }: Began & { readonly madeBefore?: number | undefined },
  ): GenerateResult {
    const { status_code: failed, message = 'no reason given' } = meta.finish_reason ?? {};
    if (failed) throw new HttpStatusError(this.url, '/generate', Number(failed), String(message));
    return checkedReply(this.url, request, {
      ids,
      logprobs,
      finish: meta.finish_reason?.type,
      versions: this.#versions(meta, ids.length, before, adapter, madeBefore),
      promptTokens: meta.prompt_tokens,
      cachedTokens: meta.cached_tokens,
      promptLogprobs: request.scorePrompt
        ? this.#promptLogprobs(request, meta.input_token_logprobs)
        : undefined,
    });
  }

  /** Where a server does not say which tokens are of which version: it tells the last, and the first is known here. */
  #versions(
    meta: Chunk['meta_info'],
    tokens: number,
    before: number,
    adapter: string | undefined,
    madeBefore: number | undefined,
  ): VersionSpan[] {
    const named = this.adapters.versionOf(adapter);
    if (named !== undefined) return spansOf(named, named, tokens);
    const reported = meta.weight_version;
    // A name that is not a version, after versions were sent: the server was restarted.
    const unknown = reported === undefined || !this.updated ? this.version : 0;
    if (meta.weight_versions) {
      this.saysSpans = true;
      return reportedSpans(meta.weight_versions, unknown);
    }
    return spansOf(
      Math.min(before, wholeNumber(reported) ?? unknown),
      wholeNumber(reported) ?? unknown,
      tokens,
      madeBefore,
    );
  }

  #promptLogprobs({ id, prompt }: GenerateRequest, given: readonly TokenLogprob[] | undefined): Float32Array {
    if (given?.length !== prompt.length) {
      throw new EngineError(
        `${this.url}: the reply to ${id} scores ${given?.length ?? 0} tokens of a prompt of ${prompt.length}`,
      );
    }
    return Float32Array.from(given, ([value], at) => (at === 0 ? Number.NaN : (value ?? Number.NaN)));
  }

  #imageData(images: readonly ImageRef[]): Promise<string[]> {
    const { readImage } = this.options;
    if (!readImage) throw new ConfigError(`${this.url}: a request has images, and no readImage was given`);
    return Promise.all(images.map(async (image) => dataUri(image, await readImage(image))));
  }

  #modelInfo(signal?: AbortSignal): Promise<ModelInfo> {
    return this.#renamed<ModelInfo>('/model_info', '/get_model_info', signal);
  }

  #serverFlags(): Promise<ServerFlags> {
    this.#flags ??= this.#renamed<ServerFlags>('/server_info', '/get_server_info').catch((error) => {
      this.#flags = undefined;
      throw error;
    });
    return this.#flags;
  }

  async #renamed<R>(name: string, oldName: string, signal?: AbortSignal): Promise<R> {
    try {
      return await this.http.json<R>(name, { method: 'GET', signal });
    } catch (error) {
      if (!(error instanceof HttpStatusError && error.status === 404)) throw error;
      return this.http.json<R>(oldName, { method: 'GET', signal });
    }
  }

  async #contextTokens(flags: ServerFlags): Promise<number> {
    const said =
      this.options.contextTokens ??
      flags.context_length ??
      (await this.#tokenize('a'))?.max_model_len ??
      // A few tokens less than the context; of old servers and those without a tokenizer.
      flags.max_req_input_len ??
      flags.internal_states?.[0]?.max_req_input_len;
    if (said) return said;
    throw new ConfigError(
      `${this.url} does not say its context length; start it with --context-length, or give contextTokens`,
    );
  }

  async #tokenize(text: string) {
    const body = { prompt: text, add_special_tokens: false };
    const { status, text: reply } = await this.http.call('/tokenize', { body });
    if (status !== 200) return undefined;
    return this.http.parse<{ tokens: readonly number[]; max_model_len?: number }>('/tokenize', reply);
  }
}
