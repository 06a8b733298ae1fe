/**
 * A vLLM server at a URL, started with VLLM_SERVER_DEV_MODE=1 (pausing, weights) and, for adapters,
 * VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. Without `/inference/v1/generate` (older ones) `/v1/completions` is used.
 */
import { ConfigError, EngineError } from '../errors.ts';
import { Door } from '../lib/door.ts';
import type { HttpServerOptions } from './engine.ts';
import { type CallOptions, HttpClient, HttpStatusError } from './http/client.ts';
import {
  type Began,
  checkedReply,
  emptyPartial,
  isObject,
  type ReportedSpan,
  reportedSpans,
  spansOf,
} from './http-reply.ts';
import { jsonWithIds } from './ids-json.ts';
import { keepPartial } from './keep-partial.ts';
import { LoadedAdapters } from './loaded-adapters.ts';
import type {
  GenerateRequest,
  GenerateResult,
  InferenceServer,
  ServerInfo,
  ServerLoad,
  VersionSpan,
  WeightUpdate,
} from './server.ts';
import { vllmLoad } from './server-load.ts';
import { placesAtServer, type SentPrompt, ShownImages } from './vllm-images.ts';
import { isReply, joined, logprobsOf, type PromptLogprobs, type Reply } from './vllm-reply.ts';
import { idsAlone, samplingOf } from './vllm-sampling.ts';

type Entrance = 'tokens' | 'completions';

/** A request that failed after its stream had begun, and so with HTTP 200. */
interface StreamError {
  readonly message?: string;
  readonly code?: number;
}

const PATHS: Readonly<Record<Entrance, string>> = {
  tokens: '/inference/v1/generate',
  completions: '/v1/completions',
};

/** Ids as the server knows them, for `/abort_requests`. */
const SERVER_ID: Readonly<Record<Entrance, (id: string) => string>> = {
  tokens: (id) => `generate-tokens-${id}`,
  completions: (id) => `cmpl-${id}-0`,
};

const ABILITIES = [
  'scorePrompt',
  'constraint',
  'disk',
  'lora',
  'pushed',
  'pauseKeep',
  'sleep',
  'images',
] as const;

/** A server that hangs does not hold up the end of a run. */
const CLOSE_MS = 2000;

