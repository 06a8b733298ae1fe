/** The `InferenceServer` port on a Tinker server: it samples from the base model, or from weights that a trainer saved. */
import { ConfigError, EngineError, TrainerError } from '../errors.ts';
import type {
  GenerateRequest,
  GenerateResult,
  InferenceServer,
  SamplingParams,
  ServerInfo,
  WeightUpdate,
} from '../inference/server.ts';
import { Door } from '../lib/door.ts';
import { StateLost, type TinkerClient } from './client.ts';
import type { Session } from './session.ts';
import type { Spending } from './spending.ts';

export interface TinkerServerOptions {
  readonly session: Session;
  readonly base: string;
  readonly contextTokens: number;
  readonly spending: Spending;
  /** The path of these weights on a server that was started again; undefined where nobody can save them again. */
  readonly republish: (version: number) => Promise<string | undefined>;
}

interface Sampled {
  readonly sequences?: readonly {
    readonly tokens: readonly number[];
    readonly logprobs: readonly number[] | null;
    readonly stop_reason: string;
  }[];
  readonly prompt_logprobs?: readonly (number | null)[] | null;
}

/** Where a request is sampled: the weights, their version, and the session that samples with them. */
interface Source {
  readonly version: number;
  readonly path: string | undefined;
  readonly sampler: Promise<string>;
}

const MOST_TRIES = 5;
/** Seeds travel as signed numbers of 32 bits. */
const SEED_MASK = 0x7fffffff;

export class TinkerServer implements InferenceServer {
  readonly #options: TinkerServerOptions;
  readonly #client: TinkerClient;
  readonly #door = new Door();
  #source: Source | undefined;
  /** Of the weights that were sent last; undefined is the base model. */
  #path: string | undefined;
  #version = 0;
  #requests = 0;
  /** Aborts what is in flight. */
  #cut = new AbortController();

  constructor(options: TinkerServerOptions) {
    this.#options = options;
    this.#client = options.session.client;
  }

  async info(): Promise<ServerInfo> {
    return {
      engine: 'tinker',
      model: this.#options.base,
      vocabulary: 0,
      contextTokens: this.#options.contextTokens,
      version: this.#version,
      logprobs: 'raw',
      can: new Set(['lora', 'scorePrompt', 'seeds']),
    };
  }

  ready(signal?: AbortSignal): Promise<boolean> {
    return this.#client.answers(signal);
  }

  async generate(request: GenerateRequest): Promise<GenerateResult> {
    const { signal } = request;
    const params = samplingOf(request);
    try {
      await this.#door.enter(signal);
    } catch {
      return partial(request); // aborted before the door
    }
    const cut = this.#cut.signal;
    const stop = signal ? AbortSignal.any([signal, cut]) : cut;
    try {
      return await this.#generate(request, params, stop);
    } catch (error) {
      if (stop.aborted) return partial(request); // the protocol gives no part of a reply
      if (!(error instanceof TrainerError)) throw error;
      throw new EngineError(error.message, { cause: error });
    } finally {
      this.#door.leave();
    }
  }

  async #generate(
    request: GenerateRequest,
    params: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<GenerateResult> {
    for (let tries = 1; ; tries++) {
      signal.throwIfAborted();
      const source = this.#sampling();
      try {
        const body = {
          prompt: { chunks: [{ type: 'encoded_text', tokens: Array.from(request.prompt) }] },
          num_samples: 1,
          sampling_params: params,
          sampling_session_id: await source.sampler,
          seq_id: ++this.#requests,
          prompt_logprobs: request.scorePrompt ?? false,
          type: 'sample',
        };
        const answer = await this.#client.future<Sampled>('asample', body, { signal });
        return this.#result(request, answer, source.version);
      } catch (error) {
        if (!(error instanceof StateLost)) throw error;
        if (tries >= MOST_TRIES) throw new EngineError(error.message, { cause: error });
        await this.#find(source, error);
      }
    }
  }

