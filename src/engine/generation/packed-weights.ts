/** A model's weights as generation reads them: linear layers packed once per update, neighbours fused into one. */
import { EngineError } from '../../errors.ts';
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import { type WeightSpec, weightElements, weightSpecs } from '../model/weights.ts';

export interface PackedLayer {
  readonly inputNorm: Pointer;
  /** [q | k | v, hidden], and its bias (0: none). */
  readonly qkv: Pointer;
  readonly qkvBias: Pointer;
  readonly qNorm: Pointer;
  readonly kNorm: Pointer;
  readonly output: Pointer;
  readonly postNorm: Pointer;
  /** [gate | up, hidden] */
  readonly gateUp: Pointer;
  readonly down: Pointer;
}

export interface PackedWeights {
  readonly embedding: Pointer;
  readonly layers: readonly PackedLayer[];
  readonly norm: Pointer;
  readonly head: Pointer;
  free(): void;
}

/** Fills `target` with the weight's f32 data. */
export type WeightSource = (visit: (spec: WeightSpec) => Float32Array) => void;

/** The parts that are stacked into one matrix, by the end of their names; order matters. */
const FUSED: Record<string, readonly string[]> = {
  'self_attn.qkv.weight': ['self_attn.q_proj.weight', 'self_attn.k_proj.weight', 'self_attn.v_proj.weight'],
  'self_attn.qkv.bias': ['self_attn.q_proj.bias', 'self_attn.k_proj.bias', 'self_attn.v_proj.bias'],
  'mlp.gate_up.weight': ['mlp.gate_proj.weight', 'mlp.up_proj.weight'],
};

interface Place {
  readonly spec: WeightSpec;
  /** Name of the (fused) matrix and the weight's first row in it. */
  readonly into: string;
  readonly row: number;
}

/** Rows and columns of every matrix after fusing, and where each weight goes. */
function fusedLayout(config: ModelConfig) {
  const places = new Map<string, Place>();
  const shapes = new Map<string, { rows: number; width: number; kind: WeightSpec['kind']; parts: number }>();
  for (const spec of weightSpecs(config)) {
    const fused = Object.entries(FUSED).find(([, parts]) => parts.some((part) => spec.name.endsWith(part)));
    const part = fused?.[1].find((name) => spec.name.endsWith(name));
    const into = fused ? `${spec.name.slice(0, -part!.length)}${fused[0]}` : spec.name;
    const width = spec.shape[1] ?? 1;
    const shape = shapes.get(into) ?? { rows: 0, width, kind: spec.kind, parts: 0 };
    places.set(spec.name, { spec, into, row: shape.rows });
    shapes.set(into, { ...shape, rows: shape.rows + spec.shape[0]!, parts: shape.parts + 1 });
  }
  return { places, shapes };
}

/**
 * Packs a whole new set; the set in use stays as it is until this has succeeded. A matrix is staged unpacked only
 * while its parts arrive.
 */
export function packWeights(kernels: Kernels, config: ModelConfig, source: WeightSource): PackedWeights {
  const { places, shapes } = fusedLayout(config);
  const owned: Pointer[] = [];
  const staged = new Map<string, Pointer>();
  const ready = new Map<string, Pointer>();
  const arrived = new Map<string, number>();
  const take = (floats: number) => kernels.alloc(floats * 4);
  const pack = (weight: Pointer, n: number, k: number) => {
    const packed = kernels.alloc(kernels.packedBytes(n, k));
    owned.push(packed);
    kernels.pack({ weight, n, k, packed });
    return packed;
  };
  const finish = (name: string) => {
    const weight = staged.get(name)!;
    const { rows, width, kind } = shapes.get(name)!;
    if (!kernels.allFinite({ x: weight, count: rows * width })) {
      throw new EngineError(`weight ${name} holds numbers that are not finite; the old weights stay in use`);
    }
    staged.delete(name);
    if (kind !== 'linear') {
      owned.push(weight);
      ready.set(name, weight);
      if (kind === 'embedding' && config.tied) ready.set('lm_head.weight', pack(weight, rows, width));
      return;
    }
    try {
      ready.set(name, pack(weight, rows, width));
    } finally {
      kernels.free(weight);
    }
  };
  let open: string | undefined;
  const seal = () => {
    if (open !== undefined && arrived.get(open) === shapes.get(open)!.parts) finish(open);
    open = undefined;
  };
  const free = () => {
    for (const pointer of [...owned, ...staged.values()]) kernels.free(pointer);
  };
  try {
    source((spec) => {
      seal();
      const { into, row } = places.get(spec.name)!;
      const { rows, width } = shapes.get(into)!;
      if (!staged.has(into)) staged.set(into, take(rows * width));
      arrived.set(into, (arrived.get(into) ?? 0) + 1);
      open = into;
      return kernels.f32(staged.get(into)! + row * width * 4, weightElements(spec));
    });
    seal();
    return { ...assemble(config, ready), free };
  } catch (error) {
    free();
    throw error;
  }
}

function assemble(config: ModelConfig, ready: ReadonlyMap<string, Pointer>): Omit<PackedWeights, 'free'> {
  const get = (name: string) => {
    const pointer = ready.get(name);
    if (pointer === undefined) throw new EngineError(`weight ${name} is missing from the update`);
    return pointer;
  };
  return {
    embedding: get('model.embed_tokens.weight'),
    layers: Array.from({ length: config.layers }, (_, layer) => {
      const at = `model.layers.${layer}`;
      return {
        inputNorm: get(`${at}.input_layernorm.weight`),
        qkv: get(`${at}.self_attn.qkv.weight`),
        qkvBias: config.attentionBias ? get(`${at}.self_attn.qkv.bias`) : 0,
        qNorm: config.headNorm ? get(`${at}.self_attn.q_norm.weight`) : 0,
        kNorm: config.headNorm ? get(`${at}.self_attn.k_norm.weight`) : 0,
        output: get(`${at}.self_attn.o_proj.weight`),
        postNorm: get(`${at}.post_attention_layernorm.weight`),
        gateUp: get(`${at}.mlp.gate_up.weight`),
        down: get(`${at}.mlp.down_proj.weight`),
      };
    }),
    norm: get('model.norm.weight'),
    head: get('lm_head.weight'),
  };
}
