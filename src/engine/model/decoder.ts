/** The decoder as a computation on a tape: token ids in, the last layer's states out. */
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import type {
  Activation,
  HeadLayout,
  LinearLayer,
  LoraLayer,
  RopeTable,
  RowLayout,
  Tape,
} from '../training/tape.ts';
import { attentionScale, type ModelConfig } from './config.ts';
import { describeLayer, type Matrix, type Norm } from './decoder-layer.ts';
import { PackedMatrix, type Parameter, type ParameterStore } from './parameters.ts';
import { type RopeConfig, ropeFrequencies } from './rope.ts';

interface DecoderLayer {
  readonly inputNorm: Parameter;
  readonly qkv: LinearLayer;
  readonly headNorms: { readonly query: Parameter; readonly key: Parameter } | undefined;
  readonly attentionOut: LinearLayer;
  readonly outputNorm: Parameter;
  readonly gateUp: LinearLayer;
  readonly down: LinearLayer;
  readonly postNorms: { readonly attention: Parameter; readonly feedForward: Parameter } | undefined;
  readonly local: boolean;
}

/** Packed tokens in the heap. */
export interface PackedTokens {
  readonly count: number;
  readonly ids: Pointer;
  readonly positions: Pointer;
  readonly rows: RowLayout;
  /** Rotations of these tokens, where they are not those of counted positions; `positions` are its rows then. */
  readonly rope?: RopeTable;
  /** States that stand in the place of embeddings: those of images. */
  readonly sight?: { readonly at: Int32Array; readonly states: Activation };
}

/** Low-rank additions, by the names of the linear layers that have them (`model.layers.0.self_attn.q_proj`). */
export interface LoraParameters {
  readonly store: ParameterStore;
  readonly rank: number;
  readonly scale: number;
  readonly modules: ReadonlySet<string>;
}

export class Decoder {
  readonly config: ModelConfig;
  readonly embedding: Parameter;
  readonly finalNorm: Parameter;
  /** The output layer; the embedding itself in a tied model. */
  readonly head: PackedMatrix;
  readonly #layers: readonly DecoderLayer[];
  readonly #roundsKeys: boolean;
  readonly #rope: RopeCache;
  /** Of layers with a sliding window, where they turn otherwise. */
  readonly #localRope: RopeCache;
  readonly #matrices: PackedMatrix[] = [];

  constructor(
    kernels: Kernels,
    config: ModelConfig,
    store: ParameterStore,
    lora: LoraParameters | undefined,
  ) {
    this.config = config;
    this.#roundsKeys = store.half;
    this.embedding = store.get('model.embed_tokens.weight');
    this.finalNorm = store.get('model.norm.weight');
    this.head = this.#matrix(config.tied ? this.embedding : store.get('lm_head.weight'), config.vocabulary);
    this.#rope = new RopeCache(kernels, config);
    const { headSize, local } = config;
    this.#localRope = local?.rope ? new RopeCache(kernels, { headSize, ...local.rope }) : this.#rope;
    this.#layers = Array.from({ length: config.layers }, (_, index) => this.#layer(store, lora, index));
  }