  #result(
    request: GenerateRequest,
    { sequences, prompt_logprobs }: Sampled,
    version: number,
  ): GenerateResult {
    const [sequence] = sequences ?? [];
    const { tokens = [], logprobs, stop_reason: finish } = sequence ?? {};
    if (!logprobs || logprobs.length !== tokens.length || (finish !== 'stop' && finish !== 'length')) {
      throw new EngineError(
        `${this.#client.url}: the reply to ${request.id} has ${tokens.length} tokens, ${logprobs?.length ?? 0} log-probs and ended with ${finish}`,
      );
    }
    const ids = Int32Array.from(tokens);
    const values = Float32Array.from(logprobs);
    this.#options.spending.add('promptTokens', request.prompt.length);
    this.#options.spending.add('sampledTokens', ids.length);
    request.onTokens?.(ids, values);
    return {
      ids,
      logprobs: values,
      finish,
      versions: [{ from: 0, version }],
      promptTokens: request.prompt.length,
      ...(request.scorePrompt ? { promptLogprobs: this.#scored(request, prompt_logprobs) } : {}),
    };
  }

  /** Some servers begin with a null for the first token, which nothing predicts, and some leave it out. */
  #scored({ id, prompt }: GenerateRequest, given: Sampled['prompt_logprobs']): Float32Array {
    const missing = prompt.length - (given?.length ?? 0);
    if (!given || missing < 0 || missing > 1)
      throw new EngineError(
        `${this.#client.url}: the reply to ${id} scores ${given?.length ?? 0} tokens of a prompt of ${prompt.length}`,
      );
    return Float32Array.from(prompt, (_, at) =>
      at === 0 ? Number.NaN : (given[at - missing] ?? Number.NaN),
    );
  }

  /** `abort` throws away what was begun: the protocol has no call that ends a request early. */
  async pause(mode: 'abort' | 'wait' | 'keep'): Promise<void> {
    if (mode === 'keep') throw new EngineError('a Tinker server cannot freeze requests; use wait or abort');
    this.#door.shut();
    if (mode === 'abort') {
      this.#cut.abort();
      this.#cut = new AbortController();
    }
    await this.#door.empty();
  }

  async resume(): Promise<void> {
    this.#door.open();
  }

  async update(weights: WeightUpdate): Promise<void> {
    if (weights.kind !== 'lora')
      throw new EngineError(
        `a Tinker server takes weights that a Tinker trainer saved (lora), not ${weights.kind}`,
      );
    const source = this.#open(weights.version, weights.path);
    await source.sampler;
    this.#source = source;
    this.#path = weights.path;
    this.#version = weights.version;
  }

  async close(): Promise<void> {
    this.#cut.abort();
  }

  #sampling(): Source {
    this.#source ??= this.#open(this.#version, this.#path);
    return this.#source;
  }

  #open(version: number, path: string | undefined): Source {
    const source = { version, path, sampler: this.#openSampler(path) };
    source.sampler.catch(() => {
      if (this.#source === source) this.#source = undefined; // the next request tries again
    });
    return source;
  }

  async #openSampler(path: string | undefined): Promise<string> {
    const { session, base } = this.#options;
    const body = {
      session_id: await session.id(),
      sampling_session_seq_id: session.next(),
      ...(path === undefined ? { base_model: base } : { model_path: path }),
      type: 'create_sampling_session',
    };
    const { sampling_session_id: id } = await this.#client.call<{ sampling_session_id: string }>(
      'create_sampling_session',
      body,
    );
    return id;
  }

  /** The server was started again: the first request that notices has the weights saved again, the others wait. */
  async #find(lost: Source, error: Error): Promise<void> {
    if (this.#source !== lost) return;
    const { session, republish } = this.#options;
    const finding = (async () => {
      if (lost.path === undefined) {
        session.forget();
        return this.#openSampler(undefined);
      }
      const path = await republish(lost.version);
      if (path === undefined) throw new EngineError(error.message, { cause: error });
      return this.#openSampler(path);
    })();
    const found = { version: lost.version, path: lost.path, sampler: finding };
    this.#source = found;
    finding.catch(() => {
      if (this.#source === found) this.#source = lost; // the next request tries again
    });
    await finding;
  }
}

const partial = ({ prompt }: GenerateRequest): GenerateResult => ({
  ids: new Int32Array(),
  logprobs: new Float32Array(),
  finish: 'abort',
  versions: [],
  promptTokens: prompt.length,
});

/** Refuses by name what the protocol has no word for. */
function samplingOf({ sampling, images = [] }: GenerateRequest): Readonly<Record<string, unknown>> {
  const unable = (what: string) =>
    new ConfigError(`sampling.${what}, which the Tinker protocol cannot carry`);
  const neutral: Partial<SamplingParams> = {
    minP: 0,
    repetitionPenalty: 1,
    presencePenalty: 0,
    frequencyPenalty: 0,
  };
  for (const [name, value] of Object.entries(neutral)) {
    const given = sampling[name as keyof SamplingParams];
    if (given !== value) throw unable(`${name} is ${given}`);
  }
  if (sampling.constraint) throw unable(`constraint is a ${sampling.constraint.kind}`);
  if (images.length > 0) throw new ConfigError('a request has images, which are not sent to Tinker servers');
  const { stopIds, stopStrings } = sampling;
  if (stopIds.length > 0 && stopStrings.length > 0)
    throw unable(`stopStrings are ${JSON.stringify(stopStrings)} beside stop ids`);
  return {
    max_tokens: sampling.maxTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    seed: sampling.seed & SEED_MASK,
    ...(stopIds.length > 0 ? { stop: stopIds } : {}),
    ...(stopStrings.length > 0 ? { stop: stopStrings } : {}),
  };
}
