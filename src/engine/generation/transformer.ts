/**
 * One step of a decoder-only transformer over tokens of many sequences at once, K/V in a paged cache. Buffers and the
 * arguments of every kernel call are made once; a step only sets how many rows they cover.
 */

import { axisOfPair } from '../../lib/images/mrope.ts';
import type { CacheCall, Kernels, Pointer } from '../kernels/kernels.ts';
import { attentionScale, type ModelConfig } from '../model/config.ts';
import { type RopeConfig, ropeFrequencies } from '../model/rope.ts';
import type { LayerAdapters, LoraModule, LoraWeights } from './lora.ts';
import type { PackedLayer, PackedWeights } from './packed-weights.ts';
import type { Products } from './products.ts';

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
  /** Keys and values are kept in bfloat16. */
  readonly half: boolean;
}

/** Tokens of a step that show an image: their states stand in the place of embeddings. */
export interface SeenTokens {
  readonly token: number;
  readonly count: number;
  readonly from: Pointer;
}

/** Bytes of K/V that one block of tokens takes, over all layers. */
export function bytesPerBlock(
  kernels: Kernels,
  config: ModelConfig,
  { blockTokens, half }: Pick<TransformerOptions, 'blockTokens' | 'half'>,
): number {
  const shape = { blocks: 1, blockTokens, kvHeads: config.kvHeads, headDim: config.headSize, half };
  return kernels.cacheBytes(shape) * 2 * config.layers;
}

export class Transformer {
  readonly config: ModelConfig;
  /** Inputs of a step, to be filled by the caller: per token its id, sequence and position. */
  readonly ids: Int32Array;
  readonly sequences: Int32Array;
  readonly positions: Int32Array;
  /** Of a model that sees, per token its positions in time, row and column. */
  readonly mrope: Int32Array | undefined;
  /** [sequences, blocksPerSequence] */
  readonly blockTable: Int32Array;
  readonly blocksPerSequence: number;
  /** Normed states of the step's tokens [tokens, hidden], ready for the output layer. */
  readonly states: Pointer;
  readonly #kernels: Kernels;
  readonly #owned: Pointer[] = [];
  readonly #residual: Pointer;
  readonly #delta: Pointer;
  readonly #layerBytes: number;
  readonly #blockBytes: number;
  readonly #keys: Pointer;
  readonly #values: Pointer;
  readonly #rotations: { readonly full: Rotations; readonly local: Rotations };
  readonly #calls: ReturnType<typeof layerCalls>;
  readonly #turns: { readonly fill: (tokens: number) => void } | undefined;
  #multiply: Products['multiply'] = () => {};
  #loraRows: { pointer: Pointer; floats: number } = { pointer: 0, floats: 0 };

  constructor(kernels: Kernels, config: ModelConfig, options: TransformerOptions) {
    const { stepTokens, blocks, blockTokens, contextTokens, half } = options;
    const { hidden, heads, kvHeads, headSize, intermediate } = config;
    this.config = config;
    this.#kernels = kernels;
    this.blocksPerSequence = Math.ceil(contextTokens / blockTokens);

    const floats = (count: number) => this.#own(count * 4);
    this.states = floats(stepTokens * hidden);
    this.#residual = floats(stepTokens * hidden);
    this.#delta = floats(stepTokens * hidden);
    const rotations = (rope: RopeConfig): Rotations => {
      const cos = floats((contextTokens * headSize) / 2);
      const sin = floats((contextTokens * headSize) / 2);
      fillRotations(kernels, rope, contextTokens, cos, sin);
      return { cos, sin };
    };
    const { cos, sin } = rotations(config);
    const { local } = config;

    // A token of a model that sees turns by three positions: each step has a table of its own, a row a token.
    const { vision } = config;
    this.mrope = vision && new Int32Array(3 * stepTokens);
    const pairs = headSize / 2;
    const own = vision && {
      cos: floats(stepTokens * pairs),
      sin: floats(stepTokens * pairs),
      rows: floats(stepTokens),
    };
    if (own) {
      kernels.i32(own.rows, stepTokens).set(Int32Array.from({ length: stepTokens }, (_, row) => row));
      const axis = axisOfPair(vision.sections);
      const table = [kernels.f32(cos, contextTokens * pairs), kernels.f32(sin, contextTokens * pairs)];
      const step = [kernels.f32(own.cos, stepTokens * pairs), kernels.f32(own.sin, stepTokens * pairs)];
      const positions = this.mrope!;
      this.#turns = {
        fill: (tokens) => {
          for (let at = 0; at < tokens * pairs; at++) {
            const pair = at % pairs;
            const from = positions[3 * ((at - pair) / pairs) + axis[pair]!]! * pairs + pair;
            step[0]![at] = table[0]![from]!;
            step[1]![at] = table[1]![from]!;
          }
        },
      };
    }

