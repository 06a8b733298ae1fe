/**
 * One step of a decoder-only transformer over tokens of many sequences at once, K/V in a paged cache. Buffers and the
 * arguments of every kernel call are made once; a step only sets how many rows they cover.
 */
import type { CacheCall, Kernels, Pointer } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import type { LoraLayer, LoraModule, LoraWeights } from './lora.ts';
import type { PackedWeights } from './packed-weights.ts';

export interface TransformerOptions {
  /** Most tokens in one step. */
  readonly stepTokens: number;
  /** Most sequences in one step. */
  readonly sequences: number;
  /** Blocks of the K/V cache. */
  readonly blocks: number;
  readonly blockTokens: number;
  /** Positions that can occur. */
  readonly contextTokens: number;
}

/** Bytes of K/V that one block of tokens takes, over all layers. */
export function bytesPerBlock(kernels: Kernels, config: ModelConfig, blockTokens: number): number {
  const shape = { blocks: 1, blockTokens, kvHeads: config.kvHeads, headDim: config.headSize };
  return kernels.cacheBytes(shape) * 2 * config.layers;
}

export class Transformer {
  readonly config: ModelConfig;
  /** Inputs of a step, to be filled by the caller: per token its id, sequence and position. */
  readonly ids: Int32Array;
  readonly sequences: Int32Array;
  readonly positions: Int32Array;
  /** [sequences, blocksPerSequence] */
  readonly blockTable: Int32Array;
  readonly blocksPerSequence: number;
  /** Normed states of the step's tokens [tokens, hidden], ready for the output layer. */
  readonly states: Pointer;
  readonly #kernels: Kernels;
  readonly #owned: Pointer[] = [];
  readonly #idsAt: Pointer;
  readonly #residual: Pointer;
  readonly #delta: Pointer;
  readonly #qkv: Pointer;
  readonly #attended: Pointer;
  readonly #gateUp: Pointer;
  readonly #activated: Pointer;
  readonly #cos: Pointer;
  readonly #sin: Pointer;
  readonly #layerBytes: number;
  readonly #blockBytes: number;
  readonly #keys: Pointer;
  readonly #values: Pointer;
  readonly #cache: CacheCall;
  readonly #contextTokens: number;
  #loraRows: { pointer: Pointer; floats: number } = { pointer: 0, floats: 0 };

  constructor(kernels: Kernels, config: ModelConfig, options: TransformerOptions) {
    const { stepTokens, blocks, blockTokens, contextTokens } = options;
    const { hidden, heads, kvHeads, headSize, intermediate } = config;
    this.config = config;
    this.#kernels = kernels;
    this.#contextTokens = contextTokens;
    this.blocksPerSequence = Math.ceil(contextTokens / blockTokens);

    const floats = (count: number) => this.#own(count * 4);
    this.states = floats(stepTokens * hidden);
    this.#residual = floats(stepTokens * hidden);
    this.#delta = floats(stepTokens * hidden);
    this.#qkv = floats(stepTokens * (heads + 2 * kvHeads) * headSize);
    this.#attended = floats(stepTokens * heads * headSize);
    this.#gateUp = floats(stepTokens * 2 * intermediate);
    this.#activated = floats(stepTokens * intermediate);
    this.#cos = floats((contextTokens * headSize) / 2);
    this.#sin = floats((contextTokens * headSize) / 2);
    this.#fillRotations();

    this.#idsAt = floats(stepTokens);
    const sequencesAt = floats(stepTokens);
    const positionsAt = floats(stepTokens);
    const tableAt = floats(options.sequences * this.blocksPerSequence);
    this.ids = kernels.i32(this.#idsAt, stepTokens);
    this.sequences = kernels.i32(sequencesAt, stepTokens);
    this.positions = kernels.i32(positionsAt, stepTokens);
    this.blockTable = kernels.i32(tableAt, options.sequences * this.blocksPerSequence);

    const shape = { blocks, blockTokens, kvHeads, headDim: headSize };
    this.#layerBytes = kernels.cacheBytes(shape);
    this.#blockBytes = kernels.cacheBytes({ ...shape, blocks: 1 });
    this.#keys = this.#own(this.#layerBytes * config.layers);
    this.#values = this.#own(this.#layerBytes * config.layers);
    this.#cache = {
      ...shape,
      keys: this.#keys,
      values: this.#values,
      blockTable: tableAt,
      sequenceCount: 0,
      blocksPerSequence: this.blocksPerSequence,
      tokens: 0,
      sequences: sequencesAt,
      positions: positionsAt,
    };
  }

