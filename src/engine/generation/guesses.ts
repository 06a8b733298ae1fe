/**
 * Speculation without a second model: what followed the last few tokens where they stood before is guessed to follow
 * again, as in numbers and names that a reply copies from its prompt. A step computes the guesses beside the token that is
 * due; each is kept only if it is the token that sampling gives at its place, so a reply is the same to the bit.
 */

/** Tokens that a step computes for about the price of one: the weights are read once for all of them. */
export const ROWS_OF_GUESSES = 8;
/** A guess needs so many tokens that stood together before; the longer match is tried first. */
const MATCHES = [3, 2] as const;
/** Most tokens that are waited after guesses that were wrong. */
const LONGEST_PAUSE = 32;

export class Guesses {
  /** Of the step being made: so many of its tokens are guesses, and so many of these were right so far. */
  count = 0;
  right = 0;
  readonly ids = new Int32Array(ROWS_OF_GUESSES);
  #next = 0;
  #pause = 1;

  /** Guesses up to `most` tokens that follow the first `length` of `ids`; the number of guesses. */
  make(ids: Int32Array, length: number, most: number): number {
    this.count = this.right = 0;
    if (most <= 0 || length < this.#next) return 0;
    for (const match of MATCHES) {
      const from = followsAt(ids, length, match);
      if (from < 0) continue;
      while (this.count < most && from + this.count < length && ids[from + this.count]! >= 0) {
        this.ids[this.count] = ids[from + this.count]!;
        this.count++;
      }
      break;
    }
    return this.count;
  }

  /** After the step: wrong guesses are paused for, ever longer, until one is right. */
  settle(length: number): void {
    if (this.count === 0) return;
    this.#pause = this.right > 0 ? 1 : Math.min(LONGEST_PAUSE, 2 * this.#pause);
    this.#next = length + (this.right > 0 ? 0 : this.#pause);
    this.count = this.right = 0;
  }
}

/** Where the last earlier place of the last `match` ids ends, or -1. */
function followsAt(ids: Int32Array, length: number, match: number): number {
  const last = ids[length - 1]!;
  for (let at = length - 2; at >= match - 1; at--) {
    if (ids[at] !== last) continue;
    let same = 1;
    while (same < match && ids[at - same] === ids[length - 1 - same]) same++;
    if (same === match) return at + 1;
  }
  return -1;
}
