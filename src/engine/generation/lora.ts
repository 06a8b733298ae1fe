/** A LoRA adapter in the PEFT layout, held beside the model: y += (x·Aᵀ)·(scale·B)ᵀ. */
import { join } from 'node:path';
import { EngineError } from '../../errors.ts';
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import { readJson, readTensors, type Tensor } from '../model/files.ts';
import { weightSpecs } from '../model/weights.ts';

export interface LoraModule {
  readonly rank: number;
  readonly input: number;
  readonly output: number;
  /** Packed A [rank, input]. */
  readonly down: Pointer;
  /** Packed scale·B [output, rank]. */
  readonly up: Pointer;
}

const MODULES = {
  'self_attn.q_proj': 'q',
  'self_attn.k_proj': 'k',
  'self_attn.v_proj': 'v',
  'self_attn.o_proj': 'output',
  'mlp.gate_proj': 'gate',
  'mlp.up_proj': 'up',
  'mlp.down_proj': 'down',
} as const;

export type LoraLayer = { [K in (typeof MODULES)[keyof typeof MODULES]]?: LoraModule };

export interface LoraWeights {
  readonly layers: readonly LoraLayer[];
  free(): void;
}

/** Settings that change the formula and are not implemented, with the values that leave it as it is. */
const PLAIN: Record<string, readonly unknown[]> = {
  use_dora: [false],
  fan_in_fan_out: [false],
  bias: ['none'],
  lora_bias: [false],
  modules_to_save: [null],
  trainable_token_indices: [null],
};

export function loadLora(kernels: Kernels, config: ModelConfig, directory: string): LoraWeights {
  const file = join(directory, 'adapter_config.json');
  const scaleOf = readScale(readJson(file), file);
  const path = join(directory, 'adapter_model.safetensors');
  const pairs = pairTensors(readTensors(path).tensors, config, path);
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
  try {
    const layers: LoraLayer[] = Array.from({ length: config.layers }, () => ({}));
    for (const { layer, module, a, b } of pairs) {
      const [rank, input] = a.shape as [number, number];
      const output = b.shape[0]!;
      const scale = scaleOf(rank, `model.layers.${layer}.${module}`);
      layers[layer]![MODULES[module]] = {
        rank,
        input,
        output,
        down: pack(a.data, rank, input),
        up: pack(
          b.data.map((value) => value * scale),
          output,
          rank,
        ),
      };
    }
    return { layers, free };
  } catch (error) {
    free();
    throw error;
  }
}

/** PEFT's scale: alpha / rank, or with `use_rslora` alpha / √rank; patterns are keyed by the end of a module's name. */
function readScale(json: unknown, file: string): (rank: number, module: string) => number {
  if (typeof json !== 'object' || json === null) throw new EngineError(`${file}: not a JSON object`);
  const fields = json as Record<string, unknown>;
  for (const [name, allowed] of Object.entries(PLAIN)) {
    const value = fields[name];
    if (value === undefined || allowed.includes(value) || (Array.isArray(value) && value.length === 0))
      continue;
    throw new EngineError(
      `${file}: ${name} ${JSON.stringify(value)} is not implemented; ${JSON.stringify(allowed[0])} is`,
    );
  }
  const alpha = fields.lora_alpha;
  if (typeof alpha !== 'number' || !Number.isFinite(alpha)) {
    throw new EngineError(`${file}: lora_alpha is ${JSON.stringify(alpha)}; a number is needed`);
  }
  const patterns = Object.entries((fields.alpha_pattern ?? {}) as Record<string, number>);
  return (rank, module) => {
    const own = patterns.find(([pattern]) => new RegExp(`(^|.*\\.)${pattern}$`).test(module))?.[1] ?? alpha;
    return own / (fields.use_rslora === true ? Math.sqrt(rank) : rank);
  };
}

interface Pair {
  readonly layer: number;
  readonly module: keyof typeof MODULES;
  readonly a: Tensor;
  readonly b: Tensor;
}

function pairTensors(tensors: readonly Tensor[], config: ModelConfig, path: string): Pair[] {
  const shapes = new Map(weightSpecs(config).map((spec) => [spec.name, spec.shape]));
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const pairs: Pair[] = [];
  for (const tensor of tensors) {
    const match = /^base_model\.model\.(model\.layers\.(\d+)\.([a-z_]+\.[a-z_]+))\.lora_([AB])\.weight$/.exec(
      tensor.name,
    );
    const shape = match && shapes.get(`${match[1]}.weight`);
    if (!match || !shape || !(match[3]! in MODULES)) {
      throw new EngineError(
        `${path}: tensor ${tensor.name} belongs to no linear layer of this ${config.family} model`,
      );
    }
    if (match[4] === 'B') {
      if (!byName.has(tensor.name.replace('.lora_B.', '.lora_A.'))) {
        throw new EngineError(`${path}: tensor ${tensor.name} has no lora_A beside it`);
      }
      continue;
    }
    const b = byName.get(tensor.name.replace('.lora_A.', '.lora_B.'));
    if (!b) throw new EngineError(`${path}: tensor ${tensor.name} has no lora_B beside it`);
    const rank = tensor.shape[0]!;
    if (tensor.shape.join() !== [rank, shape[1]].join() || b.shape.join() !== [shape[0], rank].join()) {
      throw new EngineError(
        `${path}: ${match[1]} has lora_A [${tensor.shape.join(', ')}] and lora_B [${b.shape.join(', ')}]; ` +
          `[rank, ${shape[1]}] and [${shape[0]}, rank] fit this model`,
      );
    }
    pairs.push({ layer: Number(match[2]), module: match[3] as Pair['module'], a: tensor, b });
  }
  if (pairs.length === 0) throw new EngineError(`${path}: no LoRA tensors in it`);
  return pairs;
}
