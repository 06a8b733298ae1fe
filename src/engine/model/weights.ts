import type { ModelConfig } from './config.ts';
import { describeLayer, type Matrix, type Norm } from './decoder-layer.ts';
import type { VisionConfig } from './vision-config.ts';

/** A weight of a model under its Hugging Face name; the data is row-major f32, `[out, in]` for a linear layer. */
export interface WeightSpec {
  readonly name: string;
  readonly shape: readonly number[];
  /** Norms and biases take no weight decay; linear layers may carry LoRA. */
  readonly kind: 'embedding' | 'linear' | 'bias' | 'norm';
}

/** Every weight of a model, in the order of the computation. A tied model has no `lm_head.weight`. */
export function weightSpecs(config: ModelConfig): WeightSpec[] {
  const specs: WeightSpec[] = [embedding(config)];
  for (let layer = 0; layer < config.layers; layer++) specs.push(...layerSpecs(config, layer));
  specs.push({ name: 'model.norm.weight', shape: [config.hidden], kind: 'norm' });
  if (!config.tied) {
    specs.push({ name: 'lm_head.weight', shape: [config.vocabulary, config.hidden], kind: 'linear' });
  }
  return config.vision ? [...specs, ...visionSpecs(config.vision, config.hidden)] : specs;
}

/** The weights of the encoder, `out` numbers a token. A patch is read by one matrix, which is stored as a convolution. */
export function visionSpecs(vision: VisionConfig, out: number): WeightSpec[] {
  const { hidden, intermediate, patch, frames, merge, layers } = vision;
  const norm = (name: string): WeightSpec => ({
    name: `visual.${name}.weight`,
    shape: [hidden],
    kind: 'norm',
  });
  const linear = (name: string, rows: number, columns: number): WeightSpec[] => [
    { name: `visual.${name}.weight`, shape: [rows, columns], kind: 'linear' },
    { name: `visual.${name}.bias`, shape: [rows], kind: 'bias' },
  ];
  const merged = hidden * merge * merge;
  return [
    {
      name: 'visual.patch_embed.proj.weight',
      shape: [hidden, 3, frames, patch, patch],
      kind: 'linear',
    },
    ...Array.from({ length: layers }, (_, layer) => [
      norm(`blocks.${layer}.norm1`),
      ...linear(`blocks.${layer}.attn.qkv`, 3 * hidden, hidden),
      ...linear(`blocks.${layer}.attn.proj`, hidden, hidden),
      norm(`blocks.${layer}.norm2`),
      ...linear(`blocks.${layer}.mlp.gate_proj`, intermediate, hidden),
      ...linear(`blocks.${layer}.mlp.up_proj`, intermediate, hidden),
      ...linear(`blocks.${layer}.mlp.down_proj`, hidden, intermediate),
    ]).flat(),
    norm('merger.ln_q'),
    ...linear('merger.mlp.0', merged, merged),
    ...linear('merger.mlp.2', out, merged),
  ];
}

/** The same text for weights that are one matrix (or one bias, or one stack of LoRA inputs). */
export function fusedGroup(name: string): string {
  return name.replace(/\b[qkv]_proj\b/, 'qkv').replace(/\b(gate|up)_proj\b/, 'gate_up');
}

/** Numbers of a row: what one output of a matrix reads. */
export function rowElements(spec: WeightSpec): number {
  return weightElements(spec) / spec.shape[0]!;
}

export function weightElements(spec: WeightSpec): number {
  return spec.shape.reduce((product, size) => product * size, 1);
}

export function countParameters(config: ModelConfig): number {
  return weightSpecs(config).reduce((sum, spec) => sum + weightElements(spec), 0);
}

/** Tensors some writers add and no computation needs. */
export function isIgnoredWeight(name: string, config: ModelConfig): boolean {
  return name.endsWith('.rotary_emb.inv_freq') || (config.tied && name === 'lm_head.weight');
}

function embedding(config: ModelConfig): WeightSpec {
  return {
    name: 'model.embed_tokens.weight',
    shape: [config.vocabulary, config.hidden],
    kind: 'embedding',
  };
}

function layerSpecs(config: ModelConfig, index: number): WeightSpec[] {
  const layer = describeLayer(config, index);
  const norm = ({ name, size }: Norm): WeightSpec => ({
    name: `${name}.weight`,
    shape: [size],
    kind: 'norm',
  });
  const linear = ({ modules, input, bias }: Matrix): WeightSpec[] =>
    modules.flatMap(({ name, output }): WeightSpec[] => [
      { name: `${name}.weight`, shape: [output, input], kind: 'linear' },
      ...(bias ? [{ name: `${name}.bias`, shape: [output], kind: 'bias' } as const] : []),
    ]);
  return [
    norm(layer.inputNorm),
    ...linear(layer.qkv),
    ...(layer.headNorms ? [norm(layer.headNorms.query), norm(layer.headNorms.key)] : []),
    ...linear(layer.attentionOut),
    norm(layer.outputNorm),
    ...linear(layer.gateUp),
    ...linear(layer.down),
    ...(layer.postNorms ? [norm(layer.postNorms.attention), norm(layer.postNorms.feedForward)] : []),
  ];
}
