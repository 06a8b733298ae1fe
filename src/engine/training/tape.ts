/**
 * A small autograd over matrices in the heap. Each op computes at once and, on a recording tape, notes how its
 * gradient flows back; `backward` runs the notes in reverse.
 *
 * Ownership: an op consumes its inputs. Say `share(x)` for every further use. Memory returns to the arena as soon as
 * neither the forward nor a note needs it, so a tape that does not record holds a few matrices only.
 */

import type { AttentionShape, Kernels, Pointer } from '../kernels/kernels.ts';
import type { PackedMatrix, Parameter } from '../model/parameters.ts';
import type { ArenaScope } from './arena.ts';

/** A [rows, columns] matrix of activations. */
export interface Activation {
  at: Pointer;
  readonly rows: number;
  readonly columns: number;
  /** dL/d this, once something has flowed back; 0 before. */
  gradient: Pointer;
  /** Whether anything before it is trained. */
  readonly trained: boolean;
  holders: number;
}

/** y = x·Wᵀ + b, with low-rank additions to some of its column ranges. */
export interface LinearLayer {
  readonly matrix: PackedMatrix;
  readonly bias: Parameter | undefined;
  readonly lora: LoraLayer | undefined;
}

/** Adds scale · (x·Aᵀ)·Bᵀ; the A of all parts are stacked, so that x is read once. */
export interface LoraLayer {
  readonly rank: number;
  readonly scale: number;
  /** [parts · rank, in] */
  readonly a: PackedMatrix;
  readonly parts: readonly { readonly b: PackedMatrix; readonly column: number }[];
}

/** How the columns of a fused q | k | v projection divide. */
export interface HeadLayout {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
}

export interface RopeTable {
  readonly cos: Pointer;
  readonly sin: Pointer;
  readonly rows: number;
}

export type RowLayout = Pick<
  AttentionShape,
  'rows' | 'rowStart' | 'rowLength' | 'prefixStart' | 'prefixLength' | 'full'
>;

/** Who sees what, and how scores are scaled and capped. */
export type AttentionLayout = RowLayout & Pick<AttentionShape, 'scale' | 'cap' | 'window'>;

export class Tape {
  readonly kernels: Kernels;
  readonly recording: boolean;
  readonly #arena: ArenaScope;
  readonly #notes: (() => void)[] = [];

  constructor(kernels: Kernels, arena: ArenaScope, recording: boolean) {
    this.kernels = kernels;
    this.#arena = arena;
    this.recording = recording;
  }

  /** A second use of a tensor. */
  share(x: Activation): Activation {
    x.holders++;
    return x;
  }

  /** One use fewer; the last frees the memory. */
  drop(x: Activation): void {
    if (--x.holders === 0 && x.at) {
      this.#arena.giveBack(x.at);
      x.at = 0;
    }
  }

  take(floats: number): Pointer {
    return this.#arena.take(floats);
  }

  giveBack(at: Pointer): void {
    this.#arena.giveBack(at);
  }

  tensor(rows: number, columns: number, trained: boolean): Activation {
    return { at: this.#arena.take(rows * columns), rows, columns, gradient: 0, trained, holders: 1 };
  }

  /** Runs the notes in reverse; gradients of parameters are added to their stores. */
  backward(): void {
    for (let note = this.#notes.pop(); note; note = this.#notes.pop()) note();
  }

  /** out[i] = scale · table[ids[i]] */
  embed(table: Parameter, ids: Pointer, count: number, scale = 1): Activation {
    const { store, spec, offset } = table;
    const [rows, width] = spec.shape as readonly [number, number];
    const out = this.tensor(count, width, store.trained);
    this.kernels.gather({ table: store.values + 4 * offset, rows, width, ids, count, out: out.at });
    const rescale = (x: Pointer) =>
      scale !== 1 && this.kernels.scale({ alpha: scale, x, count: count * width });
    rescale(out.at);
    this.#note(out, [], (source) => {
      rescale(source);
      this.kernels.scatterAdd({ table: store.gradients + 4 * offset, rows, width, ids, count, source });
      this.#arena.giveBack(source);
    });
    return out;
  }

