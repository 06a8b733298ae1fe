/** What both adapters check of a reply before anyone trusts it. */
import { EngineError } from '../errors.ts';
import type { GenerateRequest, GenerateResult, VersionSpan } from './server.ts';

export interface ReplyParts {
  readonly ids: readonly number[];
  readonly logprobs: readonly (number | null)[];
  readonly finish: string | null | undefined;
  readonly versions: readonly VersionSpan[];
  readonly promptTokens: number;
  readonly cachedTokens?: number | undefined;
  readonly promptLogprobs?: Float32Array | undefined;
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
  if (!Array.isArray(ids) || ids.some((token) => !Number.isInteger(token) || token < 0)) {
    return refuse('has no list of token ids');
  }
  if (!Array.isArray(logprobs) || logprobs.length !== ids.length) {
    return refuse(`has ${ids.length} tokens and ${logprobs?.length ?? 0} log-probs; they must be as many`);
  }
  const bad = logprobs.findIndex((value) => typeof value !== 'number' || !(value <= 1e-3));
  if (bad >= 0) return refuse(`has log-prob ${logprobs[bad]} at token ${bad}`);
  return {
    ids: Int32Array.from(ids),
    logprobs: Float32Array.from(logprobs as readonly number[]),
    finish,
    versions: ids.length > 0 ? versions : [],
    promptTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(promptLogprobs ? { promptLogprobs } : {}),
  };
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
