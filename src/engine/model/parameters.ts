/**
 * Parameters in the heap. A store is one stretch of floats, matrices first and then norms and biases, so that the
 * optimizer takes each group in one call; gradient and moments have the same layout. Weights that are
 * always multiplied by the same input (q, k, v; gate, up) lie one after another and count as one matrix.
 */
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import { rowElements, type WeightSpec, weightElements } from './weights.ts';

const ALIGNED_FLOATS = 16;

export interface Parameter {
  readonly store: ParameterStore;
  readonly spec: WeightSpec;
  /** In floats from the store's beginning. */
  readonly offset: number;
  readonly elements: number;
}

export class ParameterStore {
  readonly kernels: Kernels;
  readonly trained: boolean;
  readonly values: Pointer;
  /** 0 where nothing is trained. */
  readonly gradients: Pointer;
  readonly moment1: Pointer;
  readonly moment2: Pointer;
  readonly count: number;
  /** The first `matrixCount` floats are matrices; after them norms and biases. */
  readonly matrixCount: number;
  /** Grows when values change, so that packed forms know they are stale. */
  generation = 1;
  readonly #parameters = new Map<string, Parameter>();

  constructor(kernels: Kernels, specs: readonly WeightSpec[], trained: boolean) {
    this.kernels = kernels;
    this.trained = trained;
    const isMatrix = ({ kind }: WeightSpec) => kind === 'embedding' || kind === 'linear';
    this.matrixCount = this.#place(specs.filter(isMatrix), 0);
    this.count = this.#place(
      specs.filter((spec) => !isMatrix(spec)),
      this.matrixCount,
    );
    this.values = this.#zeros();
    this.gradients = trained ? this.#zeros() : 0;
    this.moment1 = trained ? this.#zeros() : 0;
    this.moment2 = trained ? this.#zeros() : 0;
  }

  get(name: string): Parameter {
    const parameter = this.#parameters.get(name);
    if (!parameter) throw new Error(`no parameter ${name}`);
    return parameter;
  }

  has(name: string): boolean {
    return this.#parameters.has(name);
  }

  all(): Iterable<Parameter> {
    return this.#parameters.values();
  }

  value(parameter: Parameter): Float32Array {
    return this.kernels.f32(this.values + 4 * parameter.offset, parameter.elements);
  }

  gradient(parameter: Parameter): Float32Array {
    return this.kernels.f32(this.gradients + 4 * parameter.offset, parameter.elements);
  }

  clearGradients(): void {
    if (this.gradients) this.kernels.fill({ x: this.gradients, value: 0, count: this.count });
  }

  close(): void {
    for (const pointer of [this.values, this.gradients, this.moment1, this.moment2]) {
      this.kernels.free(pointer);
    }
  }

  /** Parts of one matrix follow each other without a gap; anything else starts aligned. */
  #place(specs: readonly WeightSpec[], from: number): number {
    let offset = from;
    let previous: WeightSpec | undefined;
    for (const spec of specs) {
      if (!previous || fusedGroup(previous.name) !== fusedGroup(spec.name)) offset = aligned(offset);
      this.#parameters.set(spec.name, { store: this, spec, offset, elements: weightElements(spec) });
      offset += weightElements(spec);
      previous = spec;
    }
    return aligned(offset);
  }

  #zeros(): Pointer {
    const pointer = this.kernels.alloc(4 * Math.max(1, this.count));
    if (this.count > 0) this.kernels.fill({ x: pointer, value: 0, count: this.count });
    return pointer;
  }
}

/** The same text for weights that are one matrix (or one bias, or one stack of LoRA inputs). */
function fusedGroup(name: string): string {
  return name.replace(/\b[qkv]_proj\b/, 'qkv').replace(/\b(gate|up)_proj\b/, 'gate_up');
}

const aligned = (floats: number) => Math.ceil(floats / ALIGNED_FLOATS) * ALIGNED_FLOATS;

/** A matrix with the packed forms the kernels multiply by; they are made again when its store has changed. */
export class PackedMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly #store: ParameterStore;
  readonly #offset: number;
  readonly #forward = { at: 0, generation: 0 };
  readonly #transposed = { at: 0, generation: 0 };

  /** `first` is the first of the parts that lie one after another; together they have `rows` rows. */
  constructor(first: Parameter, rows: number) {
    this.#store = first.store;
    this.#offset = first.offset;
    this.rows = rows;
    this.columns = rowElements(first.spec);
  }

  get trained(): boolean {
    return this.#store.trained;
  }

  get gradient(): Pointer {
    return this.#store.gradients + 4 * this.#offset;
  }

  get value(): Pointer {
    return this.#store.values + 4 * this.#offset;
  }

  /** For y = x·Wᵀ. */
  forward(): Pointer {
    return this.#packed(this.#forward, false);
  }

  /** For dx = dy·W. */
  transposed(): Pointer {
    return this.#packed(this.#transposed, true);
  }

  close(): void {
    const { kernels } = this.#store;
    for (const form of [this.#forward, this.#transposed]) {
      kernels.free(form.at);
      form.at = 0;
      form.generation = 0;
    }
  }

  #packed(form: { at: Pointer; generation: number }, transposed: boolean): Pointer {
    const { kernels, generation } = this.#store;
    if (form.generation !== generation) {
      const [n, k] = transposed ? [this.columns, this.rows] : [this.rows, this.columns];
      if (form.at === 0) form.at = kernels.alloc(kernels.packedBytes(n, k));
      kernels.pack({ weight: this.value, n: this.rows, k: this.columns, packed: form.at, transposed });
      form.generation = generation;
    }
    return form.at;
  }
}
