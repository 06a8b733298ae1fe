import { EngineError } from '../../errors.ts';
import { type Backend, DETAILS, NEEDS_WORKSPACE } from './backend.ts';
import { Allocator } from './heap.ts';
import type { AttentionShape, CacheShape, Kernels, Pointer } from './kernels.ts';
import { describeError, OP_NAMES, type OpName } from './op-arguments.ts';

type Args<Op extends keyof Kernels> = Kernels[Op] extends (args: infer A) => unknown ? A : never;

const flag = (value: boolean | undefined) => (value ? 1 : 0);

/** The typed interface over a build of the C kernels. Default strides are 0 there: the row's width. */
export class KernelSet implements Kernels {
  readonly #backend: Backend;
  readonly #heap: Allocator;
  readonly #numbers: ReadonlyMap<string, number>;
  #workspace = 0;
  #workspaceBytes = 0;
  #closed = false;

  constructor(backend: Backend) {
    this.#backend = backend;
    this.#numbers = new Map(backend.opNames.map((name, number) => [name, number]));
    const missing = OP_NAMES.filter((name) => !this.#numbers.has(name));
    if (missing.length > 0) throw new EngineError(`these kernels lack the ops ${missing.join(', ')}`);
    this.#heap = new Allocator(backend.low, backend.maximumBytes, (end) =>
      backend.setHeap(end, this.#workspace, this.#workspaceBytes),
    );
  }

  get kind() {
    return this.#backend.kind;
  }
  get threads() {
    return this.#backend.threads;
  }
  get description() {
    return this.#backend.description;
  }
  get bytesInUse() {
    return this.#heap.inUse;
  }
  get peakBytes() {
    return this.#heap.peak;
  }
  get maximumBytes() {
    return this.#backend.maximumBytes;
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    await this.#backend.close();
  }

  alloc(bytes: number) {
    this.#checkOpen();
    return this.#heap.alloc(bytes);
  }
  free(pointer: Pointer) {
    this.#heap.free(pointer);
  }

  f32(pointer: Pointer, length: number) {
    const { buffer, offset } = this.#locate(pointer, length, 4);
    return new Float32Array(buffer, offset, length);
  }
  f64(pointer: Pointer, length: number) {
    const { buffer, offset } = this.#locate(pointer, length, 8);
    return new Float64Array(buffer, offset, length);
  }
  i32(pointer: Pointer, length: number) {
    const { buffer, offset } = this.#locate(pointer, length, 4);
    return new Int32Array(buffer, offset, length);
  }
  u16(pointer: Pointer, length: number) {
    const { buffer, offset } = this.#locate(pointer, length, 2);
    return new Uint16Array(buffer, offset, length);
  }
  u8(pointer: Pointer, length: number) {
    const { buffer, offset } = this.#locate(pointer, length, 1);
    return new Uint8Array(buffer, offset, length);
  }

  #locate(pointer: Pointer, length: number, size: number) {
    this.#checkOpen();
    const end = pointer + length * size;
    if (
      !Number.isSafeInteger(pointer) ||
      !Number.isSafeInteger(length) ||
      length < 0 ||
      pointer < this.#backend.low ||
      !(end <= this.#heap.end) ||
      pointer % size !== 0
    ) {
      throw new EngineError(`no view of ${length} × ${size} bytes at ${pointer}: it is not inside the heap`);
    }
    return this.#backend.locate(pointer, length * size);
  }

  #checkOpen() {
    if (this.#closed) throw new EngineError('these kernels are closed');
  }

  #call(op: OpName, ...values: readonly (number | undefined)[]): number {
    this.#checkOpen();
    const slots = this.#backend.arguments;
    const number = this.#numbers.get(op)!;
    for (let index = 0; index < values.length; index++) slots[index] = values[index] ?? 0;
    let code = this.#backend.run(number);
    if (code === NEEDS_WORKSPACE) {
      this.#makeWorkspace(slots[DETAILS]!);
      code = this.#backend.run(number);
    }
    if (code !== 0) throw describeError(op, code, slots);
    return slots[DETAILS]!;
  }

