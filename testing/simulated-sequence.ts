import type { GenerateRequest, GenerateResult, VersionSpan } from '../src/inference/server.ts';
import { createRandom } from '../src/lib/random.ts';
import { BlockNames, type SimulatedBlock } from './simulated-memory.ts';

/** A request in a simulated engine. */
export interface SimulatedSequence {
  readonly request: GenerateRequest;
  /** Position in line: higher priority first, then earlier arrival. */
  readonly priority: number;
  readonly arrival: number;
  /** All tokens it will sample if nothing stops it. */
  readonly reply: Int32Array;
  readonly finish: 'stop' | 'length';
  readonly blocks: BlockNames;
  /** Tokens of the reply that `blocks` has seen. */
  named: number;
  sampled: number;
  /** Tokens of prompt and reply whose K/V are in memory. */
  computed: number;
  /** The blocks that hold the first of these. */
  held: SimulatedBlock[];
  /** Tokens of memory beside its blocks. */
  own: number;
  cachedTokens: number;
  cancelled: boolean;
  readonly versions: VersionSpan[];
  readonly settle: (result: GenerateResult) => void;
}

export function createSequence(
  request: GenerateRequest,
  replyTokens: number,
  place: { readonly arrival: number; readonly blockTokens: number; readonly vocabulary: number },
  settle: SimulatedSequence['settle'],
): SimulatedSequence {
  const length = Math.max(1, Math.min(Math.round(replyTokens), request.sampling.maxTokens));
  const blocks = new BlockNames(place.blockTokens);
  blocks.push(request.prompt);
  return {
    request,
    priority: request.priority ?? 0,
    arrival: place.arrival,
    reply: tokensBySeed(request.sampling.seed, length, place.vocabulary),
    finish: replyTokens > request.sampling.maxTokens ? 'length' : 'stop',
    blocks,
    named: 0,
    sampled: 0,
    computed: 0,
    held: [],
    own: 0,
    cachedTokens: 0,
    cancelled: false,
    versions: [],
    settle,
  };
}

/** Prompt and what has been sampled. */
export const contextOf = ({ request, sampled }: SimulatedSequence) => request.prompt.length + sampled;

/** What is left to compute before the next token can be sampled. */
export const pendingOf = (sequence: SimulatedSequence) => contextOf(sequence) - sequence.computed;

export const isAhead = (a: SimulatedSequence, b: SimulatedSequence) =>
  a.priority > b.priority || (a.priority === b.priority && a.arrival < b.arrival);

/** Names the blocks of what has been sampled since last time. */
export function nameBlocks(sequence: SimulatedSequence): void {
  sequence.blocks.push(sequence.reply.subarray(sequence.named, sequence.sampled));
  sequence.named = sequence.sampled;
}

export function resultOf(
  { request, reply, sampled, finish, versions, cachedTokens }: SimulatedSequence,
  aborted: boolean,
): GenerateResult {
  return {
    ids: reply.slice(0, sampled),
    logprobs: new Float32Array(sampled).fill(-1),
    finish: aborted ? 'abort' : finish,
    versions: [...versions],
    promptTokens: request.prompt.length,
    cachedTokens,
  };
}

/** Random tokens, the same for the same seed. */
export function tokensBySeed(seed: number, length: number, vocabulary: number): Int32Array {
  const random = createRandom(seed);
  const ids = new Int32Array(length);
  for (let at = 0; at < length; at++) ids[at] = random.integer(vocabulary);
  return ids;
}
