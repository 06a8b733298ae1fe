/**
 * A layer of the decoder, described once: its norms and matrices, with their names in a checkpoint and their shapes.
 * Training (decoder.ts) and generation (generation/packed-weights.ts) both read this.
 */
import type { ModelConfig } from './config.ts';

export interface Norm {
  readonly name: string;
  readonly size: number;
}

/** Linear modules with the same input, which are computed as one matrix: their rows one after another. */
export interface Matrix {
  /** Name of the whole; of a single module its own. */
  readonly name: string;
  readonly input: number;
  readonly bias: boolean;
  readonly modules: readonly { readonly name: string; readonly output: number }[];
}

export interface LayerDescription {
  readonly inputNorm: Norm;
  readonly qkv: Matrix;
  readonly headNorms: { readonly query: Norm; readonly key: Norm } | undefined;
  readonly attentionOut: Matrix;
  /** Before the feed-forward layer. */
  readonly outputNorm: Norm;
  readonly gateUp: Matrix;
  readonly down: Matrix;
  /** Of what attention and the feed-forward layer add. */
  readonly postNorms: { readonly attention: Norm; readonly feedForward: Norm } | undefined;
  /** Whether it attends in the sliding window. */
  readonly local: boolean;
}

export function describeLayer(config: ModelConfig, index: number): LayerDescription {
  const { hidden, heads, kvHeads, headSize, intermediate, attentionBias } = config;
  const at = `model.layers.${index}`;
  const norm = (name: string, size: number): Norm => ({ name: `${at}.${name}`, size });
  const matrix = (
    name: string,
    input: number,
    outputs: readonly (readonly [module: string, output: number])[],
    bias = false,
  ): Matrix => ({
    name: `${at}.${name}`,
    input,
    bias,
    modules: outputs.map(([module, output]) => ({ name: `${at}.${module}`, output })),
  });
  const [queries, keys] = [heads * headSize, kvHeads * headSize];
  const { headNorm, postNorms, fusedProjections } = config;
  const qkv = [
    ['self_attn.q_proj', queries],
    ['self_attn.k_proj', keys],
    ['self_attn.v_proj', keys],
  ] as const;
  const gateUp = [
    ['mlp.gate_proj', intermediate],
    ['mlp.up_proj', intermediate],
  ] as const;
  return {
    inputNorm: norm('input_layernorm', hidden),
    qkv: fusedProjections
      ? matrix('self_attn.qkv_proj', hidden, [['self_attn.qkv_proj', queries + 2 * keys]], attentionBias)
      : matrix('self_attn.qkv', hidden, qkv, attentionBias),
    headNorms: headNorm
      ? { query: norm('self_attn.q_norm', headSize), key: norm('self_attn.k_norm', headSize) }
      : undefined,
    attentionOut: matrix('self_attn.o_proj', queries, [['self_attn.o_proj', hidden]]),
    outputNorm: norm(postNorms ? 'pre_feedforward_layernorm' : 'post_attention_layernorm', hidden),
    gateUp: fusedProjections
      ? matrix('mlp.gate_up_proj', hidden, [['mlp.gate_up_proj', 2 * intermediate]])
      : matrix('mlp.gate_up', hidden, gateUp),
    down: matrix('mlp.down_proj', intermediate, [['mlp.down_proj', hidden]]),
    postNorms: postNorms
      ? {
          attention: norm('post_attention_layernorm', hidden),
          feedForward: norm('post_feedforward_layernorm', hidden),
        }
      : undefined,
    local: config.local?.layers[index] ?? false,
  };
}
