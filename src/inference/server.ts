import type { ImageRef } from '../types.ts';

/** Everything explicit: no default of a server may leak in. */
export interface SamplingParams {
  readonly temperature: number;
  readonly topP: number;
  /** -1 is off. */
  readonly topK: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly maxTokens: number;
  readonly stopIds: readonly number[];
  readonly stopStrings: readonly string[];
  readonly seed: number;
  readonly constraint?:
    | { readonly kind: 'jsonSchema'; readonly schema: Readonly<Record<string, unknown>> }
    | { readonly kind: 'regex' | 'grammar'; readonly source: string };
}

/** `version` sampled the tokens of a reply from `from` on. */
export interface VersionSpan {
  readonly from: number;
  readonly version: number;
}

/** Which part of a run a request belongs to, for the scheduler. It is not sent to servers. */
export interface RequestPlace {
  readonly step: number;
  readonly task: number;
  readonly attempt: number;
  /** Counts from 1 over the whole trajectory. */
  readonly turn: number;
}

/** A request for tokens: the prompt's ids and how to sample. */
export interface GenerateRequest {
  /** Id of the request: unique in flight, never a prefix of another id. */
  readonly id: string;
  /** Id of the trajectory, for routing to the same server and for its cache. */
  readonly trajectory: string;
  /** Ids of the prompt, not expanded: one placeholder id per image. */
  readonly prompt: Int32Array;
  readonly images?: readonly ImageRef[];
  /** Where the placeholders stand in `prompt`; a reply may have written the same id without an image. */
  readonly imagePlaces?: readonly number[];
  readonly sampling: SamplingParams;
  /** Name of the adapter that answers; null is the model itself. Without it: what was sent last, adapter or weights. */
  readonly adapter?: string | null;
  readonly priority?: number;
  readonly place?: RequestPlace;
  readonly scorePrompt?: boolean;
  readonly signal?: AbortSignal;
  /** Called with tokens as they are sampled, for streaming. */
  onTokens?(ids: Int32Array, logprobs: Float32Array): void;
}

/** Sampled ids with their log-probs, and the version of the weights behind each. */
export interface GenerateResult {
  /** The ids as sampled, including the stop token. */
  readonly ids: Int32Array;
  /** Log-prob of each sampled token, after temperature, before truncation (top-p, top-k, min-p). */
  readonly logprobs: Float32Array;
  /** `abort`: `ids` is a usable partial. */
  readonly finish: 'stop' | 'length' | 'abort';
  readonly versions: readonly VersionSpan[];
  readonly promptTokens: number;
  readonly cachedTokens?: number;
  /** Which server answered; set by a gateway. */
  readonly server?: string;
  /** Time in the gateway's queue before it was sent to that server. */
  readonly waitedMs?: number;
  /** NaN for the first token, which nothing predicts. */
  readonly promptLogprobs?: Float32Array;
}

/** A tensor in the trainer's precision: float32, or bfloat16 as its bits. */
export interface WeightTensor {
  readonly shape: readonly number[];
  readonly data: Float32Array | Uint16Array;
}

/** New weights on their way to a server. */
export type WeightUpdate =
  | {
      readonly kind: 'memory';
      readonly version: number;
      /** By Hugging Face name; the data is in SharedArrayBuffers where the server is another thread. */
      readonly tensors: ReadonlyMap<string, WeightTensor>;
    }
  | { readonly kind: 'disk'; readonly version: number; readonly path: string }
  | { readonly kind: 'lora'; readonly version: number; readonly name: string; readonly path: string }
  | { readonly kind: 'collective'; readonly version: number; readonly group: string }
  /** The trainer has moved the weights to its own servers, which note the version; a server that does not have them refuses. */
  | { readonly kind: 'pushed'; readonly version: number };

/** What a server says about itself: its model, its limits, what it can. */
export interface ServerInfo {
  /** Name of the engine, as the server states it. */
  readonly engine: string;
  /** The server's own version, such as `0.32.0`, where it says. */
  readonly release?: string;
  /** Name of the arithmetic behind the log-probs; a trainer of the same arithmetic must agree to 1e-4. */
  readonly arithmetic?: string;
  readonly model: string;
  readonly vocabulary: number;
  readonly contextTokens: number;
  readonly version: number;
  /** Which distribution the reported log-probs are of. */
  readonly logprobs: 'temperature' | 'processed' | 'raw';
  /** Whether they are also after the repetition, presence and frequency penalties, which the trainer's are not. */
  readonly logprobsAfterPenalties?: boolean;
  readonly can: ReadonlySet<ServerAbility>;
}

/** What a server may be able to do beyond sampling; the kinds of weight update that it takes are among them. */
export type ServerAbility =
  | WeightUpdate['kind']
  | 'images'
  | 'scorePrompt'
  /** Replies can be held to a JSON schema. */
  | 'constraint'
  | 'pauseKeep'
  | 'sleep'
  /** Replies say which tokens were sampled with which version. */
  | 'versionSpans'
  /** The same request with the same seed gets the same reply. */
  | 'seeds';

/** The load of a server, as it reports it. */
export interface ServerLoad {
  readonly running: number;
  /** Requests that wait in the server itself. */
  readonly queued: number;
  /** Share of the K/V memory that running requests hold, 0 to 1. */
  readonly kvUse: number;
  /** Tokens that the K/V memory holds, where the server says. */
  readonly kvTokens?: number;
  /** Since the server started: requests that lost their K/V memory to others, where it says. */
  readonly preemptions?: number;
  /** Share of prompt tokens that were found in the cache, where it says. */
  readonly cacheHits?: number;
}

/** An engine that makes tokens: ids in, ids out; no text, no messages, no templates. */
export interface InferenceServer {
  info(): Promise<ServerInfo>;
  /** Whether the server answers; cheap, never generates. */
  ready(signal?: AbortSignal): Promise<boolean>;
  /** The server's load; cheap; undefined where the server does not report it. */
  load?(signal?: AbortSignal): Promise<ServerLoad | undefined>;
  generate(request: GenerateRequest): Promise<GenerateResult>;
  /** `abort` returns partials, `wait` lets running requests finish, `keep` freezes them in place. */
  pause(mode: 'abort' | 'wait' | 'keep'): Promise<void>;
  resume(): Promise<void>;
  /**
   * After this, every new token is of `weights.version`; cached prefixes of older versions are gone. Of an adapter:
   * every token of new requests, while those in progress keep the one they began with.
   */
  update(weights: WeightUpdate): Promise<void>;
  /** A trajectory will send no more requests: what is kept for it need not be. */
  ended?(trajectory: string): void;
  /** Checksum of the server's weights, in any form; undefined where this server offers none. */
  checksum?(): Promise<string | undefined>;
  sleep?(): Promise<void>;
  wake?(): Promise<void>;
  close(): Promise<void>;
}
