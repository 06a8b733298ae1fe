/**
 * The encoder of a Qwen2.5-VL as a computation on a tape: patches in, a state for each token of each image out. Patches
 * see one another in both directions, in most layers only those of their window; rows and columns turn half of a head
 * each.
 */
import type { Kernels } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import { PackedMatrix, type Parameter, type ParameterStore } from '../model/parameters.ts';
import type { VisionConfig } from '../model/vision-config.ts';
import type { Activation, LinearLayer, RopeTable, RowLayout, Tape } from '../training/tape.ts';
import { type Grid, layOutPatches, type PatchLayout } from './layout.ts';

const EPSILON = 1e-6;
const ROPE_BASE = 10_000;

/** An image as its processor gives it: [patches, 3 · frames · patch²]. */
export interface PatchedImage {
  readonly grid: Grid;
  readonly values: Float32Array;
}

interface Block {
  readonly norm1: Parameter;
  readonly qkv: LinearLayer;
  readonly out: LinearLayer;
  readonly norm2: Parameter;
  readonly gateUp: LinearLayer;
  readonly down: LinearLayer;
}

/** What all layers of one pass share. */
interface Surroundings {
  readonly rope: RopeTable;
  readonly positions: number;
  readonly whole: RowLayout;
  readonly windows: RowLayout;
}

export class VisionEncoder {
  readonly #kernels: Kernels;
  readonly #vision: VisionConfig;
  readonly #patches: LinearLayer;
  readonly #blocks: readonly Block[];
  readonly #mergeNorm: Parameter;
  readonly #widen: LinearLayer;
  readonly #project: LinearLayer;
  readonly #matrices: PackedMatrix[] = [];

