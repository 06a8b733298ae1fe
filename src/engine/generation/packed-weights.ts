/** A model's weights as generation reads them: linear layers packed once per update, neighbours fused into one. */
import { EngineError } from '../../errors.ts';
import type { ServedAs } from '../arithmetic.ts';
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import { describeLayer, type Matrix, type Norm } from '../model/decoder-layer.ts';
import { ParameterStore } from '../model/parameters.ts';
import { visionSpecs, type WeightSpec, weightElements, weightSpecs } from '../model/weights.ts';
import { VisionEncoder } from '../vision/encoder.ts';
import { type Products, productsOf } from './products.ts';

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
  /** Of what attention and the feed-forward layer add (0: none). */
  readonly attentionPostNorm: Pointer;
  readonly feedForwardPostNorm: Pointer;
  readonly local: boolean;
}

export interface PackedWeights {
  readonly embedding: Pointer;
  readonly layers: readonly PackedLayer[];
  readonly norm: Pointer;
  readonly head: Pointer;
  /** Products with `head` and the matrices of layers. */
  readonly products: Products;
  /** Of a model that sees. */
  readonly encoder: VisionEncoder | undefined;
  free(): void;
}

/** Fills `target` with the weight's f32 data. */
export type WeightSource = (visit: (spec: WeightSpec) => Float32Array) => void;

/** Names of the matrices that weights are stacked into, by the weights' own. */
function fusedNames(config: ModelConfig): Map<string, string> {
  const names = new Map<string, string>();
  for (let index = 0; index < config.layers; index++) {
    const { qkv, attentionOut, gateUp, down } = describeLayer(config, index);
    for (const matrix of [qkv, attentionOut, gateUp, down]) {
      for (const { name } of matrix.modules) {
        names.set(`${name}.weight`, `${matrix.name}.weight`);
        names.set(`${name}.bias`, `${matrix.name}.bias`);
      }
    }
  }
  return names;
}

interface Place {
  readonly spec: WeightSpec;
  /** Name of the (fused) matrix and the weight's first row in it. */
  readonly into: string;
  readonly row: number;
}

/** The encoder's weights, which it keeps and packs by itself. */
const isOfEyes = ({ name }: WeightSpec) => name.startsWith('visual.');

/** Rows and columns of every matrix after fusing, and where each weight goes. */
function fusedLayout(config: ModelConfig) {
  const places = new Map<string, Place>();
  const shapes = new Map<string, { rows: number; width: number; kind: WeightSpec['kind']; parts: number }>();
  const names = fusedNames(config);
  for (const spec of weightSpecs(config)) {
    if (isOfEyes(spec)) continue;
    const into = names.get(spec.name) ?? spec.name;
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
export function packWeights(
  kernels: Kernels,
  config: ModelConfig,
  source: WeightSource,
  held: ServedAs = 'float32',
): PackedWeights {
  const products = productsOf(kernels, held);
  const { places, shapes } = fusedLayout(config);
  const owned: Pointer[] = [];
  const staged = new Map<string, Pointer>();
  const ready = new Map<string, Pointer>();
  const arrived = new Map<string, number>();
  const take = (floats: number) => kernels.alloc(floats * 4);
  const pack = (weight: Pointer, n: number, k: number) => {
    const packed = kernels.alloc(products.packedBytes(n, k));
    owned.push(packed);
    products.pack({ weight, n, k, packed });
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
  const eyes = config.vision && new ParameterStore(kernels, visionSpecs(config.vision, config.hidden), false);
  const encoder = eyes && new VisionEncoder(kernels, config, eyes);
  let open: string | undefined;
  const seal = () => {
    if (open !== undefined && arrived.get(open) === shapes.get(open)!.parts) finish(open);
    open = undefined;
  };
  const free = () => {
    for (const pointer of [...owned, ...staged.values()]) kernels.free(pointer);
    encoder?.close();
    eyes?.close();
  };
  try {
    source((spec) => {
      seal();
      if (eyes && isOfEyes(spec)) return eyes.value(eyes.get(spec.name));
      const { into, row } = places.get(spec.name)!;
      const { rows, width } = shapes.get(into)!;
      if (!staged.has(into)) staged.set(into, take(rows * width));
      arrived.set(into, (arrived.get(into) ?? 0) + 1);
      open = into;
      return kernels.f32(staged.get(into)! + row * width * 4, weightElements(spec));
    });
    seal();
    if (eyes && !kernels.allFinite({ x: eyes.values, count: eyes.count })) {
      throw new EngineError('a weight of the encoder is not finite; the old weights stay in use');
    }
    return { ...assemble(config, ready), products, encoder, free };
  } catch (error) {
    free();
    throw error;
  }
}

function assemble(
  config: ModelConfig,
  ready: ReadonlyMap<string, Pointer>,
): Omit<PackedWeights, 'free' | 'encoder' | 'products'> {
  const get = (name: string) => {
    const pointer = ready.get(name);
    if (pointer === undefined) throw new EngineError(`weight ${name} is missing from the update`);
    return pointer;
  };
  return {
    embedding: get('model.embed_tokens.weight'),
    layers: Array.from({ length: config.layers }, (_, index) => {
      const layer = describeLayer(config, index);
      const { inputNorm, qkv, headNorms, attentionOut, outputNorm, gateUp, down, postNorms } = layer;
      const weight = ({ name }: Norm | Matrix) => get(`${name}.weight`);
      return {
        inputNorm: weight(inputNorm),
        qkv: weight(qkv),
        qkvBias: qkv.bias ? get(`${qkv.name}.bias`) : 0,
        qNorm: headNorms ? weight(headNorms.query) : 0,
        kNorm: headNorms ? weight(headNorms.key) : 0,
        output: weight(attentionOut),
        postNorm: weight(outputNorm),
        gateUp: weight(gateUp),
        down: weight(down),
        attentionPostNorm: postNorms ? weight(postNorms.attention) : 0,
        feedForwardPostNorm: postNorms ? weight(postNorms.feedForward) : 0,
        local: layer.local,
      };
    }),
    norm: get('model.norm.weight'),
    head: get('lm_head.weight'),
  };
}
