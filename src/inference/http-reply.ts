/** What both adapters check of a reply before anyone trusts it. */
import { EngineError } from '../errors.ts';
import type { GenerateRequest, GenerateResult, VersionSpan } from './server.ts';

export interface ReplyParts {
  readonly ids: ArrayLike<number>;
  readonly logprobs: ArrayLike<number | null>;
  readonly finish: string | null | undefined;
  readonly versions: readonly VersionSpan[];
  readonly promptTokens: number;
  readonly cachedTokens?: number | undefined;
  readonly promptLogprobs?: Float32Array | undefined;
}

/** What a request was sent to. */
export interface Began {
  /** Version of the weights. */
  readonly before: number;
  readonly adapter: string | undefined;
}

/** Throws where the parts contradict one another: such tokens must not be trained. */
export function checkedReply(url: string, { id }: GenerateRequest, parts: ReplyParts): GenerateResult {
  const refuse = (what: string): never => {
    throw new EngineError(`${url}: the reply to ${id} ${what}`);
  };
  const { ids, logprobs, finish, versions, promptTokens, cachedTokens, promptLogprobs } = parts;
  if (finish !== 'stop' && finish !== 'length' && finish !== 'abort') {
    return refuse(`ended with ${JSON.stringify(finish)}; stop, length or abort is known`);
  }
  if (!isList(ids) || !areIds(ids)) return refuse('has no list of token ids');
  if (!isList(logprobs) || logprobs.length !== ids.length) {
    return refuse(`has ${ids.length} tokens and ${logprobs?.length ?? 0} log-probs; they must be as many`);
  }
  const bad = notLogprob(logprobs);
  if (bad >= 0) return refuse(`has log-prob ${logprobs[bad]} at token ${bad}`);
  return {
    ids: ids instanceof Int32Array ? ids : Int32Array.from(ids),
    logprobs: logprobs instanceof Float32Array ? logprobs : Float32Array.from(logprobs as ArrayLike<number>),
    finish,
    versions: ids.length > 0 ? versions : [],
    promptTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(promptLogprobs ? { promptLogprobs } : {}),
  };
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A list of such values, or nothing. */
export const isListOf = (value: unknown, isItem: (item: unknown) => boolean): boolean =>
  value === undefined || value === null || (Array.isArray(value) && value.every(isItem));

export const isSpan = (value: unknown): boolean =>
  isObject(value) && Number.isInteger(value.start) && /string|number/.test(typeof value.version);

const isList = (value: unknown) => Array.isArray(value) || ArrayBuffer.isView(value);

/** Plain loops, here and below: methods that take a function make an object of every number. */
function areIds(ids: ArrayLike<unknown>): boolean {
  for (let at = 0; at < ids.length; at++) {
    const id = ids[at];
    if (!Number.isInteger(id) || (id as number) < 0) return false;
  }
  return true;
}

/** Where one is that none can be; -1 if none is. */
function notLogprob(logprobs: ArrayLike<unknown>): number {
  for (let at = 0; at < logprobs.length; at++) {
    const value = logprobs[at];
    if (typeof value !== 'number' || !(value <= 1e-3)) return at;
  }
  return -1;
}

/** As SGLang (since 0.5.19) and vLLM (0.32) say it: which weights sampled which tokens. */
export interface ReportedSpan {
  /** A number as text once a run has sent weights; before that any word. */
  readonly version: string;
  readonly start: number;
  readonly end: number;
}

/** `unknown` is the version to use for text that is not a number. */
export function reportedSpans(spans: readonly ReportedSpan[], unknown: number): VersionSpan[] {
  return spans.map(({ start, version }) => ({ from: start, version: wholeNumber(version) ?? unknown }));
}

export function wholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}

/**
 * The versions of a reply that a server began with `before` and ended with `after`. How many tokens `before` made
 * is known only if they were streamed; otherwise all but the last count as its, which is the older and so the safer.
 */
export function spansOf(before: number, after: number, tokens: number, madeBefore?: number): VersionSpan[] {
  if (tokens === 0) return [];
  if (before === after) return [{ from: 0, version: after }];
  const from = Math.min(madeBefore ?? tokens - 1, tokens - 1);
  return from === 0
    ? [{ from: 0, version: after }]
    : [
        { from: 0, version: before },
        { from, version: after },
      ];
}

export function emptyPartial({ prompt }: GenerateRequest): GenerateResult {
  return {
    ids: new Int32Array(),
    logprobs: new Float32Array(),
    finish: 'abort',
    versions: [],
    promptTokens: prompt.length,
  };
}
