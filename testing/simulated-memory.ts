/**
 * The K/V memory of a simulated engine, counted in tokens. A block is a full run of tokens named by a hash of
 * itself and all before it, so equal prefixes are the same blocks. A block that no request holds stays until its
 * place is needed, the least recently used first and the end of a sequence before its beginning.
 */
export class SimulatedMemory {
  readonly capacity: number;
  readonly blockTokens: number;
  evictions = 0;
  /** Tokens of blocks that requests hold, each block once, and of what is not yet a block. */
  #held = 0;
  readonly #blocks = new Map<number, number>();
  /** Blocks nobody holds, in the order in which they go. */
  readonly #idle = new Set<number>();

  constructor(capacity: number, blockTokens: number) {
    this.capacity = capacity;
    this.blockTokens = blockTokens;
  }

  get held(): number {
    return this.#held;
  }

  /** Tokens that can be had, by forgetting what nobody holds. */
  get available(): number {
    return this.capacity - this.#held;
  }

  /** How many of a sequence's first blocks are there. */
  match(keys: readonly number[]): number {
    let count = 0;
    while (count < keys.length && this.#blocks.has(keys[count]!)) count++;
    return count;
  }

  /** Tokens among the first `count` blocks that holding them would take from what is available. */
  idleTokens(keys: readonly number[], count: number): number {
    let tokens = 0;
    for (let at = 0; at < count; at++) if (this.#idle.has(keys[at]!)) tokens += this.blockTokens;
    return tokens;
  }

  /** Holds the first `count` blocks, which are there. */
  hold(keys: readonly number[], count: number): void {
    for (let at = 0; at < count; at++) this.#holdOne(keys[at]!);
  }

  /** Tokens of one request's own; the caller has seen that they are available. */
  take(tokens: number): void {
    this.#held += tokens;
    this.#forgetDownTo(this.capacity - this.#held);
  }

  give(tokens: number): void {
    this.#held -= tokens;
  }

  /** Own tokens become blocks `from` to `to` of the sequence, held; one that is there already is not kept twice. */
  turnIntoBlocks(keys: readonly number[], from: number, to: number): void {
    for (let at = from; at < to; at++) {
      const key = keys[at]!;
      this.#held -= this.blockTokens;
      if (!this.#blocks.has(key)) this.#blocks.set(key, 0);
      this.#holdOne(key);
    }
  }

  /** Lets go of the first `count` blocks, the last first. */
  release(keys: readonly number[], count: number): void {
    for (let at = count - 1; at >= 0; at--) {
      const key = keys[at]!;
      const holders = this.#blocks.get(key)! - 1;
      this.#blocks.set(key, holders);
      if (holders > 0) continue;
      this.#held -= this.blockTokens;
      this.#idle.add(key);
    }
  }

  /** Forgets every block that nobody holds. */
  flush(): void {
    for (const key of this.#idle) this.#blocks.delete(key);
    this.#idle.clear();
  }

  #holdOne(key: number): void {
    const holders = this.#blocks.get(key)!;
    if (holders === 0) {
      this.#idle.delete(key);
      this.#held += this.blockTokens;
      this.#forgetDownTo(this.capacity - this.#held);
    }
    this.#blocks.set(key, holders + 1);
  }

  #forgetDownTo(room: number): void {
    while (this.#idle.size * this.blockTokens > room) {
      const oldest = this.#idle.values().next().value;
      if (oldest === undefined) return;
      this.#idle.delete(oldest);
      this.#blocks.delete(oldest);
      this.evictions++;
    }
  }
}

/** Names the blocks of a growing sequence; two different prefixes share a name about once in 2^53. */
export class BlockNames {
  readonly names: number[] = [];
  readonly #blockTokens: number;
  #low = 0x811c9dc5;
  #high = 0x9e3779b9;
  #count = 0;

  constructor(blockTokens: number) {
    this.#blockTokens = blockTokens;
  }

  push(ids: Int32Array): void {
    let [low, high, count] = [this.#low, this.#high, this.#count];
    for (let at = 0; at < ids.length; at++) {
      const id = ids[at]!;
      low = Math.imul(low ^ id, 0x01000193);
      high = (Math.imul((high << 13) | (high >>> 19), 5) + (id ^ low)) | 0;
      count++;
      if (count % this.#blockTokens !== 0) continue;
      const mixed = Math.imul(low ^ (low >>> 15), 0x85ebca6b) >>> 0;
      this.names.push(mixed * 2 ** 21 + (Math.imul(high ^ (high >>> 13), 0xc2b2ae35) >>> 11));
    }
    [this.#low, this.#high, this.#count] = [low, high, count];
  }
}
