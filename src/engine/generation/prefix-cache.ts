/**
 * Which block of K/V storage holds which tokens: a radix tree whose nodes are blocks of ids. What one sequence
 * has computed, any later or concurrent sequence with the same first ids uses: full blocks are shared, and of a
 * block that is only partly the same the rows are copied. Blocks that no request holds stay until space is needed;
 * then the least recently used leaf goes first.
 *
 * A path is one sequence's way down the tree. Its last node may be partly filled, and only its owner appends to it;
 * a full node never changes again.
 */
interface Node {
  readonly ids: Int32Array;
  /** Tokens whose K/V are written. */
  length: number;
  readonly block: number;
  parent: Node | undefined;
  /** Children by their first id; nodes are linked once their first token is written. */
  readonly children: Map<number, Node[]>;
  /** Paths that go through this node. */
  pins: number;
  /** Clock of the last release. */
  used: number;
  /** Neighbours in the list of nodes that may be evicted, oldest first; undefined when not in it. */
  older: Node | undefined;
  newer: Node | undefined;
}

/** One sequence's K/V: `length` tokens, token t in row `t % blockTokens` of block `table[floor(t / blockTokens)]`. */
export interface CachePath {
  length: number;
  table: Int32Array;
  /** Blocks of `table` in use; the last may be reserved and still empty. */
  blocks: number;
  /** @internal */
  readonly nodes: Node[];
  /** @internal */
  readonly root: Node;
}

export interface PrefixCacheOptions {
  readonly blocks: number;
  readonly blockTokens: number;
  /** Copies the K/V rows of one block into another. */
  copyBlock(from: number, to: number): void;
}

export class PrefixCache {
  readonly blockTokens: number;
  readonly capacity: number;
  evictions = 0;
  readonly #copyBlock: (from: number, to: number) => void;
  readonly #free: Int32Array;
  #freeCount: number;
  readonly #roots = new Map<string, Node>();
  /** Sentinel of the circular list of evictable leaves: `newer` is the oldest, `older` the newest. */
  readonly #idle: Node;
  #pinned = 0;
  #clock = 0;

  constructor({ blocks, blockTokens, copyBlock }: PrefixCacheOptions) {
    this.blockTokens = blockTokens;
    this.capacity = blocks;
    this.#copyBlock = copyBlock;
    this.#free = Int32Array.from({ length: blocks }, (_, index) => blocks - 1 - index);
    this.#freeCount = blocks;
    this.#idle = createNode(-1, undefined, 0);
    this.#idle.older = this.#idle;
    this.#idle.newer = this.#idle;
  }

  /** Blocks that hold K/V, in use or kept for later. */
  get usedBlocks(): number {
    return this.capacity - this.#freeCount;
  }

  /** Blocks that are free or can be made free by evicting. */
  get availableBlocks(): number {
    return this.capacity - this.#pinned;
  }

