/**
 * The op-level kernels the embedded engine computes with; `openKernels` (open.ts) makes an instance. They know tensors
 * and no model.
 *
 * Memory. An instance owns one heap. A tensor is a byte address in it (`Pointer`), float32 and row-major unless
 * said otherwise. Token ids, positions, row descriptors and block tables are int32. Ops run synchronously in
 * the calling thread (helped by the instance's own pool) and read and write the heap only. Instances share nothing.
 *
 * Strides are in elements (floats), from one row to the next, and default to the row's width: with them a fused
 * projection such as [tokens, q | k | v] can be read and written in place.
 *
 * Errors. Every argument is checked: an address outside the heap, a negative size, an id outside its table throw
 * `EngineError` naming op and argument, and nothing is read or written out of bounds.
 *
 * Batch invariance. Each element of a forward output is reduced in an order that depends only on its own row and
 * its length, never on the other rows of the call, the thread count, or whether keys come from a cache:
 * the same row gives the same bits alone or among many. Everything is deterministic for one build, whatever the threads.
 */
export type Pointer = number;

/** An address that may be left out; 0 means absent too. */
type Optional = Pointer | undefined;

export interface Kernels extends Heap, MatrixOps, LayerOps, AttentionOps, CacheOps, HeadOps, UpdateOps {
  readonly kind: 'native' | 'wasm';
  /** Threads that compute, the caller included. */
  readonly threads: number;
  /** One line for people: which build, for which CPU, with how many threads. */
  readonly description: string;
  /** Ends the pool and gives the heap back. Views become empty or stale; further calls throw. */
  close(): Promise<void>;
}

export interface Heap {
  /** At least 64-byte aligned, contents undefined. Throws `EngineError` with the figure when it does not fit. */
  alloc(bytes: number): Pointer;
  /** Takes what `alloc` returned (0 is ignored). */
  free(pointer: Pointer): void;
  /**
   * Views of the heap. They stay valid when the heap grows, until `free` of the memory or `close`. Their buffer is
   * the whole heap (shared, in wasm): post a copy (`slice()`) to another thread, never a view.
   */
  f32(pointer: Pointer, length: number): Float32Array;
  f64(pointer: Pointer, length: number): Float64Array;
  i32(pointer: Pointer, length: number): Int32Array;
  u16(pointer: Pointer, length: number): Uint16Array;
  u8(pointer: Pointer, length: number): Uint8Array;
  /** Bytes in allocations now, the most there ever were, and the most there can be. */
  readonly bytesInUse: number;
  readonly peakBytes: number;
  readonly maximumBytes: number;
}

export interface MatrixOps {
  /**
   * Bytes of the packed form of an [n, k] matrix; `half` is in bfloat16. The layout is private to the instance's kind
   * and CPU.
   */
  packedBytes(n: number, k: number, half?: boolean): number;
  /**
   * Packs `weight` [n, k] (Hugging Face's [out, in]) for y = x·Wᵀ. With `transposed`, packs it for dx = dy·W:
   * the result is the packed form of the [k, n] matrix Wᵀ, of `packedBytes(k, n)` bytes. Weights that change
   * must be packed again.
   */
  pack(args: {
    weight: Pointer;
    n: number;
    k: number;
    packed: Pointer;
    transposed?: boolean;
    /** Rounds to bfloat16, to nearest even. */
    half?: boolean;
    /** Elements from one row of `weight` to the next; default k. */
    stride?: number;
  }): void;
  /** y[m, n] = x[m, k]·Wᵀ (+ bias[n]) (+ y if `accumulate`). `packed` is the packed [n, k], `half` if it was packed so. y must not overlap x. */
  matmul(args: {
    x: Pointer;
    packed: Pointer;
    y: Pointer;
    m: number;
    n: number;
    k: number;
    half?: boolean;
    bias?: Optional;
    accumulate?: boolean;
    xStride?: number;
    yStride?: number;
  }): void;
  packedBytesInt8(n: number, k: number): number;
  /** Packs for `matmulInt8`: every 64 weights of a row become whole numbers from -127 to 127 with a scale. */
  packInt8(args: { weight: Pointer; n: number; k: number; packed: Pointer; stride?: number }): void;
  /** As `matmul`, of 8-bit numbers: x is rounded in the same way. Sums of 64 products are exact. */
  matmulInt8(args: Omit<Parameters<MatrixOps['matmul']>[0], 'half'>): void;
  /** dw[n, k] += dyᵀ[n, m]·x[m, k]. `half` rounds dy and x to bfloat16. */
  weightGradient(args: {
    dy: Pointer;
    x: Pointer;
    dw: Pointer;
    m: number;
    n: number;
    k: number;
    half?: boolean;
    dyStride?: number;
    xStride?: number;
    dwStride?: number;
  }): void;
  /** db[n] += Σ over rows of dy[m, n]. */
  biasGradient(args: { dy: Pointer; db: Pointer; m: number; n: number; dyStride?: number }): void;
}

