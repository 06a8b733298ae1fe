/**
 * A vLLM server at a URL, started with VLLM_SERVER_DEV_MODE=1 (pausing, weights) and, for adapters,
 * VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. Without `/inference/v1/generate` (older ones) `/v1/completions` is used.
 */
import { ConfigError, EngineError } from '../errors.ts';
import type { HttpServerOptions } from './engine.ts';
import { HttpStatusError } from './http/client.ts';
import {
  type Began,
  checkedReply,
  isObject,
  type ReportedSpan,
  reportedSpans,
  spansOf,
} from './http-reply.ts';
import { HttpServer } from './http-server.ts';
import type { GenerateRequest, GenerateResult, ServerInfo, ServerLoad, VersionSpan } from './server.ts';
import { vllmLoad } from './server-load.ts';
import { placesAtServer, ShownImages } from './vllm-images.ts';
import { isReply, joined, logprobsOf, type PromptLogprobs, type Reply } from './vllm-reply.ts';
import { completionsBody, shownBody, tokensBody } from './vllm-request.ts';
import {
  checkWorkersHave,
  dropEncodedImages,
  dropPrefixCache,
  reloadWeights,
  tellVersion,
} from './vllm-weights.ts';

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

export class VllmServer extends HttpServer {
  /** vLLM's own default is before temperature. */
  logprobs: ServerInfo['logprobs'] = 'raw';
  readonly #images: ShownImages;
  #by: Entrance = 'tokens';
  #hasAnswered = false;
  #model: Promise<{ id: string; max_model_len?: number }> | undefined;

  constructor(options: HttpServerOptions) {
    super(options);
    this.#images = new ShownImages(this.url, options.readImage);
  }

  async info(): Promise<ServerInfo> {
    const { id, max_model_len } = await this.#served();
    const release = await this.#release();
    const contextTokens = this.options.contextTokens ?? max_model_len;
    if (!contextTokens) {
      throw new ConfigError(`${this.url} does not say its context length; give contextTokens`);
    }
    return {
      engine: 'vllm',
      ...(release === undefined ? {} : { release }),
      model: id,
      vocabulary: 0,
      contextTokens,
      version: this.version,
      logprobs: this.logprobs,
      logprobsAfterPenalties: this.logprobsAfterPenalties,
      can: new Set([
        ...ABILITIES,
        ...(this.seeds ? (['seeds'] as const) : []),
        ...(this.saysSpans ? (['versionSpans'] as const) : []),
      ]),
    };
  }

  /** Version of the weights as the server states it; older ones do not. */
  async statedVersion(): Promise<string | undefined> {
    const { status, text } = await this.http.call('/weight_info', { method: 'GET' });
    if (status !== 200) return undefined;
    return this.http.parse<{ weight_version?: string }>('/weight_info', text).weight_version;
  }

  load(signal?: AbortSignal): Promise<ServerLoad | undefined> {
    return vllmLoad(this.http, signal);
  }

