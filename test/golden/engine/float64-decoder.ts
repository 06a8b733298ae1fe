/** The decoder once more, in plain float64 loops: one row in, Σ of weighted outputs out. For finite differences. */
import type { ModelConfig } from '../../../src/engine/model/config.ts';

export type Weights = ReadonlyMap<string, Float64Array>;

/** Σ over positions i ≥ 1 of weight.logprob[i] · log π(ids[i]) + weight.entropy[i] · H + weight.sumSquares[i] · Σπ². */
export function float64Loss(
  config: ModelConfig,
  weights: Weights,
  ids: ArrayLike<number>,
  temperature: number,
  by: {
    readonly logprob: ArrayLike<number>;
    readonly entropy: ArrayLike<number>;
    readonly sumSquares: ArrayLike<number>;
  },
): number {
  const { hidden, tied, vocabulary, normEpsilon } = config;
  const get = (name: string) => weights.get(name)!;
  const embedding = get('model.embed_tokens.weight');
  let states = Array.from(ids, (id) => embedding.subarray(id * hidden, (id + 1) * hidden));
  for (let layer = 0; layer < config.layers; layer++)
    states = runLayer(config, weights, `model.layers.${layer}`, states);
  const head = tied ? embedding : get('lm_head.weight');
  let loss = 0;
  for (let position = 1; position < ids.length; position++) {
    const logits = times(
      head,
      vocabulary,
      norm(states[position - 1]!, get('model.norm.weight'), normEpsilon),
    );
    const peak = Math.max(...logits);
    const exponentials = logits.map((logit) => Math.exp((logit - peak) / temperature));
    const total = exponentials.reduce((sum, value) => sum + value, 0);
    const logs = logits.map((logit) => (logit - peak) / temperature - Math.log(total));
    loss += by.logprob[position]! * logs[ids[position]!]!;
    for (const log of logs) {
      loss += by.sumSquares[position]! * Math.exp(2 * log) - by.entropy[position]! * Math.exp(log) * log;
    }
  }
  return loss;
}

function runLayer(config: ModelConfig, weights: Weights, at: string, states: Float64Array[]): Float64Array[] {
  const { heads, kvHeads, headSize, intermediate, hidden, normEpsilon: epsilon } = config;
  const get = (name: string) => weights.get(`${at}.${name}`)!;
  const project = (name: string, count: number, x: Float64Array, position: number, normName: string) => {
    const bias = weights.get(`${at}.self_attn.${name}.bias`);
    const flat = times(get(`self_attn.${name}.weight`), count * headSize, x).map(
      (value, i) => value + (bias?.[i] ?? 0),
    );
    return Array.from({ length: count }, (_, head) => {
      const vector = flat.subarray(head * headSize, (head + 1) * headSize);
      if (normName === '') return vector;
      const normed = config.headNorm ? norm(vector, get(`self_attn.${normName}.weight`), epsilon) : vector;
      return rotate(normed, position, config.ropeBase);
    });
  };
  const normed = states.map((x) => norm(x, get('input_layernorm.weight'), epsilon));
  const queries = normed.map((x, position) => project('q_proj', heads, x, position, 'q_norm'));
  const keys = normed.map((x, position) => project('k_proj', kvHeads, x, position, 'k_norm'));
  const values = normed.map((x, position) => project('v_proj', kvHeads, x, position, ''));
  return states.map((x, position) => {
    const attended = new Float64Array(heads * headSize);
    for (let head = 0; head < heads; head++) {
      const group = Math.floor(head / (heads / kvHeads));
      const scores = keys
        .slice(0, position + 1)
        .map((key) => Math.exp(dot(queries[position]![head]!, key[group]!) / Math.sqrt(headSize)));
      const total = scores.reduce((sum, value) => sum + value, 0);
      for (const [other, score] of scores.entries()) {
        for (let i = 0; i < headSize; i++) {
          attended[head * headSize + i]! += (score / total) * values[other]![group]![i]!;
        }
      }
    }
    const middle = add(x, times(get('self_attn.o_proj.weight'), hidden, attended));
    const y = norm(middle, get('post_attention_layernorm.weight'), epsilon);
    const gate = times(get('mlp.gate_proj.weight'), intermediate, y);
    const up = times(get('mlp.up_proj.weight'), intermediate, y);
    const active = gate.map((value, i) => (value / (1 + Math.exp(-value))) * up[i]!);
    return add(middle, times(get('mlp.down_proj.weight'), hidden, active));
  });
}

const add = (a: Float64Array, b: Float64Array) => a.map((value, i) => value + b[i]!);

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

function times(matrix: Float64Array, rows: number, x: Float64Array): Float64Array {
  return Float64Array.from({ length: rows }, (_, row) =>
    dot(matrix.subarray(row * x.length, (row + 1) * x.length), x),
  );
}

function norm(x: Float64Array, weight: Float64Array, epsilon: number): Float64Array {
  const inverse = 1 / Math.sqrt(dot(x, x) / x.length + epsilon);
  return x.map((value, i) => value * inverse * weight[i]!);
}

function rotate(x: Float64Array, position: number, base: number): Float64Array {
  const half = x.length / 2;
  return x.map((value, i) => {
    const angle = position * base ** (-(i % half) / half);
    const other = i < half ? -x[i + half]! : x[i - half]!;
    return value * Math.cos(angle) + other * Math.sin(angle);
  });
}