  /**
   * How many of the first `limit` ids are cached under `label` (a set of weights), and in how many full blocks that
   * nobody holds now: opening a path takes these from the available ones.
   */
  peek(label: string, ids: Int32Array, limit: number): { length: number; idleBlocks: number } {
    let node = this.#roots.get(label);
    const found = { length: 0, idleBlocks: 0 };
    while (node) {
      const { child, shared }: { child: Node | undefined; shared: number } = this.#longestChild(
        node,
        ids,
        found.length,
        limit,
      );
      found.length += shared;
      node = shared === this.blockTokens ? child : undefined;
      if (node?.pins === 0) found.idleBlocks++;
    }
    return found;
  }

  /** A path through as many of the first `limit` ids as are cached. */
  open(label: string, ids: Int32Array, limit: number): CachePath {
    let root = this.#roots.get(label);
    if (!root) {
      root = createNode(-1, undefined, 0);
      this.#roots.set(label, root);
    }
    const path: CachePath = { length: 0, table: new Int32Array(16), blocks: 0, nodes: [], root };
    let node = root;
    for (;;) {
      const { child, shared } = this.#longestChild(node, ids, path.length, limit);
      if (!child || shared === 0) return path;
      if (shared === this.blockTokens) {
        this.#pin(child);
        this.#append(path, child);
        path.length += shared;
        node = child;
        continue;
      }
      if (child.pins === 0 && child.length === shared) {
        this.#pin(child);
        this.#append(path, child);
        path.length += shared;
        return path;
      }
      // Pinned while its copy is made: making room for the copy must not evict the original.
      this.#pin(child);
      if (this.reserve(path, shared)) {
        const copy = path.nodes[path.nodes.length - 1]!;
        this.#copyBlock(child.block, copy.block);
        this.advance(path, ids, shared);
      }
      this.#unpin(child);
      return path;
    }
  }

  /** Makes room for `count` more tokens; false when blocks run out; those taken until then are kept. */
  reserve(path: CachePath, count: number): boolean {
    const needed = Math.ceil((path.length + count) / this.blockTokens);
    while (path.blocks < needed) {
      const block = this.#take();
      if (block < 0) return false;
      const node = createNode(block, path.nodes[path.nodes.length - 1] ?? path.root, this.blockTokens);
      this.#pin(node);
      this.#append(path, node);
    }
    return true;
  }

  /** Tokens the path has room for without another block. */
  room(path: CachePath): number {
    return path.blocks * this.blockTokens - path.length;
  }

  /** K/V of the next `count` of `ids` are now written into the reserved rows. */
  advance(path: CachePath, ids: Int32Array, count: number): void {
    for (const end = path.length + count; path.length < end; ) {
      const index = Math.floor(path.length / this.blockTokens);
      const node = path.nodes[index]!;
      const more = Math.min(end - path.length, this.blockTokens - node.length);
      node.ids.set(ids.subarray(path.length, path.length + more), node.length);
      if (node.length === 0) linkChild(node);
      node.length += more;
      path.length += more;
      if (node.length === this.blockTokens) this.#mergeTwin(path, index);
    }
  }

  /** The sequence is done with its blocks; they stay cached until their space is needed. */
  release(path: CachePath): void {
    this.#clock++;
    for (let index = path.nodes.length - 1; index >= 0; index--) this.#unpin(path.nodes[index]!);
    path.nodes.length = 0;
    path.blocks = 0;
    path.length = 0;
  }

  /** Forgets everything under `label`, or everything. No path under it may be open. */
  flush(label?: string): void {
    for (const [name, root] of this.#roots) {
      if (label !== undefined && name !== label) continue;
      this.#drop(root);
      this.#roots.delete(name);
    }
  }

  #drop(node: Node): void {
    for (const siblings of node.children.values()) {
      for (const child of siblings) {
        if (child.pins > 0) throw new Error('flushed a cache that is in use');
        this.#drop(child);
        this.#leaveIdle(child);
        this.#free[this.#freeCount++] = child.block;
      }
    }
    node.children.clear();
  }

  #append(path: CachePath, node: Node): void {
    if (path.blocks === path.table.length) {
      const wider = new Int32Array(path.table.length * 2);
      wider.set(path.table);
      path.table = wider;
    }
    path.table[path.blocks++] = node.block;
    path.nodes.push(node);
  }

  #longestChild(node: Node, ids: Int32Array, from: number, limit: number) {
    const most = Math.min(this.blockTokens, limit - from);
    let child: Node | undefined;
    let shared = 0;
    if (most <= 0) return { child, shared };
    for (const candidate of node.children.get(ids[from]!) ?? []) {
      const end = Math.min(most, candidate.length);
      // Hundreds may share a beginning that is shorter than a block: most are told apart by the id behind it.
      if (end <= shared || candidate.ids[shared] !== ids[from + shared]) continue;
      let same = 1;
      while (same < end && candidate.ids[same] === ids[from + same]) same++;
      if (same > shared) {
        child = candidate;
        shared = same;
      }
    }
    return { child, shared };
  }

  /** Removes the newer of two full nodes with the same ids under one parent: their rows are equal to the bit. */
  #mergeTwin(path: CachePath, index: number): void {
    const node = path.nodes[index]!;
    const twin = node
      .parent!.children.get(node.ids[0]!)!
      .find((other) => other !== node && other.length === this.blockTokens && hasSameIds(other, node));
    if (!twin) return;
    this.#pin(twin);
    path.nodes[index] = twin;
    path.table[index] = twin.block;
    const next = path.nodes[index + 1]; // reserved and not linked yet
    if (next) next.parent = twin;
    unlinkChild(node);
    this.#pinned--;
    this.#free[this.#freeCount++] = node.block;
  }

  #take(): number {
    if (this.#freeCount === 0 && !this.#evict()) return -1;
    return this.#free[--this.#freeCount]!;
  }

  #evict(): boolean {
    const oldest = this.#idle.newer!;
    if (oldest === this.#idle) return false;
    this.#leaveIdle(oldest);
    unlinkChild(oldest);
    this.#free[this.#freeCount++] = oldest.block;
    this.evictions++;
    this.#joinIdle(oldest.parent!);
    return true;
  }

  #pin(node: Node): void {
    if (node.pins++ > 0) return;
    this.#pinned++;
    this.#leaveIdle(node);
  }

  #unpin(node: Node): void {
    if (--node.pins > 0) return;
    this.#pinned--;
    if (node.length === 0) {
      this.#free[this.#freeCount++] = node.block;
      return;
    }
    node.used = this.#clock;
    this.#joinIdle(node);
  }

  /** Sorted by the clock: a parent left behind by its evicted child is about as old as that child. */
  #joinIdle(node: Node): void {
    if (node.block < 0 || node.pins > 0 || node.children.size > 0 || node.older) return;
    let newer = this.#idle;
    if (this.#idle.older !== this.#idle && this.#idle.older!.used > node.used) {
      newer = this.#idle.newer!;
      while (newer.used <= node.used) newer = newer.newer!;
    }
    node.older = newer.older!;
    node.newer = newer;
    node.older.newer = node;
    newer.older = node;
  }

  #leaveIdle(node: Node): void {
    if (!node.older) return;
    node.older.newer = node.newer;
    node.newer!.older = node.older;
    node.older = undefined;
    node.newer = undefined;
  }
}

function createNode(block: number, parent: Node | undefined, blockTokens: number): Node {
  return {
    ids: new Int32Array(blockTokens),
    length: 0,
    block,
    parent,
    children: new Map(),
    pins: 0,
    used: 0,
    older: undefined,
    newer: undefined,
  };
}

/** From the end: siblings begin alike. */
function hasSameIds(a: Node, b: Node): boolean {
  for (let at = a.ids.length - 1; at >= 0; at--) if (a.ids[at] !== b.ids[at]) return false;
  return true;
}

function linkChild(node: Node): void {
  const siblings = node.parent!.children.get(node.ids[0]!);
  if (siblings) siblings.push(node);
  else node.parent!.children.set(node.ids[0]!, [node]);
}

function unlinkChild(node: Node): void {
  const siblings = node.parent!.children.get(node.ids[0]!)!;
  if (siblings.length === 1) node.parent!.children.delete(node.ids[0]!);
  else siblings.splice(siblings.indexOf(node), 1);
}
