import { EngineError } from '../src/errors.ts';
import type {
  GenerateRequest,
  GenerateResult,
  InferenceServer,
  ServerInfo,
  WeightUpdate,
} from '../src/inference/server.ts';
import { type Clock, realClock } from '../src/lib/clock.ts';
import { createRandom, hashSeed } from '../src/lib/random.ts';

/** What a script knows of the request it answers. */
export interface ScriptedRequest {
  readonly request: GenerateRequest;
  /** The prompt, decoded with its special tokens. */
  readonly text: string;
  /** How many requests of this trajectory came before. */
  readonly turn: number;
  /** Random by the request's seed, so that a script's choices do not depend on arrival. */
  readonly random: ReturnType<typeof createRandom>;
}

/** Text is encoded with its special tokens; a stop token is added unless `finish` is `length`. */
export type ScriptedReply =
  | string
  | { readonly text: string; readonly finish?: 'stop' | 'length' }
  | { readonly ids: readonly number[]; readonly finish?: 'stop' | 'length' };

/** What a scripted engine answers, and how long it takes. */
export interface ScriptedEngineOptions {
  /** Answers a request; throwing fails it, as a server that is gone would. */
  readonly reply: (request: ScriptedRequest) => ScriptedReply | Promise<ScriptedReply>;
  readonly tokenizer: { encode(text: string): Int32Array; decode(ids: Int32Array): string };
  readonly vocabulary?: number;
  readonly contextTokens?: number;
  /** Whether it says that it reads images; a script need not look at them. */
  readonly images?: boolean;
  readonly clock?: Clock;
  /** Before the first token. */
  readonly firstTokenMs?: number | ((request: ScriptedRequest) => number);
  readonly tokenMs?: number;
}

const CAN: ServerInfo['can'] = new Set(['memory', 'disk']);

/** An engine that plays given replies: ids, log-probs, latencies and failures as a real one, no model behind it. */
export function scriptedEngine(options: ScriptedEngineOptions): InferenceServer & {
  /** Every request it was sent, in order of arrival. */
  readonly requests: readonly GenerateRequest[];
  readonly replies: readonly GenerateResult[];
  readonly inFlight: number;
} {
  const { tokenizer, clock = realClock(), firstTokenMs = 0, tokenMs = 0, contextTokens = 4096 } = options;
  const requests: GenerateRequest[] = [];
  const replies: GenerateResult[] = [];
  const turns = new Map<string, number>();
  let resumed: { readonly when: Promise<void>; resume(): void } | undefined;
  let version = 0;
  let inFlight = 0;

  async function answer(request: GenerateRequest): Promise<GenerateResult> {
    await resumed?.when;
    const turn = turns.get(request.trajectory) ?? 0;
    turns.set(request.trajectory, turn + 1);
    const random = createRandom(request.sampling.seed);
    const scripted: ScriptedRequest = {
      request,
      turn,
      random,
      get text() {
        return tokenizer.decode(request.prompt);
      },
    };
    const wait = typeof firstTokenMs === 'number' ? firstTokenMs : firstTokenMs(scripted);
    const began = clock.now();
    const { ids, finish } = cut(await options.reply(scripted), request, tokenizer);
    if (request.onTokens) return stream(request, ids, finish, wait);
    const total = wait + tokenMs * ids.length;
    if (total > 0) await untilAbort(clock, total, request.signal);
    if (!request.signal?.aborted) return result(request, ids, finish, version);
    const elapsed = clock.now() - began - wait;
    const made = tokenMs > 0 ? Math.max(0, Math.min(ids.length, Math.floor(elapsed / tokenMs))) : 0;
    return result(request, ids.slice(0, made), 'abort', version);
  }

  /** One token after the other, as an engine that streams makes them. */
  async function stream(
    request: GenerateRequest,
    ids: readonly number[],
    finish: 'stop' | 'length',
    wait: number,
  ): Promise<GenerateResult> {
    const whole = result(request, ids, finish, version);
    if (wait > 0) await untilAbort(clock, wait, request.signal);
    for (let made = 0; made < ids.length; made++) {
      if (tokenMs > 0) await untilAbort(clock, tokenMs, request.signal);
      if (request.signal?.aborted) return result(request, ids.slice(0, made), 'abort', version);
      request.onTokens?.(whole.ids.slice(made, made + 1), whole.logprobs.slice(made, made + 1));
    }
    return whole;
  }

  return {
    requests,
    replies,
    get inFlight() {
      return inFlight;
    },
    info: async (): Promise<ServerInfo> => ({
      engine: 'scripted',
      model: 'scripted',
      vocabulary: options.vocabulary ?? 0,
      contextTokens,
      version,
      logprobs: 'temperature',
      can: options.images ? new Set([...CAN, 'images']) : CAN,
    }),
    ready: async () => true,
    generate: async (request) => {
      requests.push(request);
      inFlight++;
      try {
        const reply = await answer(request);
        replies.push(reply);
        return reply;
      } finally {
        inFlight--;
      }
    },
    // Requests in progress continue: a script has no weights.
    pause: async () => {
      if (resumed) return;
      let resume = () => {};
      const when = new Promise<void>((resolve) => {
        resume = resolve;
      });
      resumed = { when, resume };
    },
    resume: async () => {
      resumed?.resume();
      resumed = undefined;
    },
    update: async (weights: WeightUpdate) => {
      if (!CAN.has(weights.kind))
        throw new EngineError(`the scripted engine does not take weights by ${weights.kind}`);
      version = weights.version;
    },
    close: async () => {},
  };
}

function cut(
  reply: ScriptedReply,
  { sampling }: GenerateRequest,
  tokenizer: ScriptedEngineOptions['tokenizer'],
) {
  const given = typeof reply === 'string' ? { text: reply } : reply;
  const ids = 'ids' in given ? [...given.ids] : Array.from(tokenizer.encode(given.text));
  const stop = sampling.stopIds[0];
  const ended = ids.length > 0 && sampling.stopIds.includes(ids.at(-1)!);
  if (given.finish !== 'length' && !ended && stop !== undefined && 'text' in given) ids.push(stop);
  const stopped = ids.findIndex((id) => sampling.stopIds.includes(id));
  if (stopped >= 0 && stopped < sampling.maxTokens)
    return { ids: ids.slice(0, stopped + 1), finish: given.finish ?? ('stop' as const) };
  return ids.length > sampling.maxTokens
    ? { ids: ids.slice(0, sampling.maxTokens), finish: 'length' as const }
    : { ids, finish: given.finish ?? ('stop' as const) };
}

/** Log-probs that are the same for the same request: a number in (-3, 0] by seed and position. */
function result(
  { prompt, sampling }: GenerateRequest,
  ids: readonly number[],
  finish: GenerateResult['finish'],
  version: number,
): GenerateResult {
  return {
    ids: Int32Array.from(ids),
    logprobs: Float32Array.from(ids, (id, at) => -3 * (hashSeed(sampling.seed, at, id) / 2 ** 32)),
    finish,
    versions: ids.length > 0 ? [{ from: 0, version }] : [],
    promptTokens: prompt.length,
  };
}

/** Resolves after the time, or as soon as the signal aborts. */
function untilAbort(clock: Clock, milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.timer(milliseconds, done);
    signal?.addEventListener('abort', done, { once: true });
  });
}
