import { describe, expect, test } from 'vitest';
import { ConfigError } from '../../errors.ts';
import { configText, modelConfigJson, parseModelConfig } from './config.ts';
import { countParameters, weightSpecs } from './weights.ts';

const LLAMA = {
  model_type: 'llama',
  vocab_size: 61,
  hidden_size: 32,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  intermediate_size: 48,
};
const parse = (json: unknown) => parseModelConfig(json, 'config.json');

test('a field left out takes the family default', () => {
  expect(parse(LLAMA)).toMatchObject({
    kvHeads: 4,
    headSize: 8,
    ropeBase: 10000,
    normEpsilon: 1e-6,
    tied: false,
  });
  expect(parse({ ...LLAMA, model_type: 'qwen3', num_key_value_heads: 2 })).toMatchObject({
    headSize: 128,
    headNorm: true,
  });
});

test('the rotation base is read from either form', () => {
  expect(parse({ ...LLAMA, rope_theta: 5e5 }).ropeBase).toBe(5e5);
  expect(parse({ ...LLAMA, rope_parameters: { rope_theta: 1000, rope_type: 'default' } }).ropeBase).toBe(
    1000,
  );
});

test('one end id and several are both lists', () => {
  expect(parse({ ...LLAMA, eos_token_id: 2 }).eosIds).toEqual([2]);
  expect(parse({ ...LLAMA, eos_token_id: [2, 5] }).eosIds).toEqual([2, 5]);
});

test('a Qwen2 window that is switched off is no obstacle', () => {
  const qwen = { ...LLAMA, model_type: 'qwen2', num_key_value_heads: 2 };
  expect(parse({ ...qwen, sliding_window: 4096, use_sliding_window: false }).attentionBias).toBe(true);
});

test('the config that is written is read back the same', () => {
  for (const family of ['llama', 'qwen2', 'qwen3', 'mistral', 'phi3', 'gemma2', 'gemma3_text'] as const) {
    const config = parse({
      ...LLAMA,
      ...(family === 'gemma2' || family === 'phi3' ? { sliding_window: 33 } : {}),
      model_type: family,
      num_key_value_heads: 2,
      head_dim: 16,
      rope_theta: 1000,
      tie_word_embeddings: true,
      eos_token_id: [1, 2],
      bos_token_id: 0,
    });
    expect(parse(JSON.parse(JSON.stringify(modelConfigJson(config))))).toEqual(config);
  }
});

const GEMMA = {
  ...LLAMA,
  num_hidden_layers: 7,
  num_key_value_heads: 2,
  head_dim: 8,
  sliding_window: 512,
};

test('windows are on the layers of the family unless others are named, with a rotation of their own in Gemma 3', () => {
  const locals = (json: object) =>
    parse({ ...GEMMA, ...json })
      .local?.layers.map(Number)
      .join('');
  expect(locals({ model_type: 'gemma2' })).toBe('1010101');
  expect(locals({ model_type: 'gemma3_text' })).toBe('1111101');
  expect(locals({ model_type: 'gemma3_text', sliding_window_pattern: 2 })).toBe('1010101');
  const types = ['full_attention', ...Array.from({ length: 6 }, () => 'sliding_attention')];
  expect(locals({ model_type: 'gemma3_text', layer_types: types })).toBe('0111111');
  expect(locals({ model_type: 'mistral' })).toBe('1111111');
  expect(locals({ model_type: 'mistral', sliding_window: null })).toBeUndefined();
  const old = { model_type: 'gemma3_text', rope_theta: 5e5, rope_local_base_freq: 2000 };
  const scaled = parse({ ...GEMMA, ...old, rope_scaling: { rope_type: 'linear', factor: 8 } });
  const nested = parse({
    ...GEMMA,
    model_type: 'gemma3_text',
    rope_parameters: {
      full_attention: { rope_type: 'linear', factor: 8, rope_theta: 5e5 },
      sliding_attention: { rope_type: 'default', rope_theta: 2000 },
    },
  });
  expect(nested).toEqual(scaled);
  expect(scaled).toMatchObject({
    ropeBase: 5e5,
    ropeScaling: { kind: 'linear', factor: 8 },
    local: { window: 512, rope: { ropeBase: 2000 } },
  });
});

test('caps, ties and the scale of scores are those of the family unless given', () => {
  expect(parse({ ...GEMMA, model_type: 'gemma2' })).toMatchObject({
    attentionCap: 50,
    logitCap: 30,
    queryScalar: 256,
    tied: true,
  });
  const without = { attn_logit_softcapping: null, final_logit_softcapping: null };
  const gemma = parse({ ...GEMMA, model_type: 'gemma2', ...without, tie_word_embeddings: false });
  expect([gemma.attentionCap, gemma.logitCap, gemma.tied]).toEqual([undefined, undefined, false]);
  expect(parse({ ...GEMMA, model_type: 'gemma3_text' }).logitCap).toBeUndefined();
});

