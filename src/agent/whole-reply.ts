/**
 * A reply whose server gives it up on its own (it was paused for new weights, or preempted) is not lost: what was
 * sampled is kept, and the rest is asked for with it as part of the prompt.
 */
import { EngineError } from '../errors.ts';
import type { GenerateRequest, GenerateResult, InferenceServer } from '../inference/server.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { hashSeed } from '../lib/random.ts';

/** Requests in a row that may come back without a single new token. */
const FRUITLESS_TRIES = 5;
const FIRST_WAIT_MS = 100;

/** Resolves with `finish: 'abort'` only if the request's own signal has aborted. */
export async function generateWhole(
  server: Pick<InferenceServer, 'generate'>,
  request: GenerateRequest & { readonly signal: AbortSignal },
  clock: Clock,
): Promise<GenerateResult> {
  const { signal, sampling } = request;
  let made = await server.generate(request);
  let fruitless = 0;
  for (let part = 1; made.finish === 'abort' && !signal.aborted; part++) {
    const left = sampling.maxTokens - made.ids.length;
    const last = made.ids.at(-1);
    if (last !== undefined && sampling.stopIds.includes(last)) return { ...made, finish: 'stop' };
    if (left < 1) return { ...made, finish: 'length' };
    try {
      if (fruitless > 0) await sleep(clock, FIRST_WAIT_MS * 2 ** (fruitless - 1), signal);
      const rest = await server.generate({
        ...request,
        id: `${request.id.replace(/\/$/, '')}.${part}/`, // no id may begin with another
        prompt: joinedIds(request.prompt, made.ids),
        sampling: { ...sampling, maxTokens: left, seed: hashSeed(sampling.seed, part) },
      });
      fruitless = rest.ids.length === 0 ? fruitless + 1 : 0;
      made = joined(made, rest);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    if (fruitless >= FRUITLESS_TRIES) {
      throw new EngineError(
        `the server gave up request ${request.id} after ${made.ids.length} tokens, and ${fruitless} more times without a token`,
      );
    }
  }
  return made;
}

function joined(made: GenerateResult, rest: GenerateResult): GenerateResult {
  const { length } = made.ids;
  const logprobs = new Float32Array(length + rest.logprobs.length);
  logprobs.set(made.logprobs);
  logprobs.set(rest.logprobs, length);
  return {
    ...made,
    ids: joinedIds(made.ids, rest.ids),
    logprobs,
    finish: rest.finish,
    versions: [
      ...made.versions,
      ...rest.versions.map(({ from, version }) => ({ from: from + length, version })),
    ],
  };
}

function joinedIds(first: Int32Array, second: Int32Array): Int32Array {
  const ids = new Int32Array(first.length + second.length);
  ids.set(first);
  ids.set(second, first.length);
  return ids;
}
