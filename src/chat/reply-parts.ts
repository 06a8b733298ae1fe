import type { CallPart, ReplyDelta, ReplyStream } from './format.ts';

/** A piece of a reply on its way. Put together, the pieces of a reply are what the whole reply says. */
export interface ReplyPart {
  /** Number of the turn in its trajectory, from 1. */
  readonly turn: number;
  readonly content: string;
  readonly reasoning: string;
  readonly toolCalls: readonly CallPart[];
  /** The ids behind it, and those that have said nothing yet. */
  readonly ids: Int32Array;
  readonly logprobs: Float32Array;
}

/** Tokens of one reply in, pieces out, as they come. */
export class ReplyParts {
  readonly #stream: ReplyStream;
  readonly #onPart: (part: ReplyPart) => void;
  #tokens = 0;

  constructor(stream: ReplyStream, onPart: (part: ReplyPart) => void) {
    this.#stream = stream;
    this.#onPart = onPart;
  }

  push(turn: number, ids: Int32Array, logprobs: Float32Array): void {
    this.#tokens += ids.length;
    this.#tell(this.#stream.push(ids), { turn, ids, logprobs });
  }

  /** The whole reply is there; what its engine did not stream is told now. */
  end({ turn, ids, logprobs }: Pick<ReplyPart, 'turn' | 'ids' | 'logprobs'>): void {
    if (ids.length > this.#tokens) {
      this.push(turn, ids.subarray(this.#tokens), logprobs.subarray(this.#tokens));
    }
    this.#tell(this.#stream.end(), { turn, ids: new Int32Array(), logprobs: new Float32Array() });
  }

  #tell(delta: ReplyDelta, made: Pick<ReplyPart, 'turn' | 'ids' | 'logprobs'>): void {
    const { content, reasoning, callParts } = delta;
    if (content === '' && reasoning === '' && callParts.length === 0 && made.ids.length === 0) return;
    this.#onPart({ ...made, content, reasoning, toolCalls: callParts });
  }
}