test('caps are written as floats, which transformers 5 asks for', () => {
  const config = parse({ ...GEMMA, model_type: 'gemma2', attn_logit_softcapping: 2.5 });
  const text = configText(modelConfigJson(config));
  expect(text).toMatch(/"attn_logit_softcapping": 2\.5,/);
  expect(text).toMatch(/"final_logit_softcapping": 30\.0,/);
  expect(parse(JSON.parse(text))).toEqual(config);
});

describe('what is not implemented is refused by field and value', () => {
  const refused: [object, RegExp][] = [
    [{ model_type: 'mixtral' }, /model_type "mixtral" is not implemented/],
    [{ rope_scaling: { type: 'dynamic', factor: 2 } }, /rope_scaling.rope_type "dynamic" is not implemented/],
    [{ rope_parameters: { rope_type: 'yarn', rope_theta: 1e4 } }, /rope_parameters.factor is missing/],
    [
      { rope_parameters: { rope_type: 'default', partial_rotary_factor: 0.5 } },
      /partial_rotary_factor (is )?0.5/,
    ],
    [{ num_local_experts: 8 }, /num_local_experts 8/],
    [{ model_type: 'phi3', rope_scaling: { type: 'longrope' } }, /rope_type "longrope" is not implemented/],
    [{ model_type: 'phi3', partial_rotary_factor: 0.75 }, /partial_rotary_factor 0.75/],
    [
      { model_type: 'gemma2', num_key_value_heads: 2, hidden_activation: 'gelu' },
      /hidden_activation "gelu" is not implemented/,
    ],
    [{ model_type: 'gemma3_text', use_bidirectional_attention: true }, /use_bidirectional_attention true/],
    [{ model_type: 'gemma3' }, /model_type "gemma3" is not implemented/],
    [{ model_type: 'mistral', num_key_value_heads: 2, sliding_window: -1 }, /sliding_window is -1/],
    [{ final_logit_softcapping: 30 }, /final_logit_softcapping 30/],
    [{ sliding_window: 4096 }, /sliding_window 4096/],
    [{ use_sliding_window: true }, /use_sliding_window true/],
    [{ layer_types: ['full_attention', 'sliding_attention'] }, /layer_types "sliding_attention"/],
    [{ hidden_act: 'gelu' }, /hidden_act "gelu"/],
    [{ attention_bias: true }, /attention_bias true/],
    [{ mlp_bias: true }, /mlp_bias true/],
    [{ attention_dropout: 0.1 }, /attention_dropout 0.1/],
    [{ quantization_config: { bits: 4 } }, /quantization_config/],
    [{ head_dim: 7 }, /head_dim 7 is odd/],
    [{ num_key_value_heads: 3 }, /num_attention_heads 4 is not a multiple of num_key_value_heads 3/],
    [{ hidden_size: 'wide' }, /hidden_size is "wide"/],
    [{ vocab_size: 0 }, /vocab_size is 0/],
    [{ rope_theta: -1 }, /rope_theta is -1/],
  ];
  test.each(refused)('%j', (change, message) => {
    expect(() => parse({ ...LLAMA, ...change })).toThrow(ConfigError);
    expect(() => parse({ ...LLAMA, ...change })).toThrow(message);
  });
});

test('weights are counted as transformers counts them', () => {
  // MiniMind2-Small: 25.83M; Qwen3-0.6B: 596,049,920 (published; tied, head_dim 128)
  const minimind = {
    ...LLAMA,
    vocab_size: 6400,
    hidden_size: 512,
    num_hidden_layers: 8,
    num_attention_heads: 8,
  };
  expect(
    countParameters(
      parse({ ...minimind, num_key_value_heads: 2, intermediate_size: 1408, tie_word_embeddings: true }),
    ),
  ).toBe(25_829_888);
  const qwen3 = {
    model_type: 'qwen3',
    vocab_size: 151936,
    hidden_size: 1024,
    num_hidden_layers: 28,
    num_attention_heads: 16,
    num_key_value_heads: 8,
    head_dim: 128,
    intermediate_size: 3072,
    tie_word_embeddings: true,
  };
  expect(countParameters(parse(qwen3))).toBe(596_049_920);
});

test('a tied model has no output matrix of its own', () => {
  const names = (tied: boolean) =>
    weightSpecs(parse({ ...LLAMA, tie_word_embeddings: tied })).map(({ name }) => name);
  expect(names(true)).not.toContain('lm_head.weight');
  expect(names(false)).toContain('lm_head.weight');
});