export class VllmServer implements InferenceServer {
  readonly url: string;
  /** Set by the check at start; vLLM's own default is before temperature. */
  logprobs: ServerInfo['logprobs'] = 'raw';
  logprobsAfterPenalties = false;
  readonly #http: HttpClient;
  readonly #door = new Door();
  readonly #adapters = new LoadedAdapters();
  readonly #images: ShownImages;
  readonly #options: HttpServerOptions;
  #version: number;
  #updated = false;
  /** Since vLLM 0.32; seen in its replies. */
  #saysSpans = false;
  #tries = 0;
  #by: Entrance = 'tokens';
  #hasAnswered = false;
  #model: Promise<{ id: string; max_model_len?: number }> | undefined;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    this.#http = new HttpClient(options.url, options);
    this.url = this.#http.url;
    this.#images = new ShownImages(this.url, options.readImage);
    this.#version = options.version ?? 0;
  }

  get #seeds(): boolean {
    return this.#options.seeds ?? true;
  }

  async info(): Promise<ServerInfo> {
    const { id, max_model_len } = await this.#served();
    const release = await this.#release();
    const contextTokens = this.#options.contextTokens ?? max_model_len;
    if (!contextTokens) {
      throw new ConfigError(`${this.url} does not say its context length; give contextTokens`);
    }
    return {
      engine: 'vllm',
      ...(release === undefined ? {} : { release }),
      model: id,
      vocabulary: 0,
      contextTokens,
      version: this.#version,
      logprobs: this.logprobs,
      logprobsAfterPenalties: this.logprobsAfterPenalties,
      can: new Set([
        ...ABILITIES,
        ...(this.#seeds ? (['seeds'] as const) : []),
        ...(this.#saysSpans ? (['versionSpans'] as const) : []),
      ]),
    };
  }

  async ready(signal?: AbortSignal): Promise<boolean> {
    try {
      await this.#http.tell('/health', { method: 'GET', signal });
      return true;
    } catch (error) {
      if (error instanceof ConfigError) throw error;
      signal?.throwIfAborted();
      return false;
    }
  }

  /** Version of the weights as the server states it; older ones do not. */
  async statedVersion(): Promise<string | undefined> {
    const { status, text } = await this.#http.call('/weight_info', { method: 'GET' });
    if (status !== 200) return undefined;
    return this.#http.parse<{ weight_version?: string }>('/weight_info', text).weight_version;
  }

  load(signal?: AbortSignal): Promise<ServerLoad | undefined> {
    return vllmLoad(this.#http, signal);
  }

  /** The server's own ids of a text, or undefined where it has no tokenizer. */
  async tokenize(text: string): Promise<readonly number[] | undefined> {
    const body = { model: (await this.#served()).id, prompt: text, add_special_tokens: false };
    const { status, text: reply } = await this.#http.call('/tokenize', { body });
    return status === 200 ? this.#http.parse<{ tokens: number[] }>('/tokenize', reply).tokens : undefined;
  }

  async generate(request: GenerateRequest): Promise<GenerateResult> {
    try {
      await this.#door.enter(request.signal);
    } catch {
      return emptyPartial(request); // aborted before the door
    }
    try {
      return await this.#generate(request);
    } catch (error) {
      if (request.signal?.aborted && !(error instanceof EngineError)) return emptyPartial(request);
      throw error;
    } finally {
      this.#door.leave();
    }
  }

  /** `wait` lasts as long as the longest reply. */
  async pause(mode: 'abort' | 'wait' | 'keep'): Promise<void> {
    if (mode === 'wait') {
      this.#door.shut();
      await this.#door.empty();
    }
    if (mode !== 'keep') this.#images.forget();
    try {
      await this.#http.tell(`/pause?mode=${mode}&clear_cache=${mode !== 'keep'}`, {
        timeoutMs: this.#options.updateTimeoutMs ?? 600_000,
      });
    } catch (error) {
      this.#door.open();
      throw error;
    }
  }

  /** Waiting requests are released even if the server is gone: they fail fast and the gateway retries them elsewhere. */
  async resume(): Promise<void> {
    try {
      await this.#http.tell('/resume');
    } finally {
      this.#door.open();
    }
  }

  async update(weights: WeightUpdate): Promise<void> {
    if (weights.kind === 'disk') await this.#loadFromDisk(weights);
    else if (weights.kind === 'lora') await this.#loadAdapter(weights);
    else if (weights.kind === 'pushed') await this.#checkPushed(weights);
    else
      throw new EngineError(
        `${this.url}: a vLLM server takes weights by disk, lora or pushed, not ${weights.kind}`,
      );
    this.#version = weights.version;
    if (weights.kind === 'lora') return;
    this.#updated = true;
    this.#adapters.weightsCame();
  }

  /** Checksum of each tensor; undefined before vLLM 0.32. */
  async checksum(): Promise<string | undefined> {
    const { status, text } = await this.#http.call('/weight_checker', { body: { action: 'checksum' } });
    return status === 200 ? text : undefined;
  }

  async sleep(): Promise<void> {
    this.#door.shut();
    await this.#door.empty();
    this.#images.forget();
    try {
      await this.#http.tell('/sleep?level=1');
    } catch (error) {
      this.#door.open();
      throw error;
    }
  }

  async wake(): Promise<void> {
    try {
      await this.#http.tell('/wake_up?tags=weights&tags=kv_cache');
    } finally {
      this.#door.open();
    }
  }

  /** What was loaded under names of this run is unloaded: a later run begins with the same ones. */
  async close(): Promise<void> {
    await this.#adapters.unloadAll((name) => this.#unloadAdapter(name, CLOSE_MS));
    await this.#http.close();
  }

  async #generate(request: GenerateRequest): Promise<GenerateResult> {
    const { images = [], onTokens } = request;
    let hasBegun = false;
    const onFirst = (ids: Int32Array, logprobs: Float32Array) => {
      hasBegun = true;
      onTokens!(ids, logprobs);
    };
    try {
      const result = await this.#byKnownEntrance(onTokens ? { ...request, onTokens: onFirst } : request);
      if (images.length > 0 && result.finish !== 'abort') this.#images.arrived(images);
      return result;
    } catch (error) {
      if (hasBegun || !this.#images.wereLost(error, images)) throw error;
      return this.#byKnownEntrance(request);
    }
  }

  async #byKnownEntrance(request: GenerateRequest): Promise<GenerateResult> {
    try {
      const result = await this.#try(request, this.#by);
      this.#hasAnswered = true;
      return result;
    } catch (error) {
      if (this.#hasAnswered || this.#by === 'completions' || !isAbsent(error)) throw error;
      this.#by = 'completions';
      return this.#try(request, 'completions');
    }
  }

  async #try(request: GenerateRequest, by: Entrance): Promise<GenerateResult> {
    request.signal?.throwIfAborted();
    const id = encodeURI(`${request.id}.${++this.#tries}.`).replaceAll('/', ':'); // it travels in a header
    const began = { before: this.#version, adapter: this.#adapters.meantBy(request) };
    const body = await this.#body(request, id, by, began.adapter);
    const headers = { 'x-session-id': encodeURI(request.trajectory), 'x-request-id': id };
    const path = PATHS[by];
    const call = () => ({ body: body(), headers }); // not kept: thousands wait at once
    const askToAbort = (timeoutMs: number) =>
      this.#http.tell('/abort_requests', { body: { request_ids: [SERVER_ID[by](id)] }, timeoutMs });
    if (request.onTokens) {
      const closing = new AbortController();
      const streamed = this.#stream(request, path, { ...call(), signal: closing.signal }, began);
      return keepPartial(streamed, request.signal, askToAbort, (reason) => closing.abort(reason));
    }
    const exchange = this.#http.start(path, call, (reply) => {
      const text = this.#http.accept(path, reply).toString();
      return this.#result(request, this.#checked(path, this.#http.parse(path, text)), began);
    });
    return keepPartial(exchange.reply, request.signal, askToAbort, (reason) => exchange.cancel(reason));
  }

  async #stream(
    request: GenerateRequest,
    path: string,
    call: CallOptions,
    { before, adapter }: Began,
  ): Promise<GenerateResult> {
    const parts: Reply[] = [];
    let made = 0;
    let madeBefore: number | undefined;
    for await (const event of this.#http.events(path, call)) {
      if (isObject(event) && event.error) {
        const { code = 500, message = 'no reason given' } = event.error as StreamError;
        throw new HttpStatusError(this.url, path, Number(code), String(message));
      }
      const part = this.#checked(path, event);
      parts.push(part);
      const ids = part.choices[0]?.token_ids ?? [];
      made += ids.length;
      if (this.#version === before) madeBefore = made;
      const logprobs = logprobsOf(part.choices[0]);
      if (ids.length > 0 && ids.length === logprobs.length) {
        request.onTokens!(Int32Array.from(ids), Float32Array.from(logprobs as number[]));
      }
    }
    return this.#result(request, joined(parts), { before, adapter, madeBefore });
  }

  #checked(path: string, reply: unknown): Reply {
    if (isReply(reply)) return reply;
    throw new EngineError(
      `${this.url}${path} answered with something that is not a reply: ${JSON.stringify(reply).slice(0, 200)}`,
    );
  }

  #result(
    request: GenerateRequest,
    reply: Reply,
    { before, adapter, madeBefore }: Began & { readonly madeBefore?: number | undefined },
  ): GenerateResult {
    const choice = reply.choices[0];
    const ids = choice?.token_ids ?? [];
    const named = this.#adapters.versionOf(adapter);
    const cached = reply.usage?.prompt_tokens_details?.cached_tokens;
    const scored = reply.prompt_logprobs ?? choice?.prompt_logprobs;
    const places = request.images?.length
      ? placesAtServer(this.url, request, reply.mm_placeholders?.image)
      : undefined;
    return checkedReply(this.url, request, {
      ids,
      logprobs: logprobsOf(choice),
      finish: choice?.finish_reason,
      versions: this.#versions(choice?.weight_versions, ids.length, before, named, madeBefore),
      promptTokens: reply.usage?.prompt_tokens ?? request.prompt.length,
      cachedTokens: cached,
      promptLogprobs: request.scorePrompt ? this.#promptLogprobs(request, scored, places) : undefined,
    });
  }

  /** Replies of versions before 0.32 do not say theirs: it is what was loaded here. */
  #versions(
    reported: readonly ReportedSpan[] | null | undefined,
    tokens: number,
    before: number,
    named: number | undefined,
    madeBefore: number | undefined,
  ): VersionSpan[] {
    if (named !== undefined) return spansOf(named, named, tokens);
    // Text that is not a version, after versions were sent: the server was restarted.
    if (reported) {
      this.#saysSpans = true;
      return reportedSpans(reported, this.#updated ? 0 : this.#version);
    }
    return spansOf(before, this.#version, tokens, madeBefore);
  }

  #promptLogprobs(
    { id, prompt, images = [] }: GenerateRequest,
    given: PromptLogprobs | undefined,
    places: Int32Array | undefined,
  ): Float32Array {
    const expected = images.reduce((sum, { tokens }) => sum + tokens - 1, prompt.length);
    if (given?.length !== expected) {
      throw new EngineError(
        `${this.url}: the reply to ${id} scores ${given?.length ?? 0} tokens of a prompt of ${expected}`,
      );
    }
    return Float32Array.from(prompt, (token, at) =>
      at === 0 ? Number.NaN : (given[places?.[at] ?? at]?.[token]?.logprob ?? Number.NaN),
    );
  }

  async #body(request: GenerateRequest, id: string, by: Entrance, adapter: string | undefined) {
    const { prompt, sampling, scorePrompt = false, priority = 0 } = request;
    const model = adapter ?? (await this.#served()).id;
    const stream = request.onTokens !== undefined;
    const params = samplingOf(sampling, this.#seeds);
    const scores = { prompt_logprobs: scorePrompt ? 0 : null };
    if (by === 'tokens') {
      const all = { ...params, logprobs: 0, ...scores, ...idsAlone(sampling) };
      const show = ({ ids, fields }: SentPrompt) => {
        const sampled = { ...all, max_tokens: 1, prompt_logprobs: null };
        const rest = { request_id: `${id}shown.`, model, sampling_params: sampled, priority, stream: false };
        return this.#http.tell(PATHS.tokens, { body: jsonWithIds('token_ids', ids, { ...rest, ...fields }) });
      };
      const { ids, fields } = await this.#images.prompt(request, show);
      const rest = { request_id: id, model, sampling_params: all, priority, stream, ...fields };
      return () => jsonWithIds('token_ids', ids, rest);
    }
    if (request.images && request.images.length > 0) {
      throw new ConfigError(
        `${this.url}: this vLLM has no /inference/v1/generate, and so takes no images with ids`,
      );
    }
    const rest = {
      request_id: id,
      model,
      ...params,
      ...scores,
      logprobs: 1,
      return_token_ids: true,
      priority,
      stream,
    };
    return () => jsonWithIds('prompt', prompt, rest);
  }

  async #loadFromDisk({ path, version }: Extract<WeightUpdate, { kind: 'disk' }>): Promise<void> {
    const timeoutMs = this.#options.updateTimeoutMs ?? 600_000;
    const body = {
      method: 'reload_weights',
      args: [],
      kwargs: { weights_path: path },
      timeout: timeoutMs / 1000,
    };
    await this.#http.tell('/collective_rpc', { body, timeoutMs });
    await this.#dropCache();
    await this.#tellVersion(version);
  }

  /** Every worker says which version was pushed to it last, by its extension (python/rollcall_torch/vllm_extension.py). */
  async #checkPushed({ version }: Extract<WeightUpdate, { kind: 'pushed' }>): Promise<void> {
    const path = '/collective_rpc';
    const { status, text } = await this.#http.call(path, { body: { method: 'rollcall_weights_version' } });
    if (status !== 200) throw new HttpStatusError(this.url, path, status, text);
    const versions = this.#http.parse<{ results: unknown[] }>(path, text).results.flat();
    if (versions.length === 0 || versions.some((had) => had !== version)) {
      throw new EngineError(
        `${this.url} has version ${versions.map((had) => had ?? 'unknown').join(', ')} of the weights; ${version} was pushed`,
      );
    }
    await this.#dropCache();
    await this.#tellVersion(version);
  }

  async #dropCache(): Promise<void> {
    const flush = '/reset_prefix_cache?reset_running_requests=true';
    const { status, text } = await this.#http.call(flush);
    if (status !== 200) throw new HttpStatusError(this.url, flush, status, text);
    if (/"success"\s*:\s*false/.test(text))
      // older ones say nothing
      throw new EngineError(`${this.url} did not drop its cache of older weights`);
    if (this.#options.readImage) await this.#dropEncoded();
  }

  /**
   * What the encoder made of images. When weights are loaded vLLM 0.32 drops it in the workers alone: its scheduler still counts on
   * it, and the next request with such an image ends the engine.
   */
  async #dropEncoded(): Promise<void> {
    const path = '/reset_encoder_cache';
    const { status, text } = await this.#http.call(path);
    if (status !== 200 && status !== 404) throw new HttpStatusError(this.url, path, status, text);
  }

  /** vLLM 0.23 has no such call, and its replies do not say their version. */
  async #tellVersion(version: number): Promise<void> {
    const path = '/update_weight_version';
    const { status, text } = await this.#http.call(path, { body: { new_version: String(version) } });
    if (status !== 200 && status !== 404) throw new HttpStatusError(this.url, path, status, text);
  }

  async #loadAdapter({ name, path, version }: Extract<WeightUpdate, { kind: 'lora' }>): Promise<void> {
    await this.#adapters.load(name, version, {
      load: () => this.#http.tell('/v1/load_lora_adapter', { body: { lora_name: name, lora_path: path } }),
      unload: (old) => this.#unloadAdapter(old),
    });
  }

  #unloadAdapter(name: string, timeoutMs?: number): Promise<void> {
    const limit = timeoutMs === undefined ? {} : { timeoutMs };
    return this.#http.tell('/v1/unload_lora_adapter', { body: { lora_name: name }, ...limit });
  }

  async #release(): Promise<string | undefined> {
    const { status, text } = await this.#http.call('/version', { method: 'GET' });
    return status === 200 ? this.#http.parse<{ version?: string }>('/version', text).version : undefined;
  }

  #served() {
    this.#model ??= this.#http
      .json<{ data: readonly { id: string; max_model_len?: number; parent?: string | null }[] }>(
        '/v1/models',
        {
          method: 'GET',
        },
      )
      .then(({ data }) => {
        const base = data.find(({ parent }) => !parent) ?? data[0];
        if (!base) throw new EngineError(`${this.url}/v1/models lists no model`);
        return base;
      })
      .catch((error) => {
        this.#model = undefined;
        throw error;
      });
    return this.#model;
  }
}

/** The server has no such endpoint; not: it has no such model, which it says with the same status. */
function isAbsent(error: unknown): boolean {
  if (!(error instanceof HttpStatusError)) return false;
  return error.status === 405 || (error.status === 404 && !/NotFoundError|does not exist/.test(error.text));
}