  /** Writes K/V of the `tokens` described by the input arrays and leaves their states in `states`. */
  step(weights: PackedWeights, lora: LoraWeights | undefined, tokens: number, sequenceCount: number): void {
    const kernels = this.#kernels;
    const { hidden, vocabulary, normEpsilon: epsilon } = this.config;
    const norm = { x: this.#residual, out: this.states, rows: tokens, width: hidden, epsilon };
    const added = { residual: this.#delta, sum: this.#residual };
    this.#cache.tokens = tokens;
    this.#cache.sequenceCount = sequenceCount;
    kernels.gather({
      table: weights.embedding,
      rows: vocabulary,
      width: hidden,
      ids: this.#idsAt,
      count: tokens,
      out: this.#residual,
    });
    for (let layer = 0; layer < weights.layers.length; layer++) {
      const packed = weights.layers[layer]!;
      const adapter = lora?.layers[layer];
      kernels.rmsNorm({ ...norm, weight: packed.inputNorm, ...(layer > 0 ? added : undefined) });
      this.#attention(packed, layer, tokens, adapter);
      kernels.rmsNorm({ ...norm, weight: packed.postNorm, ...added });
      this.#feedForward(packed, tokens, adapter);
    }
    kernels.rmsNorm({ ...norm, weight: weights.norm, ...added });
  }

  #attention(packed: PackedWeights['layers'][number], layer: number, m: number, lora?: LoraLayer): void {
    const kernels = this.#kernels;
    const { hidden, heads, kvHeads, headSize, normEpsilon: epsilon } = this.config;
    const stride = (heads + 2 * kvHeads) * headSize;
    const q = this.#qkv;
    const k = q + heads * headSize * 4;
    const v = k + kvHeads * headSize * 4;
    kernels.matmul({
      x: this.states,
      packed: packed.qkv,
      y: q,
      m,
      n: stride,
      k: hidden,
      bias: packed.qkvBias,
    });
    this.#addLora(lora?.q, this.states, q, m, stride);
    this.#addLora(lora?.k, this.states, k, m, stride);
    this.#addLora(lora?.v, this.states, v, m, stride);
    if (packed.qNorm) {
      const shared = { rows: m, width: headSize, epsilon, stride };
      kernels.rmsNorm({ ...shared, x: q, out: q, weight: packed.qNorm, heads });
      kernels.rmsNorm({ ...shared, x: k, out: k, weight: packed.kNorm, heads: kvHeads });
    }
    // Query and key heads lie side by side and turn together.
    kernels.rope({
      x: q,
      rows: m,
      heads: heads + kvHeads,
      headDim: headSize,
      positions: this.#cache.positions,
      cos: this.#cos,
      sin: this.#sin,
      tableRows: this.#contextTokens,
      stride,
    });
    this.#cache.keys = this.#keys + layer * this.#layerBytes;
    this.#cache.values = this.#values + layer * this.#layerBytes;
    kernels.cacheWrite({ ...this.#cache, k, v, kStride: stride, vStride: stride });
    kernels.cacheAttention({ ...this.#cache, q, qStride: stride, heads, out: this.#attended });
    const width = heads * headSize;
    kernels.matmul({ x: this.#attended, packed: packed.output, y: this.#delta, m, n: hidden, k: width });
    this.#addLora(lora?.output, this.#attended, this.#delta, m, hidden);
  }

  #feedForward(packed: PackedWeights['layers'][number], m: number, lora?: LoraLayer): void {
    const kernels = this.#kernels;
    const { hidden, intermediate } = this.config;
    const stride = 2 * intermediate;
    const gate = this.#gateUp;
    const up = gate + intermediate * 4;
    kernels.matmul({ x: this.states, packed: packed.gateUp, y: gate, m, n: stride, k: hidden });
    this.#addLora(lora?.gate, this.states, gate, m, stride);
    this.#addLora(lora?.up, this.states, up, m, stride);
    kernels.siluMultiply({ gate, up, out: this.#activated, rows: m, width: intermediate, stride });
    kernels.matmul({
      x: this.#activated,
      packed: packed.down,
      y: this.#delta,
      m,
      n: hidden,
      k: intermediate,
    });
    this.#addLora(lora?.down, this.#activated, this.#delta, m, hidden);
  }

  /** y += (x·Aᵀ)·(scale·B)ᵀ */
  #addLora(module: LoraModule | undefined, x: Pointer, y: Pointer, m: number, yStride: number): void {
    if (!module) return;
    const { rank, input, output } = module;
    if (this.#loraRows.floats < m * rank) {
      this.#kernels.free(this.#loraRows.pointer);
      this.#loraRows = { pointer: this.#kernels.alloc(m * rank * 4), floats: m * rank };
    }
    const inner = this.#loraRows.pointer;
    this.#kernels.matmul({ x, packed: module.down, y: inner, m, n: rank, k: input });
    this.#kernels.matmul({
      x: inner,
      packed: module.up,
      y,
      m,
      n: output,
      k: rank,
      accumulate: true,
      yStride,
    });
  }

  /** Copies all layers' K/V of one block. */
  copyBlock(from: number, to: number): void {
    const count = this.#blockBytes / 4;
    for (let layer = 0; layer < this.config.layers; layer++) {
      for (const base of [this.#keys, this.#values]) {
        const start = base + layer * this.#layerBytes;
        this.#kernels.copy({
          from: start + from * this.#blockBytes,
          to: start + to * this.#blockBytes,
          count,
        });
      }
    }
  }

  free(): void {
    for (const pointer of this.#owned) this.#kernels.free(pointer);
    this.#kernels.free(this.#loraRows.pointer);
  }

  #own(bytes: number): Pointer {
    const pointer = this.#kernels.alloc(bytes);
    this.#owned.push(pointer);
    return pointer;
  }

  #fillRotations(): void {
    const half = this.config.headSize / 2;
    const cos = this.#kernels.f32(this.#cos, this.#contextTokens * half);
    const sin = this.#kernels.f32(this.#sin, this.#contextTokens * half);
    for (let pair = 0; pair < half; pair++) {
      const frequency = this.config.ropeBase ** (-pair / half);
      for (let position = 0; position < this.#contextTokens; position++) {
        cos[position * half + pair] = Math.cos(position * frequency);
        sin[position * half + pair] = Math.sin(position * frequency);
      }
    }
  }
}
