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
  readonly #blocks = new Map<number, SimulatedBlock>();
  /** A ring of the blocks that no request holds, in the order in which they are dropped. */
  readonly #idle = new SimulatedBlock(-1);
  #idleCount = 0;

  constructor(capacity: number, blockTokens: number) {
    this.capacity = capacity;
    this.blockTokens = blockTokens;
  }

  get held(): number {
    return this.#held;
  }

  /** Tokens that are free, or become free by dropping blocks that no request holds. */
  get available(): number {
    return this.capacity - this.#held;
  }

  /** Those of a sequence's first blocks that are there, up to the first that is not. */
  match(names: readonly number[], most: number): SimulatedBlock[] {
    const found: SimulatedBlock[] = [];
    while (found.length < most) {
      const block = this.#blocks.get(names[found.length]!);
      if (!block) break;
      found.push(block);
    }
    return found;
  }

  /** What holding these blocks would take from the tokens that are available. */
  idleTokens(blocks: readonly SimulatedBlock[]): number {
    let tokens = 0;
    for (const { holders } of blocks) if (holders === 0) tokens += this.blockTokens;
    return tokens;
  }

  hold(blocks: readonly SimulatedBlock[]): void {
    for (const block of blocks) this.#holdOne(block);
  }

  /** Tokens of one request's own; the caller has seen that they are available. */
  take(tokens: number): void {
    this.#held += tokens;
    this.#forgetOldest();
  }

  give(tokens: number): void {
    this.#held -= tokens;
  }

  /** Own tokens become the block of that name, held; one that is there already is not kept twice. */
  turnIntoBlock(name: number): SimulatedBlock {
    this.#held -= this.blockTokens;
    const block = this.#blocks.get(name) ?? new SimulatedBlock(name);
    this.#blocks.set(name, block);
    this.#holdOne(block);
    return block;
  }

  /** Lets go of a sequence's blocks, the last first. */
  release(blocks: readonly SimulatedBlock[]): void {
    for (let at = blocks.length - 1; at >= 0; at--) {
      const block = blocks[at]!;
      if (--block.holders > 0) continue;
      this.#held -= this.blockTokens;
      this.#idleCount++;
      block.insertBefore(this.#idle);
    }
  }

  /** Drops every block that no request holds. */
  flush(): void {
    while (this.#idleCount > 0) this.#forget(this.#idle.next);
  }

  #holdOne(block: SimulatedBlock): void {
    if (block.holders++ > 0) return;
    if (block.next !== block) {
      block.remove();
      this.#idleCount--;
    }
    this.#held += this.blockTokens;
    this.#forgetOldest();
  }

  #forgetOldest(): void {
    while (this.#idleCount > 0 && this.#idleCount * this.blockTokens > this.available) {
      this.#forget(this.#idle.next);
      this.evictions++;
    }
  }

  #forget(block: SimulatedBlock): void {
    block.remove();
    this.#idleCount--;
    this.#blocks.delete(block.name);
  }
}

/** A block; alone in its ring while it is held. */
export class SimulatedBlock {
  readonly name: number;
  holders = 0;
  next: SimulatedBlock = this;
  previous: SimulatedBlock = this;

  constructor(name: number) {
    this.name = name;
  }

  insertBefore(other: SimulatedBlock): void {
    this.previous = other.previous;
    this.next = other;
    other.previous.next = this;
    other.previous = this;
  }

  remove(): void {
    this.previous.next = this.next;
    this.next.previous = this.previous;
    this.next = this;
    this.previous = this;
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