export interface LayerOps {
  /** out[i] = table[ids[i]], rows of `width`. Also selects rows of activations: any [rows, width] is a table. */
  gather(args: {
    table: Pointer;
    rows: number;
    width: number;
    ids: Pointer;
    count: number;
    out: Pointer;
  }): void;
  /** table[ids[i]] += source[i], in the order of i. */
  scatterAdd(args: {
    table: Pointer;
    rows: number;
    width: number;
    ids: Pointer;
    count: number;
    source: Pointer;
  }): void;
  /**
   * out = x / rms(x) · (offset + weight) over rows of `width`, `offset` 0 unless given. With `residual`, x is first x + residual, and that sum is
   * written to `sum` (which may be x or residual itself). `inverse` [rows × heads], if given, receives 1/rms for
   * the backward. For Qwen3's q/k norm: `heads` normed vectors of `width` per row, one after another, with `stride`
   * from row to row. out may be x. `outStride` defaults to `stride`, which defaults to heads·width; residual and
   * sum always have `stride`.
   */
  rmsNorm(args: {
    x: Pointer;
    weight: Pointer;
    out: Pointer;
    rows: number;
    width: number;
    epsilon: number;
    offset?: number | undefined;
    inverse?: Optional;
    residual?: Optional;
    sum?: Optional;
    heads?: number;
    stride?: number;
    outStride?: number;
  }): void;
  /**
   * Given x (the sum, where a residual was added) and `inverse` of the forward: dx = or += (`accumulate`), and
   * dweight += if given. dx may be dy. `dyStride` and `dxStride` default to `stride`.
   */
  rmsNormBackward(args: {
    x: Pointer;
    weight: Pointer;
    inverse: Pointer;
    dy: Pointer;
    dx: Pointer;
    dweight?: Optional;
    rows: number;
    width: number;
    accumulate?: boolean;
    offset?: number | undefined;
    heads?: number;
    stride?: number;
    dyStride?: number;
    dxStride?: number;
  }): void;
  /**
   * Rotates `heads` heads of `headDim` of each row in place, in Hugging Face's layout (first half with second half).
   * `cos` and `sin` are [tableRows, headDim / 2]; row i is rotated by positions[i]. `inverse` is the backward.
   */
  rope(args: {
    x: Pointer;
    rows: number;
    heads: number;
    headDim: number;
    positions: Pointer;
    cos: Pointer;
    sin: Pointer;
    tableRows: number;
    inverse?: boolean;
    /** Row to row; default heads·headDim. */
    stride?: number;
  }): void;
  /** out[rows, width] = silu(gate)·up. gate and up share `stride` (default width). out may be gate if strides agree. */
  siluMultiply(args: {
    gate: Pointer;
    up: Pointer;
    out: Pointer;
    rows: number;
    width: number;
    stride?: number;
  }): void;
  /** dgate and dup from dout; they have `stride` as gate and up, and may be gate and up themselves. */
  siluMultiplyBackward(args: {
    gate: Pointer;
    up: Pointer;
    dout: Pointer;
    dgate: Pointer;
    dup: Pointer;
    rows: number;
    width: number;
    stride?: number;
  }): void;
  /** As `siluMultiply`, with GELU by its tanh formula in the place of SiLU. */
  geluMultiply(args: Parameters<LayerOps['siluMultiply']>[0]): void;
  geluMultiplyBackward(args: Parameters<LayerOps['siluMultiplyBackward']>[0]): void;
  /** out = x·Φ(x), the GELU of the error function. out may be x. */
  gelu(args: { x: Pointer; out: Pointer; count: number }): void;
  /** dx from dout and the forward's x; dx may be dout. */
  geluBackward(args: { x: Pointer; dout: Pointer; dx: Pointer; count: number }): void;
  /** x = cap·tanh(x / cap) */
  softCap(args: { x: Pointer; cap: number; count: number }): void;
  /** dy, by the capped y, becomes the gradient by what was capped. */
  softCapBackward(args: { y: Pointer; dy: Pointer; cap: number; count: number }): void;
  /** out = a + b; any may be the same. */
  add(args: { a: Pointer; b: Pointer; out: Pointer; count: number }): void;
  /** out = a · b elementwise. */
  multiply(args: { a: Pointer; b: Pointer; out: Pointer; count: number }): void;
  /** y += alpha · x. */
  axpy(args: { alpha: number; x: Pointer; y: Pointer; count: number }): void;
  /** x *= alpha. */
  scale(args: { alpha: number; x: Pointer; count: number }): void;
  /** Copies `count` floats; ranges must not overlap. */
  copy(args: { from: Pointer; to: Pointer; count: number }): void;
  /** Sets `count` floats. */
  fill(args: { x: Pointer; value: number; count: number }): void;
  /** Rounds [rows, width] to the nearest bfloat16 in place; the numbers stay float32. */
  round(args: { x: Pointer; rows: number; width: number; stride?: number }): void;
}

