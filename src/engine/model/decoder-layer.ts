/**
 * A layer of the decoder, described once: its norms and matrices, with their names in a checkpoint and their shapes.
 * Training (decoder.ts) and generation (generation/packed-weights.ts) both read this.
 */
import type { ModelConfig } from './config.ts';

/** The linear modules of a layer, by their names in a checkpoint. */
export const MODULES = {
  q: 'self_attn.q_proj',
  k: 'self_attn.k_proj',
  v: 'self_attn.v_proj',
  output: 'self_attn.o_proj',
  gate: 'mlp.gate_proj',
  up: 'mlp.up_proj',
  down: 'mlp.down_proj',
} as const;

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
  readonly outputNorm: Norm;
  readonly gateUp: Matrix;
  readonly down: Matrix;
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
  return {
    inputNorm: norm('input_layernorm', hidden),
    qkv: matrix(
      'self_attn.qkv',
      hidden,
      [
        [MODULES.q, queries],
        [MODULES.k, keys],
        [MODULES.v, keys],
      ],
      attentionBias,
    ),
    headNorms: config.headNorm
      ? { query: norm('self_attn.q_norm', headSize), key: norm('self_attn.k_norm', headSize) }
      : undefined,
    attentionOut: matrix(MODULES.output, queries, [[MODULES.output, hidden]]),
    outputNorm: norm('post_attention_layernorm', hidden),
    gateUp: matrix('mlp.gate_up', hidden, [
      [MODULES.gate, intermediate],
      [MODULES.up, intermediate],
    ]),
    down: matrix(MODULES.down, intermediate, [[MODULES.down, hidden]]),
  };
}