  /** The ops' own memory. It only grows, and is kept from call to call. */
  #makeWorkspace(bytes: number) {
    this.#heap.free(this.#workspace);
    this.#workspace = this.#workspaceBytes = 0;
    this.#backend.setHeap(this.#heap.end, 0, 0);
    const size = Math.ceil((bytes * 1.25) / 65536) * 65536;
    this.#workspace = this.#heap.alloc(size);
    this.#workspaceBytes = size;
    this.#backend.setHeap(this.#heap.end, this.#workspace, size);
  }

  packedBytes(n: number, k: number, half?: boolean) {
    return this.#call('packedBytes', n, k, flag(half));
  }
  pack(a: Args<'pack'>) {
    this.#call('pack', a.n, a.k, a.stride, flag(a.transposed), flag(a.half), a.weight, a.packed);
  }
  matmul(a: Args<'matmul'>) {
    const { x, packed, y, bias } = a;
    const flags = [flag(a.accumulate), flag(a.half)];
    this.#call('matmul', a.m, a.n, a.k, a.xStride, a.yStride, ...flags, x, packed, y, bias);
  }
  packedBytesInt8(n: number, k: number) {
    return this.#call('packedBytesInt8', n, k);
  }
  packInt8(a: Args<'packInt8'>) {
    this.#call('packInt8', a.n, a.k, a.stride, a.weight, a.packed);
  }
  matmulInt8(a: Args<'matmulInt8'>) {
    const { x, packed, y, bias } = a;
    this.#call('matmulInt8', a.m, a.n, a.k, a.xStride, a.yStride, flag(a.accumulate), x, packed, y, bias);
  }
  weightGradient(a: Args<'weightGradient'>) {
    const { dyStride, xStride, dwStride } = a;
    this.#call('weightGradient', a.m, a.n, a.k, dyStride, xStride, dwStride, flag(a.half), a.dy, a.x, a.dw);
  }
  biasGradient(a: Args<'biasGradient'>) {
    this.#call('biasGradient', a.m, a.n, a.dyStride, a.dy, a.db);
  }

  gather(a: Args<'gather'>) {
    this.#call('gather', a.rows, a.width, a.count, a.table, a.ids, a.out);
  }
  scatterAdd(a: Args<'scatterAdd'>) {
    this.#call('scatterAdd', a.rows, a.width, a.count, a.table, a.ids, a.source);
  }
  rmsNorm(a: Args<'rmsNorm'>) {
    const outStride = a.outStride ?? a.stride;
    const shape = [a.rows, a.width, a.heads ?? 1, a.stride, outStride, a.epsilon, a.offset] as const;
    this.#call('rmsNorm', ...shape, a.x, a.weight, a.out, a.inverse, a.residual, a.sum);
  }
  rmsNormBackward(a: Args<'rmsNormBackward'>) {
    const strides = [a.stride, a.dyStride ?? a.stride, a.dxStride ?? a.stride] as const;
    const shape = [a.rows, a.width, a.heads ?? 1, ...strides, flag(a.accumulate), a.offset] as const;
    this.#call('rmsNormBackward', ...shape, a.x, a.weight, a.inverse, a.dy, a.dx, a.dweight);
  }
  rope(a: Args<'rope'>) {
    const shape = [a.rows, a.heads, a.headDim, a.stride, a.tableRows, flag(a.inverse)] as const;
    this.#call('rope', ...shape, a.x, a.positions, a.cos, a.sin);
  }
  siluMultiply(a: Args<'siluMultiply'>) {
    this.#call('siluMultiply', a.rows, a.width, a.stride, a.gate, a.up, a.out);
  }
  siluMultiplyBackward(a: Args<'siluMultiplyBackward'>) {
    this.#call('siluMultiplyBackward', a.rows, a.width, a.stride, a.gate, a.up, a.dout, a.dgate, a.dup);
  }
  geluMultiply(a: Args<'geluMultiply'>) {
    this.#call('geluMultiply', a.rows, a.width, a.stride, a.gate, a.up, a.out);
  }
  geluMultiplyBackward(a: Args<'geluMultiplyBackward'>) {
    this.#call('geluMultiplyBackward', a.rows, a.width, a.stride, a.gate, a.up, a.dout, a.dgate, a.dup);
  }
  gelu(a: Args<'gelu'>) {
    this.#call('gelu', a.count, a.x, a.out);
  }
  geluBackward(a: Args<'geluBackward'>) {
    this.#call('geluBackward', a.count, a.x, a.dout, a.dx);
  }
  softCap(a: Args<'softCap'>) {
    this.#call('softCap', a.count, a.cap, a.x);
  }
  softCapBackward(a: Args<'softCapBackward'>) {
    this.#call('softCapBackward', a.count, a.cap, a.y, a.dy);
  }
  add(a: Args<'add'>) {
    this.#call('add', a.count, a.a, a.b, a.out);
  }
  multiply(a: Args<'multiply'>) {
    this.#call('multiply', a.count, a.a, a.b, a.out);
  }
  axpy(a: Args<'axpy'>) {
    this.#call('axpy', a.count, a.alpha, a.x, a.y);
  }
  scale(a: Args<'scale'>) {
    this.#call('scale', a.count, a.alpha, a.x);
  }
  copy(a: Args<'copy'>) {
    this.#call('copy', a.count, a.from, a.to);
  }
  fill(a: Args<'fill'>) {
    this.#call('fill', a.count, a.value, a.x);
  }
  round(a: Args<'round'>) {
    this.#call('round', a.rows, a.width, a.stride, a.x);
  }

  attention(a: Args<'attention'>) {
    this.#call('attention', ...rowsOf(a), a.q, a.k, a.v, a.out, a.logsumexp);
  }
  attentionBackward(a: Args<'attentionBackward'>) {
    const { q, k, v, out, logsumexp, dout, dq, dk, dv } = a;
    this.#call('attentionBackward', ...rowsOf(a), q, k, v, out, logsumexp, dout, dq, dk, dv);
  }

  cacheBytes(a: CacheShape) {
    return this.#call('cacheBytes', a.blocks, a.blockTokens, a.kvHeads, a.headDim, flag(a.half));
  }
  cacheWrite(a: Args<'cacheWrite'>) {
    const { blocks, blockTokens, kvHeads, headDim, sequenceCount, blocksPerSequence, tokens } = a;
    const { keys, values, blockTable, sequences, positions, kStride, vStride, k, v } = a;
    // biome-ignore format: one line an idea
    this.#call(
      'cacheWrite', blocks, blockTokens, kvHeads, headDim, flag(a.half), sequenceCount, blocksPerSequence, tokens,
      keys, values, blockTable, sequences, positions, kStride, vStride, k, v,
    );
  }
  cacheAttention(a: Args<'cacheAttention'>) {
    const scale = a.scale ?? 1 / Math.sqrt(a.headDim || 1);
    const { blocks, blockTokens, kvHeads, headDim, sequenceCount, blocksPerSequence, tokens } = a;
    const { keys, values, blockTable, sequences, positions, heads, qStride, window, cap, q, out } = a;
    // biome-ignore format: one line an idea
    this.#call(
      'cacheAttention', blocks, blockTokens, kvHeads, headDim, flag(a.half), sequenceCount, blocksPerSequence, tokens,
      keys, values, blockTable, sequences, positions, heads, qStride, scale, window, cap, q, out,
    );
  }

  lossForward(a: Args<'lossForward'>) {
    const outputs = [a.logprob, a.logsumexp, a.entropy, a.sumSquares] as const;
    this.#call('lossForward', a.rows, a.vocabulary, a.temperature, a.logits, a.targets, ...outputs);
  }
  lossBackward(a: Args<'lossBackward'>) {
    const outputs = [a.logsumexp, a.entropy, a.sumSquares, a.dLogprob, a.dEntropy, a.dSumSquares] as const;
    this.#call('lossBackward', a.rows, a.vocabulary, a.temperature, a.logits, a.targets, ...outputs);
  }
  penalize(a: Args<'penalize'>) {
    const lists = [a.offsets, a.ids, a.counts, a.repetition, a.presence, a.frequency] as const;
    this.#call('penalize', a.rows, a.vocabulary, a.entries, a.logits, ...lists);
  }
  sample(a: Args<'sample'>) {
    const options = [a.temperature, a.topK, a.topP, a.minP, a.uniform] as const;
    this.#call('sample', a.rows, a.vocabulary, a.logits, ...options, a.ids, a.logprob);
  }
  logprobs(a: Args<'logprobs'>) {
    this.#call('logprobs', a.rows, a.vocabulary, a.logits, a.targets, a.temperature, a.logprob);
  }

  adamW(a: Args<'adamW'>) {
    const corrections = [1 - a.beta1 ** a.step, 1 - a.beta2 ** a.step] as const;
    const rates = [a.learningRate, a.beta1, a.beta2, a.epsilon, a.weightDecay, ...corrections] as const;
    const tensors = [a.parameter, a.gradient, a.moment1, a.moment2] as const;
    this.#call('adamW', a.count, ...rates, a.gradientScale ?? 1, ...tensors);
  }
  sumOfSquares(a: Args<'sumOfSquares'>) {
    return this.#call('sumOfSquares', a.count, a.x);
  }
  allFinite(a: Args<'allFinite'>) {
    return this.#call('allFinite', a.count, a.x) === 1;
  }
  widen(a: Args<'widen'>) {
    this.#call('widen', a.count, flag(a.format === 'f16'), a.from, a.to);
  }
  narrow(a: Args<'narrow'>) {
    this.#call('narrow', a.count, flag(a.format === 'f16'), a.from, a.to);
  }
}

function rowsOf(a: AttentionShape) {
  const scale = a.scale ?? 1 / Math.sqrt(a.headDim || 1);
  const shape = [a.tokens, a.heads, a.kvHeads, a.headDim, a.rows, a.qStride, a.kStride, a.vStride] as const;
  const rows = [a.rowStart, a.rowLength, a.prefixStart, a.prefixLength] as const;
  return [...shape, scale, ...rows, flag(a.full), a.window, a.cap] as const;
}