  /** out[i] = x[indices[i]] */
  select(x: Activation, indices: Pointer, count: number): Activation {
    const { rows, columns: width } = x;
    const out = this.tensor(count, width, x.trained);
    this.kernels.gather({ table: x.at, rows, width, ids: indices, count, out: out.at });
    this.#note(out, [], (source) => {
      const dx = this.#gradient(x);
      if (!dx.accumulate) this.kernels.fill({ x: dx.at, value: 0, count: rows * width });
      this.kernels.scatterAdd({ table: dx.at, rows, width, ids: indices, count, source });
      this.#arena.giveBack(source);
    });
    this.drop(x);
    return out;
  }

  /** x with the rows `indices` replaced by those of `rows`, one after another. */
  replaceRows(x: Activation, indices: Int32Array, rows: Activation): Activation {
    const { columns: width } = x;
    const out = this.#continued(x, x.trained || rows.trained);
    const rowAt = (base: Pointer, row: number) => base + 4 * row * width;
    for (let i = 0; i < indices.length; i++) {
      this.kernels.copy({ from: rowAt(rows.at, i), to: rowAt(out.at, indices[i]!), count: width });
    }
    this.#note(out, [], (dout) => {
      const drows = rows.trained ? this.#gradient(rows) : undefined;
      for (let i = 0; i < indices.length; i++) {
        const [from, to] = [rowAt(dout, indices[i]!), rowAt(drows?.at ?? 0, i)];
        if (drows?.accumulate) this.kernels.add({ a: from, b: to, out: to, count: width });
        else if (drows) this.kernels.copy({ from, to, count: width });
        this.kernels.fill({ x: from, value: 0, count: width });
      }
      if (x.trained) this.#handOver(dout, x);
      else this.#arena.giveBack(dout);
    });
    this.drop(rows);
    return out;
  }

  /** The same numbers in rows of another width. */
  reshape(x: Activation, rows: number, columns: number): Activation {
    const out: Activation = { at: x.at, rows, columns, gradient: 0, trained: x.trained, holders: 1 };
    if (x.holders !== 1) throw new Error('only a tensor with one use can be reshaped');
    x.at = 0;
    x.holders = 0;
    this.#note(out, [], (dout) => this.#handOver(dout, x));
    return out;
  }

  gelu(x: Activation): Activation {
    const { rows, columns } = x;
    const count = rows * columns;
    const out = this.tensor(rows, columns, x.trained);
    this.kernels.gelu({ x: x.at, out: out.at, count });
    this.#note(out, [x], (dout) => {
      this.kernels.geluBackward({ x: x.at, dout, dx: dout, count });
      this.#handOver(dout, x);
    });
    return out;
  }

  /** x·Wᵀ + b, or `residual` + that. */
  linear(x: Activation, layer: LinearLayer, residual?: Activation): Activation {
    const { matrix, bias, lora } = layer;
    const { rows: m } = x;
    const { rows: n, columns: k } = matrix;
    const trained = matrix.trained || lora !== undefined || x.trained || (residual?.trained ?? false);
    const out = residual ? this.#continued(residual, trained) : this.tensor(m, n, trained);
    this.kernels.matmul({
      x: x.at,
      packed: matrix.forward(),
      half: matrix.half,
      y: out.at,
      m,
      n,
      k,
      bias: bias && bias.store.values + 4 * bias.offset,
      accumulate: residual !== undefined,
    });
    const low = lora ? this.#loraForward(x, lora, out) : 0;
    if (low && !(this.recording && trained)) this.#arena.giveBack(low);
    this.#note(out, [x], (dy) => {
      if (matrix.trained) {
        this.kernels.weightGradient({ dy, x: x.at, dw: matrix.gradient, m, n, k, half: matrix.half });
        if (bias) this.kernels.biasGradient({ dy, db: bias.store.gradients + 4 * bias.offset, m, n });
      }
      if (x.trained) {
        const dx = this.#gradient(x);
        this.kernels.matmul({
          x: dy,
          packed: matrix.transposed(),
          half: matrix.half,
          y: dx.at,
          m,
          n: k,
          k: n,
          accumulate: dx.accumulate,
        });
      }
      if (lora) this.#loraBackward(x, lora, low, dy, n);
      if (residual?.trained) this.#handOver(dy, residual);
      else this.#arena.giveBack(dy);
    });
    return out;
  }

  /** `residual` + x. */
  add(residual: Activation, x: Activation): Activation {
    const count = x.rows * x.columns;
    const out = this.#continued(residual, residual.trained || x.trained);
    this.kernels.add({ a: out.at, b: x.at, out: out.at, count });
    this.#note(out, [], (dout) => {
      if (x.trained) {
        const dx = this.#gradient(x);
        if (dx.accumulate) this.kernels.add({ a: dx.at, b: dout, out: dx.at, count });
        else this.kernels.copy({ from: dout, to: dx.at, count });
      }
      if (residual.trained) this.#handOver(dout, residual);
      else this.#arena.giveBack(dout);
    });
    this.drop(x);
    return out;
  }

  /** out = x / rms(x) · (normOffset + weight), per row. */
  norm(x: Activation, weight: Parameter, epsilon: number, normOffset = 0): Activation {
    const { rows, columns: width } = x;
    const { store, offset } = weight;
    const out = this.tensor(rows, width, x.trained || store.trained);
    const inverse = this.#arena.take(rows);
    const at = store.values + 4 * offset;
    const shape = { rows, width, offset: normOffset };
    this.kernels.rmsNorm({ ...shape, x: x.at, weight: at, out: out.at, epsilon, inverse });
    const noted = this.#note(out, [x], (dy) => {
      const dweight = store.trained ? store.gradients + 4 * offset : undefined;
      const accumulate = x.gradient !== 0;
      const dx = accumulate ? x.gradient : dy; // in place where nothing has flowed back yet
      this.kernels.rmsNormBackward({ ...shape, x: x.at, weight: at, inverse, dy, dx, dweight, accumulate });
      this.#arena.giveBack(inverse);
      if (accumulate || !x.trained) this.#arena.giveBack(dy);
      else x.gradient = dy;
    });
    if (!noted) this.#arena.giveBack(inverse);
    return out;
  }

  /** The q and k heads of a fused projection, each normed over its own width. */
  headNorm(
    qkv: Activation,
    { query, key }: { readonly query: Parameter; readonly key: Parameter },
    layout: HeadLayout,
    epsilon: number,
    normOffset = 0,
  ): Activation {
    const { heads, kvHeads, headSize: width } = layout;
    const { rows, columns: stride } = qkv;
    const out = this.tensor(rows, (heads + kvHeads) * width, qkv.trained || query.store.trained);
    const inverse = this.#arena.take(rows * (heads + kvHeads));
    const parts = [
      { parameter: query, heads, column: 0, inverse },
      { parameter: key, heads: kvHeads, column: heads * width, inverse: inverse + 4 * rows * heads },
    ];
    for (const part of parts) {
      const { store, offset } = part.parameter;
      this.kernels.rmsNorm({
        x: qkv.at + 4 * part.column,
        weight: store.values + 4 * offset,
        out: out.at + 4 * part.column,
        rows,
        width,
        epsilon,
        offset: normOffset,
        inverse: part.inverse,
        heads: part.heads,
        stride,
        outStride: out.columns,
      });
    }
    const noted = this.#note(out, [qkv], (dy) => {
      const dx = this.#gradient(qkv);
      for (const part of parts) {
        const { store, offset } = part.parameter;
        this.kernels.rmsNormBackward({
          x: qkv.at + 4 * part.column,
          weight: store.values + 4 * offset,
          inverse: part.inverse,
          dy: dy + 4 * part.column,
          dx: dx.at + 4 * part.column,
          dweight: store.trained ? store.gradients + 4 * offset : undefined,
          rows,
          width,
          accumulate: dx.accumulate,
          offset: normOffset,
          heads: part.heads,
          stride,
          dyStride: out.columns,
          dxStride: stride,
        });
      }
      this.#arena.giveBack(inverse);
      this.#arena.giveBack(dy);
    });
    if (!noted) this.#arena.giveBack(inverse);
    return out;
  }

  /** Rotates the q and k heads at the beginning of each row in place. */
  rotate(qk: Activation, layout: HeadLayout, positions: Pointer, table: RopeTable): Activation {
    const turn = (x: Pointer, inverse: boolean) =>
      this.kernels.rope({
        x,
        rows: qk.rows,
        heads: layout.heads + layout.kvHeads,
        headDim: layout.headSize,
        positions,
        cos: table.cos,
        sin: table.sin,
        tableRows: table.rows,
        inverse,
        stride: qk.columns,
      });
    turn(qk.at, false);
    if (this.recording && qk.trained) this.#notes.push(() => qk.gradient && turn(qk.gradient, true));
    return qk;
  }

  /** Keys and values as a cache in bfloat16 holds them. The gradient is that of what they were. */
  roundKeys(qk: Activation, values: Activation, { heads, kvHeads, headSize }: HeadLayout): void {
    const width = kvHeads * headSize;
    const part = { rows: qk.rows, width };
    this.kernels.round({ ...part, x: qk.at + 4 * heads * headSize, stride: qk.columns });
    this.kernels.round({ ...part, x: values.at + 4 * (values.columns - width), stride: values.columns });
  }

  /** Attention, causal unless the rows are `full`; q and k are at the beginning of each row of `qk`, v at the end of each row of `values`. */
  attention(qk: Activation, values: Activation, layout: HeadLayout, seen: AttentionLayout): Activation {
    const { heads, kvHeads, headSize } = layout;
    const { rows: tokens } = qk;
    const out = this.tensor(tokens, heads * headSize, qk.trained || values.trained);
    const logsumexp = this.#arena.take(tokens * heads);
    const keyOffset = 4 * heads * headSize;
    const valueOffset = 4 * (values.columns - kvHeads * headSize);
    const call = {
      ...seen,
      tokens,
      heads,
      kvHeads,
      headDim: headSize,
      qStride: qk.columns,
      kStride: qk.columns,
      vStride: values.columns,
      q: qk.at,
      k: qk.at + keyOffset,
      v: values.at + valueOffset,
      out: out.at,
      logsumexp,
    };
    this.kernels.attention(call);
    const noted = this.#note(out, qk === values ? [qk, out] : [qk, values, out], (dout) => {
      const dqk = this.#zeroGradient(qk);
      const dvalues = qk === values ? dqk : this.#zeroGradient(values);
      this.kernels.attentionBackward({
        ...call,
        dout,
        dq: dqk,
        dk: dqk + keyOffset,
        dv: dvalues + valueOffset,
      });
      this.#arena.giveBack(logsumexp);
      this.#arena.giveBack(dout);
    });
    if (!noted) this.#arena.giveBack(logsumexp);
    return out;
  }

  /** silu(gate)·up or gelu(gate)·up of a fused gate | up projection. */
  gate(gateUp: Activation, activation: 'silu' | 'gelu'): Activation {
    const { rows, columns: stride } = gateUp;
    const width = stride / 2;
    const out = this.tensor(rows, width, gateUp.trained);
    const gate = gateUp.at;
    const up = gate + 4 * width;
    const { kernels } = this;
    const shape = { gate, up, rows, width, stride };
    if (activation === 'silu') kernels.siluMultiply({ ...shape, out: out.at });
    else kernels.geluMultiply({ ...shape, out: out.at });
    this.#note(out, [gateUp], (dout) => {
      // Nothing else reads gate and up: their memory becomes their gradient.
      const back = { ...shape, dout, dgate: gate, dup: up };
      if (activation === 'silu') kernels.siluMultiplyBackward(back);
      else kernels.geluMultiplyBackward(back);
      gateUp.gradient = gateUp.at;
      gateUp.at = 0;
      this.#arena.giveBack(dout);
    });
    return out;
  }

  /** Runs `compute` without keeping its activations; the backward computes them again. */
  recomputed(x: Activation, compute: (tape: Tape, x: Activation) => Activation): Activation {
    if (!this.recording) return compute(this, x);
    const quiet = new Tape(this.kernels, this.#arena, false);
    const out = compute(quiet, this.share(x));
    this.#note(out, [x], (gradient) => {
      const replay = new Tape(this.kernels, this.#arena, true);
      // Held once more than it is used, so that the value outlives the replay and is dropped by this note.
      const again: Activation = { ...x, gradient: 0, holders: 2 };
      const outAgain = compute(replay, again);
      outAgain.gradient = gradient;
      replay.drop(outAgain);
      replay.backward();
      if (again.gradient) this.#handOver(again.gradient, x);
    });
    return out;
  }

  /** Adds `gradient`, which it owns from now on, to what has flowed back to `x`. */
  #handOver(gradient: Pointer, x: Activation): void {
    if (x.gradient === 0) x.gradient = gradient;
    else {
      this.kernels.add({ a: x.gradient, b: gradient, out: x.gradient, count: x.rows * x.columns });
      this.#arena.giveBack(gradient);
    }
  }

  #gradient(x: Activation): { at: Pointer; accumulate: boolean } {
    if (x.gradient) return { at: x.gradient, accumulate: true };
    x.gradient = this.#arena.take(x.rows * x.columns);
    return { at: x.gradient, accumulate: false };
  }

  #zeroGradient(x: Activation): Pointer {
    const { at, accumulate } = this.#gradient(x);
    if (!accumulate) this.kernels.fill({ x: at, value: 0, count: x.rows * x.columns });
    return at;
  }

  /** A tensor that begins as `residual`: its own memory where nobody else needs it, else a copy. */
  #continued(residual: Activation, trained: boolean): Activation {
    const { rows, columns } = residual;
    if (residual.holders === 1) {
      const { at } = residual;
      residual.at = 0;
      residual.holders = 0;
      return { at, rows, columns, gradient: 0, trained, holders: 1 };
    }
    const out = this.tensor(rows, columns, trained);
    this.kernels.copy({ from: residual.at, to: out.at, count: rows * columns });
    this.drop(residual);
    return out;
  }

  /**
   * Notes how `out`'s gradient flows back, holding `needed` until then; without a recording tape, or with nothing to
   * train, `needed` are dropped at once. `flow` owns the gradient it is given.
   */
  #note(out: Activation, needed: readonly Activation[], flow: (gradient: Pointer) => void): boolean {
    const keeps = this.recording && out.trained;
    const consumed = needed.filter((tensor) => tensor !== out);
    if (!keeps) {
      for (const tensor of consumed) this.drop(tensor);
      return false;
    }
    if (needed.includes(out)) out.holders++;
    this.#notes.push(() => {
      if (out.gradient) flow(out.gradient);
      out.gradient = 0;
      for (const tensor of needed) this.drop(tensor);
    });
    return true;
  }

  /** Adds the low-rank terms to `out` and returns scale · x·Aᵀ, [rows, parts · rank]. */
  #loraForward(x: Activation, lora: LoraLayer, out: Activation): Pointer {
    const { rank, scale, a, parts } = lora;
    const { rows: m } = x;
    const low = this.#arena.take(m * a.rows);
    this.kernels.matmul({ x: x.at, packed: a.forward(), y: low, m, n: a.rows, k: a.columns });
    this.kernels.scale({ alpha: scale, x: low, count: m * a.rows });
    for (const [index, { b, column }] of parts.entries()) {
      this.kernels.matmul({
        x: low + 4 * index * rank,
        packed: b.forward(),
        y: out.at + 4 * column,
        m,
        n: b.rows,
        k: rank,
        accumulate: true,
        xStride: a.rows,
        yStride: out.columns,
      });
    }
    return low;
  }

  #loraBackward(x: Activation, lora: LoraLayer, low: Pointer, dy: Pointer, dyStride: number): void {
    const { rank, scale, a, parts } = lora;
    const { rows: m } = x;
    const dlow = this.#arena.take(m * a.rows);
    for (const [index, { b, column }] of parts.entries()) {
      const part = { dy: dy + 4 * column, m, n: b.rows, k: rank };
      if (b.trained) {
        const from = low + 4 * index * rank;
        this.kernels.weightGradient({ ...part, x: from, dw: b.gradient, dyStride, xStride: a.rows });
      }
      this.kernels.matmul({
        x: part.dy,
        packed: b.transposed(),
        y: dlow + 4 * index * rank,
        m,
        n: rank,
        k: b.rows,
        xStride: dyStride,
        yStride: a.rows,
      });
    }
    this.kernels.scale({ alpha: scale, x: dlow, count: m * a.rows });
    if (a.trained) {
      this.kernels.weightGradient({ dy: dlow, x: x.at, dw: a.gradient, m, n: a.rows, k: a.columns });
    }
    if (x.trained) {
      const dx = this.#gradient(x);
      this.kernels.matmul({
        x: dlow,
        packed: a.transposed(),
        y: dx.at,
        m,
        n: a.columns,
        k: a.rows,
        accumulate: dx.accumulate,
      });
    }
    this.#arena.giveBack(low);
    this.#arena.giveBack(dlow);
  }
}
