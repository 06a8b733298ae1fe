/** A LoRA adapter held beside the model, so that an update of either leaves the other: y += (x·Aᵀ)·(scale·B)ᵀ. */
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import { MODULES } from '../model/decoder-layer.ts';
import { readAdapter } from '../training/lora.ts';

export interface LoraModule {
  readonly rank: number;
  readonly input: number;
  readonly output: number;
  /** Packed A [rank, input]. */
  readonly down: Pointer;
  /** Packed scale·B [output, rank]. */
  readonly up: Pointer;
}

export type LayerAdapters = Partial<Record<keyof typeof MODULES, LoraModule>>;

export interface LoraWeights {
  readonly layers: readonly LayerAdapters[];
  free(): void;
}

/** Packs the adapter in `directory` (PEFT layout). */
export function loadLora(kernels: Kernels, config: ModelConfig, directory: string): LoraWeights {
  const { options, tensors } = readAdapter(directory, config);
  const { rank } = options;
  const owned: Pointer[] = [];
  const free = () => {
    for (const pointer of owned) kernels.free(pointer);
  };
  const pack = (data: Float32Array, n: number, k: number, scale: number) => {
    const weight = kernels.alloc(data.length * 4);
    try {
      kernels.f32(weight, data.length).set(scale === 1 ? data : data.map((value) => value * scale));
      const packed = kernels.alloc(kernels.packedBytes(n, k));
      owned.push(packed);
      kernels.pack({ weight, n, k, packed });
      return packed;
    } finally {
      kernels.free(weight);
    }
  };
  const load = (module: string): LoraModule | undefined => {
    const a = tensors.get(`${module}.lora_A.weight`);
    const b = tensors.get(`${module}.lora_B.weight`);
    if (!a || !b) return undefined;
    const input = a.shape[1]!;
    const output = b.shape[0]!;
    return {
      rank,
      input,
      output,
      down: pack(a.data, rank, input, 1),
      up: pack(b.data, output, rank, options.alpha / rank),
    };
  };
  try {
    const layers = Array.from({ length: config.layers }, (_, layer) => {
      const modules: LayerAdapters = {};
      for (const [key, name] of Object.entries(MODULES)) {
        const module = load(`model.layers.${layer}.${name}`);
        if (module) modules[key as keyof LayerAdapters] = module;
      }
      return modules;
    });
    return { layers, free };
  } catch (error) {
    free();
    throw error;
  }
}