  async tokenize(text: string): Promise<readonly number[] | undefined> {
    const body = { model: (await this.#served()).id, prompt: text, add_special_tokens: false };
    const { status, text: reply } = await this.http.call('/tokenize', { body });
    return status === 200 ? this.http.parse<{ tokens: number[] }>('/tokenize', reply).tokens : undefined;
  }

  /** Checksum of each tensor; undefined before vLLM 0.32. */
  async checksum(): Promise<string | undefined> {
    const { status, text } = await this.http.call('/weight_checker', { body: { action: 'checksum' } });
    return status === 200 ? text : undefined;
  }

  protected reach(signal?: AbortSignal): Promise<void> {
    return this.http.tell('/health', { method: 'GET', signal });
  }

  protected askToPause(mode: 'abort' | 'wait' | 'keep'): Promise<void> {
    if (mode !== 'keep') this.#images.forget();
    const path = `/pause?mode=${mode}&clear_cache=${mode !== 'keep'}`;
    return this.http.tell(path, { timeoutMs: this.updateTimeoutMs });
  }

  protected askToResume(): Promise<void> {
    return this.http.tell('/resume');
  }

  protected askToSleep(): Promise<void> {
    this.#images.forget();
    return this.http.tell('/sleep?level=1');
  }

  protected askToWake(): Promise<void> {
    return this.http.tell('/wake_up?tags=weights&tags=kv_cache');
  }

  protected async loadFromDisk({ path, version }: { path: string; version: number }): Promise<void> {
    await reloadWeights(this.http, path, this.updateTimeoutMs);
    await this.#weightsCame(version);
  }

  protected async checkPushed({ version }: { version: number }): Promise<void> {
    await checkWorkersHave(this.http, version);
    await this.#weightsCame(version);
  }

  protected loadAdapter(name: string, path: string): Promise<void> {
    return this.http.tell('/v1/load_lora_adapter', { body: { lora_name: name, lora_path: path } });
  }

  protected unloadAdapter(name: string, timeoutMs?: number): Promise<void> {
    const limit = timeoutMs === undefined ? {} : { timeoutMs };
    return this.http.tell('/v1/unload_lora_adapter', { body: { lora_name: name }, ...limit });
  }

  protected async sample(request: GenerateRequest): Promise<GenerateResult> {
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
    const id = encodeURI(this.nextId(request)).replaceAll('/', ':'); // it travels in a header
    const began = this.began(request);
    const body = await this.#body(request, id, by, began.adapter);
    const headers = { 'x-session-id': encodeURI(request.trajectory), 'x-request-id': id };
    const path = PATHS[by];
    return this.ask(request, {
      path,
      call: () => ({ body: body(), headers }),
      abort: { path: '/abort_requests', body: { request_ids: [SERVER_ID[by](id)] } },
      read: (reply) =>
        this.#result(request, this.#checked(path, this.http.parse(path, reply.toString())), began),
      readEvents: (events) => this.#readEvents(request, path, events, began),
    });
  }

  async #readEvents(
    request: GenerateRequest,
    path: string,
    events: AsyncIterable<unknown>,
    { before, adapter }: Began,
  ): Promise<GenerateResult> {
    const parts: Reply[] = [];
    let made = 0;
    let madeBefore: number | undefined;
    for await (const event of events) {
      if (isObject(event) && event.error) {
        const { code = 500, message = 'no reason given' } = event.error as StreamError;
        throw new HttpStatusError(this.url, path, Number(code), String(message));
      }
      const part = this.#checked(path, event);
      parts.push(part);
      const ids = part.choices[0]?.token_ids ?? [];
      made += ids.length;
      if (this.version === before) madeBefore = made;
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
    const named = this.adapters.versionOf(adapter);
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
      this.saysSpans = true;
      return reportedSpans(reported, this.updated ? 0 : this.version);
    }
    return spansOf(before, this.version, tokens, madeBefore);
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
    const named = { id, model: adapter ?? (await this.#served()).id, seeds: this.seeds };
    if (by === 'tokens') {
      const prompt = await this.#images.prompt(request, (shown) =>
        this.http.tell(PATHS.tokens, { body: shownBody(request, shown, named) }),
      );
      return () => tokensBody(request, prompt, named);
    }
    if (request.images && request.images.length > 0) {
      throw new ConfigError(
        `${this.url}: this vLLM has no /inference/v1/generate, and so takes no images with ids`,
      );
    }
    return () => completionsBody(request, named);
  }

  async #weightsCame(version: number): Promise<void> {
    await dropPrefixCache(this.http);
    if (this.options.readImage) await dropEncodedImages(this.http);
    await tellVersion(this.http, version);
  }

  async #release(): Promise<string | undefined> {
    const { status, text } = await this.http.call('/version', { method: 'GET' });
    return status === 200 ? this.http.parse<{ version?: string }>('/version', text).version : undefined;
  }

  #served() {
    this.#model ??= this.http
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
