/**
 * Parameters in the heap. A store is one stretch of floats, matrices first and then norms and biases, so that the
 * optimizer takes each group in one call; gradient and moments have the same layout. Weights that are
 * always multiplied by the same input (q, k, v; gate, up) lie one after another and count as one matrix.
 */
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import { FrozenMatrices, type PackedForms } from './frozen-matrices.ts';
import { fusedGroup, rowElements, type WeightSpec, weightElements } from './weights.ts';

const ALIGNED_FLOATS = 16;

export interface Parameter {
  readonly store: ParameterStore;
  readonly spec: WeightSpec;
  /** In floats from the store's beginning; −1 where the store holds packed forms only. */
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
  /** Whether matrices are packed in bfloat16. */
  readonly half: boolean;
  /** Of what is not trained: packed as they are read; their floats are not kept. */
  readonly #frozen: FrozenMatrices | undefined;
  readonly #parameters = new Map<string, Parameter>();

  /**
   * `half`: the decoder's matrices are multiplied in bfloat16. Those of linear layers are held so too where they are not
   * trained, also transposed where a backward needs it.
   */
  constructor(
    kernels: Kernels,
    specs: readonly WeightSpec[],
    trained: boolean,
    half?: { readonly backward: boolean },
  ) {
    this.kernels = kernels;
    this.trained = trained;
    this.half = half !== undefined;
    const isFrozen = ({ kind, name }: WeightSpec) =>
      this.half && !trained && kind === 'linear' && !name.startsWith('visual.');
    const isMatrix = ({ kind }: WeightSpec) => kind === 'embedding' || kind === 'linear';
    if (half && !trained) {
      const matrices = specs.filter(isFrozen);
      this.#frozen = new FrozenMatrices(kernels, matrices, half.backward);
      for (const spec of matrices) {
        this.#parameters.set(spec.name, { store: this, spec, offset: -1, elements: weightElements(spec) });
      }
    }
    this.matrixCount = this.#place(
      specs.filter((spec) => isMatrix(spec) && !isFrozen(spec)),
      0,
    );
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

  /** Whether there are weights whose floats are not kept. */
  get isFrozen(): boolean {
    return this.#frozen !== undefined;
  }

  frozenForms(name: string): PackedForms | undefined {
    return this.#frozen?.forms(name);
  }

  /** Takes every weight that `read` brings. */
  fill(read: (target: (spec: WeightSpec) => Float32Array) => void): void {
    const plain = (spec: WeightSpec) => this.value(this.get(spec.name));
    if (this.#frozen) this.#frozen.fill(read, plain);
    else read(plain);
    this.generation++;
  }

  value(parameter: Parameter): Float32Array {
    if (parameter.offset < 0) throw new Error(`${parameter.spec.name} is held packed in bfloat16 only`);
    return this.kernels.f32(this.values + 4 * parameter.offset, parameter.elements);
  }

  gradient(parameter: Parameter): Float32Array {
    return this.kernels.f32(this.gradients + 4 * parameter.offset, parameter.elements);
  }

  clearGradients(): void {
    if (this.gradients) this.kernels.fill({ x: this.gradients, value: 0, count: this.count });
  }

  close(): void {
    this.#frozen?.close();
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

const aligned = (floats: number) => Math.ceil(floats / ALIGNED_FLOATS) * ALIGNED_FLOATS;

/** A matrix with the packed forms the kernels multiply by; they are made again when its store has changed. */
export class PackedMatrix {
  readonly rows: number;
  readonly columns: number;
  /** Whether its packed forms are in bfloat16; those of the encoder of images never are. */
  readonly half: boolean;
  readonly #store: ParameterStore;
  readonly #offset: number;
  /** Forms that the store made when the weights were read. */
  readonly #frozen: PackedForms | undefined;
  readonly #forward = { at: 0, generation: 0 };
  readonly #transposed = { at: 0, generation: 0 };

  /** `first` is the first of the parts that lie one after another; together they have `rows` rows. */
  constructor(first: Parameter, rows: number) {
    this.#store = first.store;
    this.#offset = first.offset;
    this.half = first.store.half && !first.spec.name.startsWith('visual.');
    this.#frozen = first.store.frozenForms(first.spec.name);
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
    return this.#frozen ? this.#frozen.forward : this.#packed(this.#forward, false);
  }

  /** For dx = dy·W. */
  transposed(): Pointer {
    return this.#frozen ? this.#frozen.transposed : this.#packed(this.#transposed, true);
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
    const { half } = this;
    const { kernels, generation } = this.#store;
    if (form.generation !== generation) {
      const [n, k] = transposed ? [this.columns, this.rows] : [this.rows, this.columns];
      if (form.at === 0) form.at = kernels.alloc(kernels.packedBytes(n, k, half));
      kernels.pack({ weight: this.value, n: this.rows, k: this.columns, packed: form.at, transposed, half });
      form.generation = generation;
    }
    return form.at;
  }
}