/**
 * Grouped-query attention, causal unless `full`, over packed rows of different lengths. q is [tokens, heads·headDim], k and v are
 * [tokens, kvHeads·headDim] (strides apart), query head h reads K/V head floor(h / (heads / kvHeads)).
 *
 * Row r is tokens [rowStart[r], rowStart[r] + rowLength[r]). Its queries see its own tokens up to themselves and,
 * before them, all of the `prefixLength[r]` tokens from `prefixStart[r]` on, which belong to another row (0 for none).
 * Rows must not overlap one another. Tokens in no row are neither read nor written.
 */
export interface AttentionShape {
  tokens: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  rows: number;
  rowStart: Pointer;
  rowLength: Pointer;
  prefixStart: Pointer;
  prefixLength: Pointer;
  /** Not causal: every token of a row sees all of its row. */
  full?: boolean;
  /** A query sees so many positions, its own the last; 0 or absent: all. */
  window?: number | undefined;
  /** Scores become cap·tanh(score / cap); 0 or absent: they stay. */
  cap?: number | undefined;
  /** Default 1 / √headDim. */
  scale?: number | undefined;
  qStride?: number;
  kStride?: number;
  vStride?: number;
}

export interface AttentionOps {
  /** out [tokens, heads·headDim]; logsumexp [tokens, heads], kept for the backward. */
  attention(
    args: AttentionShape & { q: Pointer; k: Pointer; v: Pointer; out: Pointer; logsumexp: Pointer },
  ): void;
  /**
   * From dout [tokens, heads·headDim]: dq is written (for tokens in rows), dk and dv are ADDED to (zero them first:
   * a shared prefix collects from every row that sees it). dq, dk, dv have the strides of q, k, v.
   */
  attentionBackward(
    args: AttentionShape & {
      q: Pointer;
      k: Pointer;
      v: Pointer;
      out: Pointer;
      logsumexp: Pointer;
      dout: Pointer;
      dq: Pointer;
      dk: Pointer;
      dv: Pointer;
    },
  ): void;
}

/**
 * A paged K/V cache of one layer: `keys` and `values` are each `cacheBytes` long; block b occupies the same share of
 * both, at b · cacheBytes({ blocks: 1, … }), so a block can be copied with `copy`. The layout inside is private.
 * `blockTable` is int32 [sequences, blocksPerSequence]: position p of sequence s is slot p % blockTokens of block
 * blockTable[s, floor(p / blockTokens)]. Token i of a call is position `positions[i]` of sequence `sequences[i]`.
 * A token only ever touches the table entries up to its position; the rest may hold anything.
 */
export interface CacheShape {
  blocks: number;
  /** A multiple of 16. */
  blockTokens: number;
  kvHeads: number;
  headDim: number;
  /** Keys and values are kept in bfloat16. */
  half?: boolean;
}

export interface CacheCall extends CacheShape {
  keys: Pointer;
  values: Pointer;
  blockTable: Pointer;
  sequenceCount: number;
  blocksPerSequence: number;
  tokens: number;
  sequences: Pointer;
  positions: Pointer;
}

export interface CacheOps {
  cacheBytes(shape: CacheShape): number;
  /** Stores k and v [tokens, kvHeads·headDim] of new tokens (keys already rotated) in their slots. */
  cacheWrite(args: CacheCall & { k: Pointer; v: Pointer; kStride?: number; vStride?: number }): void;
  /**
   * out[i] = attention of q[i] over positions 0..positions[i] of its sequence (the last `window` of them), read from the cache (write first).
   * Decode and prefill mix freely; consecutive tokens at consecutive positions of one sequence share the reading.
   */
  cacheAttention(
    args: CacheCall & {
      q: Pointer;
      out: Pointer;
      heads: number;
      scale?: number | undefined;
      window?: number | undefined;
      cap?: number | undefined;
      qStride?: number;
    },
  ): void;
}

