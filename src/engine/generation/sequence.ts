import type { SamplingParams, VersionSpan } from '../../inference/server.ts';
import { hashSeed } from '../../lib/random.ts';
import type { Sight } from './expand-prompt.ts';
import { Guesses } from './guesses.ts';
import type { CachePath } from './prefix-cache.ts';
import type { PlainRequest } from './request.ts';
import type { StopStrings } from './stop-strings.ts';

/** A request as the engine runs it: its prompt and, behind it, what has been sampled so far. */
export interface RunningSequence {
  /** Names the request between threads. */
  readonly key: number;
  /** Order of arrival, kept through preemption. */
  readonly order: number;
  readonly priority: number;
  /** Which weights answer: '' is the model itself, else an adapter's name. */
  readonly adapter: string;
  readonly sampling: SamplingParams;
  readonly stopIds: ReadonlySet<number>;
  readonly stopStrings: StopStrings | undefined;
  readonly promptTokens: number;
  /** Images of the prompt, which is expanded then: ids below zero are theirs. */
  readonly sight: Sight | undefined;
  /** Tokens the prompt and reply may have together. */
  readonly limit: number;
  /** Hash of the request's seed; with a token's number it gives that token's random number. */
  readonly seed: number;
  /** For penalties: how often an id occurs in the reply; 0 for ids of the prompt alone. */
  readonly occurrences: Map<number, number> | undefined;
  readonly streams: boolean;
  /** Prompt and reply; `length` of it are valid. */
  ids: Int32Array;
  length: number;
  /** Log-probs of the reply's tokens. */
  logprobs: Float32Array;
  /** Asked prompt log-probs, filled up to `scored` tokens. */
  readonly promptLogprobs: Float32Array | undefined;
  scored: number;
  versions: VersionSpan[];
  /** Prompt tokens that were cached when the request first ran; -1 before that. */
  cachedTokens: number;
  /** Its K/V while it runs. */
  path: CachePath | undefined;
  /** Tokens of this sequence in the step being made, guesses among them. */
  scheduled: number;
  readonly guesses: Guesses;
}

export function createSequence(
  key: number,
  order: number,
  request: PlainRequest & { readonly adapter: string },
  stopStrings: StopStrings | undefined,
  contextTokens: number,
  sight?: Sight,
): RunningSequence {
  const { prompt, sampling } = request;
  const limit = Math.min(contextTokens, prompt.length + sampling.maxTokens);
  const capacity = Math.min(limit, prompt.length + 256);
  const promptLogprobs = request.scorePrompt ? new Float32Array(prompt.length).fill(Number.NaN) : undefined;
  return {
    key,
    order,
    priority: request.priority ?? 0,
    adapter: request.adapter,
    sampling,
    stopIds: new Set(sampling.stopIds),
    stopStrings,
    promptTokens: prompt.length,
    sight,
    limit,
    seed: hashSeed(sampling.seed),
    occurrences: countOccurrences(prompt, sampling),
    streams: request.streams,
    ids: widened(prompt, new Int32Array(capacity)),
    length: prompt.length,
    logprobs: new Float32Array(capacity - prompt.length),
    promptLogprobs,
    scored: 1,
    versions: [],
    cachedTokens: -1,
    path: undefined,
    scheduled: 0,
    guesses: new Guesses(),
  };
}

function countOccurrences(prompt: Int32Array, sampling: SamplingParams): Map<number, number> | undefined {
  const { repetitionPenalty, presencePenalty, frequencyPenalty } = sampling;
  // Presence and frequency count the reply alone; repetition the prompt too.
  if (repetitionPenalty !== 1)
    return new Map(
      Array.from(
        prompt.filter((id) => id >= 0),
        (id) => [id, 0],
      ),
    );
  return presencePenalty !== 0 || frequencyPenalty !== 0 ? new Map() : undefined;
}

/** Tokens whose K/V must be written before the next token can be sampled. */
export function pendingTokens(sequence: RunningSequence): number {
  return sequence.length - (sequence.path?.length ?? 0);
}

export function replyTokens(sequence: RunningSequence): number {
  return sequence.length - sequence.promptTokens;
}

export function appendToken(sequence: RunningSequence, id: number, logprob: number): void {
  if (sequence.length === sequence.ids.length) {
    const capacity = Math.min(sequence.limit, Math.max(64, sequence.length * 2));
    sequence.ids = widened(sequence.ids, new Int32Array(capacity));
    sequence.logprobs = widened(sequence.logprobs, new Float32Array(capacity - sequence.promptTokens));
  }
  sequence.occurrences?.set(id, (sequence.occurrences.get(id) ?? 0) + 1);
  sequence.logprobs[replyTokens(sequence)] = logprob;
  sequence.ids[sequence.length++] = id;
}

function widened<T extends Int32Array | Float32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