  /** States of the last layer, before the final norm. */
  forward(tape: Tape, tokens: PackedTokens, recompute: boolean, checkpoint: () => void): Activation {
    const { contextTokens, hidden, scaledEmbedding } = this.config;
    const ropeOf = ({ local }: DecoderLayer) =>
      tokens.rope ?? (local ? this.#localRope : this.#rope).upTo(contextTokens, tokens);
    let states = tape.embed(
      this.embedding,
      tokens.ids,
      tokens.count,
      scaledEmbedding ? Math.sqrt(hidden) : 1,
    );
    const { sight } = tokens;
    if (sight) states = tape.replaceRows(states, sight.at, sight.states);
    for (const layer of this.#layers) {
      checkpoint();
      const run = (on: Tape, x: Activation) => this.#runLayer(on, layer, x, tokens, ropeOf(layer));
      states = recompute ? tape.recomputed(states, run) : run(tape, states);
    }
    return states;
  }

  close(): void {
    for (const matrix of this.#matrices) matrix.close();
    this.#rope.close();
    this.#localRope.close();
  }

  #runLayer(
    tape: Tape,
    layer: DecoderLayer,
    x: Activation,
    tokens: PackedTokens,
    rope: RopeTable,
  ): Activation {
    const { config } = this;
    const layout: HeadLayout = config;
    const norm = (of: Activation, weight: Parameter) =>
      tape.norm(of, weight, config.normEpsilon, config.normOffset);
    const qkv = tape.linear(norm(tape.share(x), layer.inputNorm), layer.qkv);
    const { headNorms, postNorms } = layer;
    const qk = headNorms
      ? tape.headNorm(tape.share(qkv), headNorms, layout, config.normEpsilon, config.normOffset)
      : qkv;
    tape.rotate(qk, layout, tokens.positions, rope);
    if (this.#roundsKeys) tape.roundKeys(qk, qkv, layout);
    const attended = tape.attention(qk, qkv, layout, {
      ...tokens.rows,
      scale: attentionScale(config),
      cap: config.attentionCap,
      window: layer.local ? config.local?.window : undefined,
    });
    const middle = postNorms
      ? tape.add(x, norm(tape.linear(attended, layer.attentionOut), postNorms.attention))
      : tape.linear(attended, layer.attentionOut, x);
    const gateUp = tape.linear(norm(tape.share(middle), layer.outputNorm), layer.gateUp);
    const gated = tape.gate(gateUp, config.activation);
    return postNorms
      ? tape.add(middle, norm(tape.linear(gated, layer.down), postNorms.feedForward))
      : tape.linear(gated, layer.down, middle);
  }

  #layer(store: ParameterStore, lora: LoraParameters | undefined, index: number): DecoderLayer {
    const { headNorms, postNorms, ...layer } = describeLayer(this.config, index);
    const norm = ({ name }: Norm) => store.get(`${name}.weight`);
    const linear = (matrix: Matrix) => this.#linear(store, lora, matrix);
    return {
      inputNorm: norm(layer.inputNorm),
      qkv: linear(layer.qkv),
      headNorms: headNorms && { query: norm(headNorms.query), key: norm(headNorms.key) },
      attentionOut: linear(layer.attentionOut),
      outputNorm: norm(layer.outputNorm),
      gateUp: linear(layer.gateUp),
      down: linear(layer.down),
      postNorms: postNorms && {
        attention: norm(postNorms.attention),
        feedForward: norm(postNorms.feedForward),
      },
      local: layer.local,
    };
  }

  /** Modules with the same input, as one matrix. */
  #linear(store: ParameterStore, lora: LoraParameters | undefined, { modules, bias }: Matrix): LinearLayer {
    const names = modules.map(({ name }) => name);
    const rows = modules.map(({ output }) => output);
    return {
      matrix: this.#matrix(store.get(`${names[0]}.weight`), sum(rows)),
      bias: bias ? store.get(`${names[0]}.bias`) : undefined,
      lora: lora && this.#lora(lora, names, rows),
    };
  }

  #lora(lora: LoraParameters, modules: readonly string[], rows: readonly number[]): LoraLayer | undefined {
    const { store, rank, scale } = lora;
    const parts = modules
      .map((module, index) => ({ module, column: sum(rows.slice(0, index)), rows: rows[index]! }))
      .filter(({ module }) => lora.modules.has(module));
    if (parts.length === 0) return undefined;
    return {
      rank,
      scale,
      a: this.#matrix(store.get(`${parts[0]!.module}.lora_A.weight`), parts.length * rank),
      parts: parts.map(({ module, column, rows: n }) => ({
        b: this.#matrix(store.get(`${module}.lora_B.weight`), n),
        column,
      })),
    };
  }

  #matrix(first: Parameter, rows: number): PackedMatrix {
    const matrix = new PackedMatrix(first, rows);
    this.#matrices.push(matrix);
    return matrix;
  }
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

/** Cosines and sines of position · base^(−2i / headSize), for as many positions as were ever needed. */
class RopeCache {
  readonly #kernels: Kernels;
  readonly #config: RopeConfig;
  #table: RopeTable = { cos: 0, sin: 0, rows: 0 };

  constructor(kernels: Kernels, config: RopeConfig) {
    this.#kernels = kernels;
    this.#config = config;
  }

  upTo(contextTokens: number, tokens: PackedTokens): RopeTable {
    const positions = this.#kernels.i32(tokens.positions, tokens.count);
    let needed = 1;
    for (const position of positions) if (position >= needed) needed = position + 1;
    if (needed > this.#table.rows) {
      this.close();
      this.#table = this.#build(Math.min(contextTokens, 2 ** Math.ceil(Math.log2(Math.max(256, needed)))));
    }
    return this.#table;
  }

  close(): void {
    this.#kernels.free(this.#table.cos);
    this.#kernels.free(this.#table.sin);
    this.#table = { cos: 0, sin: 0, rows: 0 };
  }

  #build(rows: number): RopeTable {
    const half = this.#config.headSize / 2;
    const cos = this.#kernels.alloc(4 * rows * half);
    const sin = this.#kernels.alloc(4 * rows * half);
    const cosines = this.#kernels.f32(cos, rows * half);
    const sines = this.#kernels.f32(sin, rows * half);
    const { frequencies, attention } = ropeFrequencies(this.#config);
    for (const [pair, frequency] of frequencies.entries()) {
      for (let position = 0; position < rows; position++) {
        cosines[position * half + pair] = attention * Math.cos(position * frequency);
        sines[position * half + pair] = attention * Math.sin(position * frequency);
      }
    }
    return { cos, sin, rows };
  }
}