/** Ops on rows of logits [rows, vocabulary]. π = softmax(logits / temperature). */
export interface HeadOps {
  /** Per row: log π[target], logsumexp(logits / T), entropy −Σ π log π, Σ π². Outputs left out are not computed. */
  lossForward(args: {
    logits: Pointer;
    rows: number;
    vocabulary: number;
    targets: Pointer;
    temperature: number;
    logprob?: Optional;
    logsumexp?: Optional;
    entropy?: Optional;
    sumSquares?: Optional;
  }): void;
  /**
   * logits → dlogits in place, given per row d/dlogprob, d/dentropy, d/dΣπ² (absent: zero) and the forward's
   * logsumexp (and entropy, Σπ² where their gradients are given).
   */
  lossBackward(args: {
    logits: Pointer;
    rows: number;
    vocabulary: number;
    targets: Pointer;
    temperature: number;
    logsumexp: Pointer;
    entropy?: Optional;
    sumSquares?: Optional;
    dLogprob?: Optional;
    dEntropy?: Optional;
    dSumSquares?: Optional;
  }): void;
  /**
   * Penalties on logits in place. Row r's listed ids are entries offsets[r]..offsets[r + 1] of `ids` and `counts`
   * (offsets: int32 [rows + 1]; each id at most once a row). Every listed id: repetition (HF's rule: a positive logit
   * is divided, a negative multiplied; 1 is off). Listed with count > 0 (occurrences in the reply):
   * minus presence, minus frequency · count. repetition, presence, frequency are float32 [rows].
   */
  penalize(args: {
    logits: Pointer;
    rows: number;
    vocabulary: number;
    offsets: Pointer;
    ids: Pointer;
    counts: Pointer;
    entries: number;
    repetition: Pointer;
    presence: Pointer;
    frequency: Pointer;
  }): void;
  /**
   * Chooses an id per row. Tokens are ranked by logit, ties by lower id; the first topK (0 or less: all) are kept, of
   * those the shortest run whose renormalised mass reaches topP (≥ 1: all), of those the ones with π ≥ minP · max π
   * (0: all); at least one stays. The choice is the inverse of the kept tokens' cumulative mass, in id order, at
   * uniform[r] ∈ [0, 1). temperature 0: the first of the ranking. `logprob` is log π[id] after temperature and before
   * truncation (at temperature 0: at temperature 1), bit-equal to `logprobs` at that temperature.
   * temperature, topP, minP, logprob: float32 [rows]; topK, ids: int32 [rows]; uniform: float64 [rows].
   * A row without a finite maximum throws.
   */
  sample(args: {
    logits: Pointer;
    rows: number;
    vocabulary: number;
    temperature: Pointer;
    topK: Pointer;
    topP: Pointer;
    minP: Pointer;
    uniform: Pointer;
    ids: Pointer;
    logprob: Pointer;
  }): void;
  /** logprob[r] = log π[targets[r]] at temperature[r] (0 counts as 1). */
  logprobs(args: {
    logits: Pointer;
    rows: number;
    vocabulary: number;
    targets: Pointer;
    temperature: Pointer;
    logprob: Pointer;
  }): void;
}

export type HalfFormat = 'bf16' | 'f16';

export interface UpdateOps {
  /**
   * AdamW with bias correction and decoupled decay, after `step` ≥ 1 steps including this one. The gradient is
   * read as gradient · gradientScale (for clipping) and left as it is.
   */
  adamW(args: {
    parameter: Pointer;
    gradient: Pointer;
    moment1: Pointer;
    moment2: Pointer;
    count: number;
    learningRate: number;
    beta1: number;
    beta2: number;
    epsilon: number;
    weightDecay: number;
    step: number;
    gradientScale?: number;
  }): void;
  /** Σ x², accumulated in double. */
  sumOfSquares(args: { x: Pointer; count: number }): number;
  /** Whether no element is infinite or NaN. */
  allFinite(args: { x: Pointer; count: number }): boolean;
  /** 16-bit floats to float32. */
  widen(args: { from: Pointer; to: Pointer; count: number; format: HalfFormat }): void;
  /** float32 to 16-bit floats, to nearest even. */
  narrow(args: { from: Pointer; to: Pointer; count: number; format: HalfFormat }): void;
}

export interface KernelOptions {
  /** Threads that compute, the caller included; default the machine's parallelism. */
  readonly threads?: number;
  /** Forces one build; default ROLLCALL_KERNELS, else native where it can be built, else wasm. */
  readonly kind?: 'native' | 'wasm';
  /** Receives one line when something is built or cannot be. */
  readonly log?: (line: string) => void;
}