  constructor(kernels: Kernels, { vision, hidden }: ModelConfig, store: ParameterStore) {
    if (!vision) throw new Error('a model without vision has no encoder');
    this.#kernels = kernels;
    this.#vision = vision;
    const norm = (name: string) => store.get(`visual.${name}.weight`);
    const linear = (name: string, rows: number): LinearLayer => {
      const matrix = new PackedMatrix(store.get(`visual.${name}.weight`), rows);
      this.#matrices.push(matrix);
      const bias = `visual.${name}.bias`;
      return { matrix, bias: store.has(bias) ? store.get(bias) : undefined, lora: undefined };
    };
    const merged = vision.hidden * vision.merge ** 2;
    this.#patches = linear('patch_embed.proj', vision.hidden);
    this.#blocks = Array.from({ length: vision.layers }, (_, layer) => ({
      norm1: norm(`blocks.${layer}.norm1`),
      qkv: linear(`blocks.${layer}.attn.qkv`, 3 * vision.hidden),
      out: linear(`blocks.${layer}.attn.proj`, vision.hidden),
      norm2: norm(`blocks.${layer}.norm2`),
      gateUp: linear(`blocks.${layer}.mlp.gate_proj`, 2 * vision.intermediate),
      down: linear(`blocks.${layer}.mlp.down_proj`, vision.hidden),
    }));
    this.#mergeNorm = norm('merger.ln_q');
    this.#widen = linear('merger.mlp.0', merged);
    this.#project = linear('merger.mlp.2', hidden);
  }

  /** One state per token; `tokenAt` says per image in which row each of its tokens is, in reading order. */
  forward(
    tape: Tape,
    images: readonly PatchedImage[],
    recompute: boolean,
    checkpoint: () => void,
  ): { readonly states: Activation; readonly tokenAt: readonly Int32Array[] } {
    const vision = this.#vision;
    const layouts = this.#layOut(images);
    const around = this.#surroundings(tape, layouts);
    let states = tape.linear(this.#place(tape, images, layouts), this.#patches);
    for (const [layer, block] of this.#blocks.entries()) {
      checkpoint();
      const rows = vision.fullLayers.includes(layer) ? around.whole : around.windows;
      const run = (on: Tape, x: Activation) => this.#runBlock(on, block, x, around, rows);
      states = recompute ? tape.recomputed(states, run) : run(tape, states);
    }
    const perToken = vision.merge ** 2;
    const normed = tape.norm(states, this.#mergeNorm, EPSILON);
    const merged = tape.reshape(normed, normed.rows / perToken, normed.columns * perToken);
    const tokens = tape.linear(tape.gelu(tape.linear(merged, this.#widen)), this.#project);
    let first = 0;
    const tokenAt = layouts.map((layout) => {
      const rows = layout.tokenAt.map((row) => first + row);
      first += layout.tokens;
      return rows;
    });
    return { states: tokens, tokenAt };
  }

  close(): void {
    for (const matrix of this.#matrices) matrix.close();
  }

  #runBlock(tape: Tape, block: Block, x: Activation, around: Surroundings, rows: RowLayout): Activation {
    const { hidden, heads } = this.#vision;
    const layout = { heads, kvHeads: heads, headSize: hidden / heads };
    const qkv = tape.linear(tape.norm(tape.share(x), block.norm1, EPSILON), block.qkv);
    tape.rotate(qkv, layout, around.positions, around.rope);
    const middle = tape.linear(tape.attention(qkv, qkv, layout, rows), block.out, x);
    const gateUp = tape.linear(tape.norm(tape.share(middle), block.norm2, EPSILON), block.gateUp);
    return tape.linear(tape.gate(gateUp, 'silu'), block.down, middle);
  }

  /** The patches of all images in the heap, in the encoder's order. */
  #place(tape: Tape, images: readonly PatchedImage[], layouts: readonly PatchLayout[]): Activation {
    const width = this.#patches.matrix.columns;
    const count = layouts.reduce((sum, { patches }) => sum + patches, 0);
    const placed = tape.tensor(count, width, false);
    const target = this.#kernels.f32(placed.at, count * width);
    let at = 0;
    for (const [index, { values }] of images.entries()) {
      const { order } = layouts[index]!;
      if (values.length !== order.length * width) {
        throw new Error(`image ${index} has ${values.length} numbers; ${order.length * width} are needed`);
      }
      for (const patch of order) {
        target.set(values.subarray(patch * width, (patch + 1) * width), at);
        at += width;
      }
    }
    return placed;
  }

  /** Images of one size share their layout. */
  #layOut(images: readonly PatchedImage[]): PatchLayout[] {
    const bySize = new Map<string, PatchLayout>();
    return images.map(({ grid }) => {
      const size = `${grid.width} ${grid.height}`;
      const layout = bySize.get(size) ?? layOutPatches(grid, this.#vision);
      bySize.set(size, layout);
      return layout;
    });
  }

  #surroundings(tape: Tape, layouts: readonly PatchLayout[]): Surroundings {
    const ints = (values: ArrayLike<number>) => {
      const at = tape.take(Math.max(1, values.length));
      this.#kernels.i32(at, values.length).set(values);
      return at;
    };
    const rowsOf = (lengths: readonly number[]): RowLayout => {
      let start = 0;
      const starts = lengths.map((length) => {
        start += length;
        return start - length;
      });
      const none = lengths.map(() => 0);
      return {
        rows: lengths.length,
        rowStart: ints(starts),
        rowLength: ints(lengths),
        prefixStart: ints(none),
        prefixLength: ints(none),
        full: true,
      };
    };
    return {
      ...this.#rope(tape, layouts, ints),
      whole: rowsOf(layouts.map(({ patches }) => patches)),
      windows: rowsOf(layouts.flatMap(({ windows }) => windows)),
    };
  }

  /** One row a patch of each layout: the first half of its pairs turns by the patch's row, the second by its column. */
  #rope(
    tape: Tape,
    layouts: readonly PatchLayout[],
    ints: (values: ArrayLike<number>) => number,
  ): Pick<Surroundings, 'rope' | 'positions'> {
    const half = this.#vision.hidden / this.#vision.heads / 2;
    const firsts = new Map<PatchLayout, number>();
    let count = 0;
    for (const layout of new Set(layouts)) {
      firsts.set(layout, count);
      count += layout.patches;
    }
    const [cos, sin] = [tape.take(count * half), tape.take(count * half)];
    const [cosines, sines] = [this.#kernels.f32(cos, count * half), this.#kernels.f32(sin, count * half)];
    const frequencies = Float64Array.from(
      { length: half / 2 },
      (_, pair) => ROPE_BASE ** (-pair / (half / 2)),
    );
    let at = 0;
    for (const { patches, rows, columns } of firsts.keys())
      for (let place = 0; place < patches; place++)
        for (let pair = 0; pair < half; pair++, at++) {
          const along = pair < half / 2 ? rows[place]! : columns[place]!;
          const angle = along * frequencies[pair % (half / 2)]!;
          cosines[at] = Math.cos(angle);
          sines[at] = Math.sin(angle);
        }
    const positions = layouts.flatMap((layout) =>
      Array.from({ length: layout.patches }, (_, place) => firsts.get(layout)! + place),
    );
    return { rope: { cos, sin, rows: count }, positions: ints(positions) };
  }
}