    const idsAt = floats(stepTokens);
    const sequencesAt = floats(stepTokens);
    const positionsAt = floats(stepTokens);
    const tableAt = floats(options.sequences * this.blocksPerSequence);
    this.ids = kernels.i32(idsAt, stepTokens);
    this.sequences = kernels.i32(sequencesAt, stepTokens);
    this.positions = kernels.i32(positionsAt, stepTokens);
    this.blockTable = kernels.i32(tableAt, options.sequences * this.blocksPerSequence);

    const shape = { blocks, blockTokens, kvHeads, headDim: headSize, half };
    this.#layerBytes = kernels.cacheBytes(shape);
    this.#blockBytes = kernels.cacheBytes({ ...shape, blocks: 1 });
    this.#keys = this.#own(this.#layerBytes * config.layers);
    this.#values = this.#own(this.#layerBytes * config.layers);
    const turning = own ?? { cos, sin };
    this.#rotations = {
      full: turning,
      local: local?.rope ? rotations({ headSize, ...local.rope }) : turning,
    };
    this.#calls = layerCalls(config, {
      ids: idsAt,
      states: this.states,
      residual: this.#residual,
      delta: this.#delta,
      qkv: floats(stepTokens * (heads + 2 * kvHeads) * headSize),
      attended: floats(stepTokens * heads * headSize),
      gateUp: floats(stepTokens * 2 * intermediate),
      activated: floats(stepTokens * intermediate),
      turns: own?.rows ?? positionsAt,
      positions: own ? stepTokens : contextTokens,
      cache: {
        ...shape,
        keys: this.#keys,
        values: this.#values,
        blockTable: tableAt,
        sequenceCount: 0,
        blocksPerSequence: this.blocksPerSequence,
        tokens: 0,
        sequences: sequencesAt,
        positions: positionsAt,
      },
    });
  }

  /** Writes K/V of the `tokens` described by the input arrays and leaves their states in `states`. */
  step(
    weights: PackedWeights,
    lora: LoraWeights | undefined,
    tokens: number,
    sequenceCount: number,
    sight: readonly SeenTokens[] = [],
  ): void {
    const kernels = this.#kernels;
    const { embed, norm, cacheWrite, cacheAttention } = this.#calls;
    this.#setRows(tokens);
    this.#multiply = weights.products.multiply;
    cacheWrite.sequenceCount = cacheAttention.sequenceCount = sequenceCount;
    embed.table = weights.embedding;
    kernels.gather(embed);
    const width = embed.width;
    if (this.config.scaledEmbedding) {
      kernels.scale({ x: this.#residual, alpha: Math.sqrt(width), count: tokens * width });
    }
    for (const { token, from, count } of sight) {
      kernels.copy({ from, to: this.#residual + 4 * token * width, count: count * width });
    }
    this.#turns?.fill(tokens);
    // The first norm has nothing to add to the residual stream yet.
    norm.residual = norm.sum = 0;
    for (let layer = 0; layer < weights.layers.length; layer++) {
      const packed = weights.layers[layer]!;
      norm.weight = packed.inputNorm;
      kernels.rmsNorm(norm);
      if (this.config.postNorms) {
        norm.residual = this.#delta;
        norm.sum = this.#residual;
      }
      this.#attention(packed, layer, tokens, lora?.layers[layer]);
      norm.weight = packed.postNorm;
      kernels.rmsNorm(norm);
      this.#feedForward(packed, tokens, lora?.layers[layer]);
    }
    norm.weight = weights.norm;
    kernels.rmsNorm(norm);
  }

  #setRows(tokens: number): void {
    const { embed, norm, postNorm, qNorm, kNorm, rope, qkv, cacheWrite, cacheAttention } = this.#calls;
    const { output, gateUp, activate, down } = this.#calls;
    embed.count = tokens;
    for (const call of [norm, postNorm, qNorm, kNorm, rope, activate]) call.rows = tokens;
    for (const call of [qkv, output, gateUp, down]) call.m = tokens;
    for (const call of [cacheWrite, cacheAttention]) call.tokens = tokens;
  }

  #attention(packed: PackedLayer, layer: number, tokens: number, lora?: LayerAdapters): void {
    const kernels = this.#kernels;
    const { qkv, qNorm, kNorm, rope, cacheWrite, cacheAttention, output } = this.#calls;
    qkv.packed = packed.qkv;
    qkv.bias = packed.qkvBias;
    this.#multiply(qkv);
    if (lora) this.#addLora(lora.qkv, qkv, tokens);
    if (packed.qNorm) {
      qNorm.weight = packed.qNorm;
      kernels.rmsNorm(qNorm);
      kNorm.weight = packed.kNorm;
      kernels.rmsNorm(kNorm);
    }
    const { cos, sin } = packed.local ? this.#rotations.local : this.#rotations.full;
    rope.cos = cos;
    rope.sin = sin;
    kernels.rope(rope);
    cacheWrite.keys = cacheAttention.keys = this.#keys + layer * this.#layerBytes;
    cacheWrite.values = cacheAttention.values = this.#values + layer * this.#layerBytes;
    kernels.cacheWrite(cacheWrite);
    cacheAttention.window = packed.local ? this.config.local!.window : 0;
    kernels.cacheAttention(cacheAttention);
    output.packed = packed.output;
    this.#multiply(output);
    if (lora) this.#addLora(lora.attentionOut, output, tokens);
    this.#normAdded(packed.attentionPostNorm);
  }

  #feedForward(packed: PackedLayer, tokens: number, lora?: LayerAdapters): void {
    const kernels = this.#kernels;
    const { gateUp, activate, down } = this.#calls;
    const { activation } = this.config;
    gateUp.packed = packed.gateUp;
    this.#multiply(gateUp);
    if (lora) this.#addLora(lora.gateUp, gateUp, tokens);
    if (activation === 'silu') kernels.siluMultiply(activate);
    else kernels.geluMultiply(activate);
    down.packed = packed.down;
    this.#multiply(down);
    if (lora) this.#addLora(lora.down, down, tokens);
    this.#normAdded(packed.feedForwardPostNorm);
  }

  /** Norms what is about to be added to the residual stream, where the model does. */
  #normAdded(weight: Pointer): void {
    if (!weight) return;
    const { postNorm } = this.#calls;
    postNorm.weight = weight;
    this.#kernels.rmsNorm(postNorm);
  }

  /** y += scale·(x·Aᵀ)·Bᵀ, for the modules of one matrix. */
  #addLora(modules: readonly LoraModule[], matrix: { x: Pointer; y: Pointer; n: number }, m: number): void {
    for (const module of modules)
      this.#addModule(module, matrix.x, matrix.y + 4 * module.column, m, matrix.n);
  }

  #addModule(module: LoraModule, x: Pointer, y: Pointer, m: number, yStride: number): void {
    const { rank, scale, input, output } = module;
    if (this.#loraRows.floats < m * rank) {
      this.#kernels.free(this.#loraRows.pointer);
      this.#loraRows = { pointer: this.#kernels.alloc(m * rank * 4), floats: m * rank };
    }
    const inner = this.#loraRows.pointer;
    this.#kernels.matmul({ x, packed: module.down, y: inner, m, n: rank, k: input });
    this.#kernels.scale({ x: inner, alpha: scale, count: m * rank });
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
}

