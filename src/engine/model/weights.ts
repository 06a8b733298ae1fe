import type { ModelConfig } from './config.ts';

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

function layerSpecs(config: ModelConfig, layer: number): WeightSpec[] {
  const { hidden, heads, kvHeads, headSize, intermediate } = config;
  const at = `model.layers.${layer}`;
  const linear = (name: string, out: number, input: number, bias = false): WeightSpec[] => [
    { name: `${at}.${name}.weight`, shape: [out, input], kind: 'linear' },
    ...(bias ? [{ name: `${at}.${name}.bias`, shape: [out], kind: 'bias' } as const] : []),
  ];
  const norm = (name: string, size: number): WeightSpec => ({
    name: `${at}.${name}.weight`,
    shape: [size],
    kind: 'norm',
  });
  return [
    norm('input_layernorm', hidden),
    ...linear('self_attn.q_proj', heads * headSize, hidden, config.attentionBias),
    ...linear('self_attn.k_proj', kvHeads * headSize, hidden, config.attentionBias),
    ...linear('self_attn.v_proj', kvHeads * headSize, hidden, config.attentionBias),
    ...(config.headNorm ? [norm('self_attn.q_norm', headSize), norm('self_attn.k_norm', headSize)] : []),
    ...linear('self_attn.o_proj', hidden, heads * headSize),
    norm('post_attention_layernorm', hidden),
    ...linear('mlp.gate_proj', intermediate, hidden),
    ...linear('mlp.up_proj', intermediate, hidden),
    ...linear('mlp.down_proj', hidden, intermediate),
  ];
}
