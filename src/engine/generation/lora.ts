/** A LoRA adapter held beside the model, so that an update of either leaves the other: y += scale·(x·Aᵀ)·Bᵀ. */
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import { describeLayer, type Matrix } from '../model/decoder-layer.ts';
import { readAdapter } from '../training/lora.ts';

export interface LoraModule {
  readonly rank: number;
  readonly scale: number;
  /** Of the matrix that it is added to, the first of its outputs. */
  readonly column: number;
  readonly input: number;
  readonly output: number;
  /** Packed A [rank, input]. */
  readonly down: Pointer;
  /** Packed B [output, rank]. */
  readonly up: Pointer;
}

/** By the matrices of a layer. */
export interface LayerAdapters {
  readonly qkv: readonly LoraModule[];
  readonly attentionOut: readonly LoraModule[];
  readonly gateUp: readonly LoraModule[];
  readonly down: readonly LoraModule[];
}

export interface LoraWeights {
  readonly layers: readonly LayerAdapters[];
  free(): void;
}

/** Packs the adapter in `directory` (PEFT layout). */
export function loadLora(kernels: Kernels, config: ModelConfig, directory: string): LoraWeights {
  const { options, tensors } = readAdapter(directory, config);
  const { rank } = options;
  const scale = options.alpha / rank;
  const owned: Pointer[] = [];
  const free = () => {
    for (const pointer of owned) kernels.free(pointer);
  };
  const pack = (data: Float32Array, n: number, k: number) => {
    const weight = kernels.alloc(data.length * 4);
    try {
      kernels.f32(weight, data.length).set(data);
      const packed = kernels.alloc(kernels.packedBytes(n, k));
      owned.push(packed);
      kernels.pack({ weight, n, k, packed });
      return packed;
    } finally {
      kernels.free(weight);
    }
  };
  const load = ({ modules, input }: Matrix): LoraModule[] => {
    const loaded: LoraModule[] = [];
    let column = 0;
    for (const { name, output } of modules) {
      const a = tensors.get(`${name}.lora_A.weight`);
      const b = tensors.get(`${name}.lora_B.weight`);
      if (a && b) {
        const down = pack(a.data, rank, input);
        const up = pack(b.data, output, rank);
        loaded.push({ rank, scale, column, input, output, down, up });
      }
      column += output;
    }
    return loaded;
  };
  try {
    const layers = Array.from({ length: config.layers }, (_, layer) => {
      const { qkv, attentionOut, gateUp, down } = describeLayer(config, layer);
      return {
        qkv: load(qkv),
        attentionOut: load(attentionOut),
        gateUp: load(gateUp),
        down: load(down),
      };
    });
    return { layers, free };
  } catch (error) {
    free();
    throw error;
  }
}