/** Tables of cosines and sines by position. */
interface Rotations {
  readonly cos: Pointer;
  readonly sin: Pointer;
}

/** Addresses of the buffers of a step. */
interface Buffers {
  readonly ids: Pointer;
  readonly states: Pointer;
  readonly residual: Pointer;
  readonly delta: Pointer;
  readonly qkv: Pointer;
  readonly attended: Pointer;
  readonly gateUp: Pointer;
  readonly activated: Pointer;
  /** Per token the row of the rotation tables that turns it. */
  readonly turns: Pointer;
  /** Rows of the rotation tables. */
  readonly positions: number;
  readonly cache: CacheCall;
}

/** The arguments of every kernel call of a layer; a step sets rows, a layer its weights. */
function layerCalls(config: ModelConfig, at: Buffers) {
  const { hidden, heads, kvHeads, headSize, intermediate, vocabulary, normEpsilon: epsilon } = config;
  const stride = (heads + 2 * kvHeads) * headSize;
  const k = at.qkv + heads * headSize * 4;
  const v = k + kvHeads * headSize * 4;
  const offset = config.normOffset;
  const headNorm = { weight: 0, rows: 0, width: headSize, epsilon, offset, stride };
  const norm = { weight: 0, rows: 0, width: hidden, epsilon, offset };
  const matmul = (x: Pointer, y: Pointer, n: number, width: number) => {
    return { x, packed: 0, half: false, y, m: 0, n, k: width, bias: 0, accumulate: false };
  };
  // What is not normed before is added to the residual stream within the product, in the trainer's order: the same bits.
  const added = (x: Pointer, width: number) =>
    config.postNorms
      ? matmul(x, at.delta, hidden, width)
      : { ...matmul(x, at.residual, hidden, width), accumulate: true };
  return {
    embed: { table: 0, rows: vocabulary, width: hidden, ids: at.ids, count: 0, out: at.residual },
    norm: { ...norm, x: at.residual, out: at.states, residual: 0, sum: 0 },
    postNorm: { ...norm, x: at.delta, out: at.delta },
    qkv: matmul(at.states, at.qkv, stride, hidden),
    qNorm: { ...headNorm, x: at.qkv, out: at.qkv, heads },
    kNorm: { ...headNorm, x: k, out: k, heads: kvHeads },
    // Query and key heads lie side by side and turn together.
    rope: {
      x: at.qkv,
      rows: 0,
      heads: heads + kvHeads,
      headDim: headSize,
      positions: at.turns,
      cos: 0,
      sin: 0,
      tableRows: at.positions,
      stride,
    },
    cacheWrite: { ...at.cache, k, v, kStride: stride, vStride: stride },
    cacheAttention: {
      ...at.cache,
      q: at.qkv,
      qStride: stride,
      heads,
      out: at.attended,
      scale: attentionScale(config),
      cap: config.attentionCap,
      window: 0,
    },
    output: added(at.attended, heads * headSize),
    gateUp: matmul(at.states, at.gateUp, 2 * intermediate, hidden),
    activate: {
      gate: at.gateUp,
      up: at.gateUp + intermediate * 4,
      out: at.activated,
      rows: 0,
      width: intermediate,
      stride: 2 * intermediate,
    },
    down: added(at.activated, intermediate),
  };
}

function fillRotations(kernels: Kernels, config: RopeConfig, rows: number, cosAt: Pointer, sinAt: Pointer) {
  const half = config.headSize / 2;
  const cos = kernels.f32(cosAt, rows * half);
  const sin = kernels.f32(sinAt, rows * half);
  const { frequencies, attention } = ropeFrequencies(config);
  for (const [pair, frequency] of frequencies.entries()) {
    for (let position = 0; position < rows; position++) {
      cos[position * half + pair] = attention * Math.cos(position * frequency);
      sin[position * half + pair] = attention * Math.sin(position * frequency);
    }
  }
}
