/** Matrices that are never trained, in bfloat16: packed as soon as their parts are read, so that no floats stay. */
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import { fusedGroup, rowElements, type WeightSpec, weightElements } from './weights.ts';

export interface PackedForms {
  /** For y = x·Wᵀ. */
  readonly forward: Pointer;
  /** For dx = dy·W; 0 where no backward is asked for. */
  readonly transposed: Pointer;
}

interface Frozen extends PackedForms {
  readonly specs: readonly WeightSpec[];
  readonly rows: number;
  readonly columns: number;
}

export class FrozenMatrices {
  readonly #kernels: Kernels;
  /** By the name of each part. */
  readonly #byName = new Map<string, Frozen>();

  constructor(kernels: Kernels, specs: readonly WeightSpec[], backward: boolean) {
    this.#kernels = kernels;
    const groups = new Map<string, WeightSpec[]>();
    for (const spec of specs) {
      const group = fusedGroup(spec.name);
      groups.set(group, [...(groups.get(group) ?? []), spec]);
    }
    for (const parts of groups.values()) {
      const rows = parts.reduce((sum, { shape }) => sum + shape[0]!, 0);
      const columns = rowElements(parts[0]!);
      const take = (n: number, k: number) => kernels.alloc(kernels.packedBytes(n, k, true));
      const matrix = {
        specs: parts,
        rows,
        columns,
        forward: take(rows, columns),
        transposed: backward ? take(columns, rows) : 0,
      };
      for (const { name } of parts) this.#byName.set(name, matrix);
    }
  }

  forms(name: string): PackedForms | undefined {
    return this.#byName.get(name);
  }

  /** Parts of one matrix are read one after another; what is not of a matrix goes where `plain` says. */
  fill(
    read: (target: (spec: WeightSpec) => Float32Array) => void,
    plain: (spec: WeightSpec) => Float32Array,
  ): void {
    const kernels = this.#kernels;
    const largest = Math.max(0, ...[...this.#byName.values()].map(({ rows, columns }) => rows * columns));
    const staged = kernels.alloc(4 * largest);
    let open: { readonly matrix: Frozen; floats: number } | undefined;
    const seal = () => {
      if (!open) return;
      const { matrix, floats } = open;
      const { rows: n, columns: k, forward, transposed, specs } = matrix;
      if (floats !== n * k) throw new Error(`the parts of ${specs[0]!.name} were not read together`);
      kernels.pack({ weight: staged, n, k, packed: forward, half: true });
      if (transposed) {
        kernels.pack({ weight: staged, n, k, packed: transposed, transposed: true, half: true });
      }
      open = undefined;
    };
    try {
      read((spec) => {
        const matrix = this.#byName.get(spec.name);
        if (!matrix) return plain(spec);
        if (open?.matrix !== matrix) {
          seal();
          open = { matrix, floats: 0 };
        }
        const target = kernels.f32(staged + 4 * open!.floats, weightElements(spec));
        open!.floats += target.length;
        return target;
      });
      seal();
    } finally {
      kernels.free(staged);
    }
  }

  close(): void {
    for (const { forward, transposed } of new Set(this.#byName.values())) {
      this.#kernels.free(forward);
      this.#kernels.free(transposed);
    }
  }
}
