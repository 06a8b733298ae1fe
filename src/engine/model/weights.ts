import type { ModelConfig } from './config.ts';
import { describeLayer, type Matrix, type Norm } from './decoder-layer.ts';

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
  return specs;
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
  ];
}
