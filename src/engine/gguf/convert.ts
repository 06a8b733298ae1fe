/** A GGUF file as a model folder in the Hugging Face layout, which everything else here reads. */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../errors.ts';
import { configText, type ModelConfig, parseModelConfig } from '../model/config.ts';
import { FAMILIES, type ModelFamily } from '../model/families.ts';
import { FileSet, TOKENIZER_FILES } from '../model/files.ts';
import { parseRopeScaling, ropeFrequencies } from '../model/rope.ts';
import { weightSpecs } from '../model/weights.ts';
import { encodeTensor } from '../safetensors.ts';
import { GgufFile, type GgufValue } from './file.ts';
import { tokenizerFiles } from './tokenizer.ts';

export interface ConvertOptions {
  readonly precision: 'float32' | 'bfloat16';
  /** A folder with the model's own tokenizer, if the file's cannot be read. */
  readonly tokenizer?: string | undefined;
}

/** Writes the folder and returns its config. */
export function convertGguf(path: string, directory: string, options: ConvertOptions): ModelConfig {
  if (existsSync(join(directory, 'config.json'))) {
    throw new ConfigError(`${directory} already holds a model; choose another folder`);
  }
  const file = new GgufFile(path);
  try {
    const json = { ...configJson(file), torch_dtype: options.precision };
    const config = parseModelConfig(json, path);
    mkdirSync(directory, { recursive: true });
    const files = new FileSet(directory);
    if (options.tokenizer) files.copy(options.tokenizer, TOKENIZER_FILES);
    else {
      for (const [name, content] of Object.entries(tokenizerFiles(file)))
        files.text(name, `${JSON.stringify(content)}\n`);
    }
    files.text('config.json', configText(json));
    const tensors = readModel(file, config).map(({ name, shape, data }) => {
      if (options.precision === 'float32') return { name, shape, data };
      const bytes = encodeTensor(data, 'BF16');
      return { name, shape, data: new Uint16Array(bytes.buffer, bytes.byteOffset, data.length) };
    });
    files.tensors('model.safetensors', tensors);
    files.commit();
    return config;
  } finally {
    file.close();
  }
}

/** What GGUF calls a model's fields, in the words of `config.json`. */
function configJson(file: GgufFile): Record<string, unknown> {
  const architecture = String(file.metadata.get('general.architecture'));
  const family = MODEL_TYPES[architecture] ?? architecture;
  const field = (name: string) => file.metadata.get(`${architecture}.${name}`);
  const token = (name: string) => file.metadata.get(`tokenizer.ggml.${name}_token_id`);
  const heads = field('attention.head_count');
  return {
    architectures: [FAMILIES[family as ModelFamily]?.architecture],
    model_type: family,
    vocab_size: file.tensors.get('token_embd.weight')?.shape[0],
    hidden_size: field('embedding_length'),
    num_hidden_layers: field('block_count'),
    num_attention_heads: heads,
    num_key_value_heads: field('attention.head_count_kv') ?? heads,
    head_dim: field('attention.key_length') ?? Number(field('embedding_length')) / Number(heads),
    intermediate_size: field('feed_forward_length'),
    max_position_embeddings: field('context_length'),
    ...familyJson(file, family, field),
    rms_norm_eps: roundTrip(field('attention.layer_norm_rms_epsilon')),
    rope_theta: roundTrip(field('rope.freq_base') ?? 10000),
    ...ropeScaling(file, architecture),
    ...(Number(field('expert_count') ?? 0) > 0 ? { num_experts: field('expert_count') } : {}),
    tie_word_embeddings: !file.tensors.has('output.weight'),
    ...(token('bos') === undefined ? {} : { bos_token_id: token('bos') }),
    ...(token('eos') === undefined ? {} : { eos_token_id: token('eos') }),
  };
}

/** Llama 3 has a tensor by which the pairs are slowed down; its largest number is the factor. */
function ropeScaling(file: GgufFile, family: string): Record<string, unknown> {
  const field = (name: string) => file.metadata.get(`${family}.rope.scaling.${name}`);
  if (file.tensors.has('rope_freqs.weight')) {
    const factors = file.read('rope_freqs.weight');
    const json = { ...LLAMA_3, factor: Math.max(...factors) };
    const base = {
      ropeBase: Number(file.metadata.get(`${family}.rope.freq_base`)),
      headSize: 2 * factors.length,
    };
    const scaled = ropeFrequencies({ ...base, ropeScaling: parseRopeScaling('rope', json, 0, file.path) });
    const plain = ropeFrequencies(base).frequencies;
    const other = factors.findIndex(
      (factor, pair) => Math.abs(plain[pair]! / scaled.frequencies[pair]! / factor - 1) > 1e-3,
    );
    if (other < 0) return { rope_scaling: json };
    throw new ConfigError(
      `${file.path}: rope_freqs.weight[${other}] is ${factors[other]}; only the scaling of Llama 3 is implemented`,
    );
  }
  const kind = field('type');
  if (kind === undefined || kind === 'none') return {};
  const tokens = field('original_context_length');
  return {
    rope_scaling: {
      rope_type: kind,
      factor: roundTrip(field('factor')),
      ...(tokens === undefined ? {} : { original_max_position_embeddings: tokens }),
    },
  };
}

/** The same in all models of Llama 3.1 to 3.3. */
const LLAMA_3 = {
  rope_type: 'llama3',
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 8192,
};

/** Architectures that GGUF names otherwise; it calls Mistral a Llama. */
const MODEL_TYPES: Readonly<Record<string, ModelFamily>> = { gemma3: 'gemma3_text' };

/** Layers of the one size whose scores are scaled by hidden / heads; GGUF does not say it. */
const LAYERS_OF_27B: Readonly<Record<string, number>> = { gemma2: 46, gemma3_text: 62 };

/** Windows, caps and the scale of scores, for families that have them. */
function familyJson(
  file: GgufFile,
  family: string,
  field: (name: string) => GgufValue | undefined,
): Record<string, unknown> {
  const known = FAMILIES[family as ModelFamily];
  const factors = [...file.tensors.keys()].find((name) => name.startsWith('rope_factors_'));
  if (factors) throw new ConfigError(`${file.path}: ${factors} (longrope) is not implemented`);
  const turned = field('rope.dimension_count') ?? field('attention.key_length');
  const headSize = Number(
    field('attention.key_length') ??
      Number(field('embedding_length')) / Number(field('attention.head_count')),
  );
  if (known && turned !== undefined && Number(turned) !== headSize) {
    throw new ConfigError(
      `${file.path}: only ${String(turned)} of ${headSize} numbers of a head turn; all must`,
    );
  }
  if (!known?.local) return { hidden_act: 'silu' };
  const window = { sliding_window: Number(field('attention.sliding_window') ?? 0) || null };
  if (known.traits.activation === 'silu') return { hidden_act: 'silu', ...window };
  const is27B = field('block_count') === LAYERS_OF_27B[family];
  return {
    hidden_activation: 'gelu_pytorch_tanh',
    ...window,
    query_pre_attn_scalar: is27B
      ? Number(field('embedding_length')) / Number(field('attention.head_count'))
      : headSize,
    attn_logit_softcapping: field('attn_logit_softcapping') ?? null,
    final_logit_softcapping: field('final_logit_softcapping') ?? null,
  };
}

/** The shortest decimal of an f32: 1e-5 is stored as 9.999999747378752e-06. */
const roundTrip = (value: unknown) => (typeof value === 'number' ? Number(value.toPrecision(7)) : value);

function readModel(file: GgufFile, config: ModelConfig) {
  return weightSpecs(config).map((spec) => {
    const name = ggufName(spec.name, config);
    const stored = file.tensors.get(name);
    if (!stored) throw new ConfigError(`${file.path}: tensor ${name} is missing`);
    if (stored.shape.join() !== spec.shape.join()) {
      throw new ConfigError(
        `${file.path}: tensor ${name} has shape [${stored.shape.join(', ')}]; its metadata asks for [${spec.shape.join(', ')}]`,
      );
    }
    const data = file.read(name);
    // GGUF stores norms as they multiply.
    if (spec.kind === 'norm') for (const at of data.keys()) data[at]! -= config.normOffset;
    const heads = rotatedHeads(spec.name, config);
    return { name: spec.name, shape: spec.shape, data: heads ? halvesFirst(data, heads, config) : data };
  });
}

/** How many heads of a matrix are rotated and stored in GGUF's order. */
function rotatedHeads(name: string, { family, heads, kvHeads }: ModelConfig): number | undefined {
  if (family !== 'llama') return undefined;
  if (name.includes('.q_proj.')) return heads;
  return name.includes('.k_proj.') ? kvHeads : undefined;
}

/** GGUF's Llama has the two rows of a rotated pair side by side; Hugging Face has them half a head apart. */
function halvesFirst(data: Float32Array, heads: number, { headSize }: ModelConfig): Float32Array {
  const width = data.length / (heads * headSize);
  const result = new Float32Array(data.length);
  for (let row = 0; row < heads * headSize; row++) {
    const place = row % headSize;
    const from = row - place + 2 * (place % (headSize / 2)) + (place < headSize / 2 ? 0 : 1);
    result.set(data.subarray(from * width, (from + 1) * width), row * width);
  }
  return result;
}

const PLACES: Readonly<Record<string, string>> = {
  'model.embed_tokens': 'token_embd',
  'model.norm': 'output_norm',
  lm_head: 'output',
  input_layernorm: 'attn_norm',
  post_attention_layernorm: 'ffn_norm',
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.o_proj': 'attn_output',
  'self_attn.q_norm': 'attn_q_norm',
  'self_attn.k_norm': 'attn_k_norm',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
  'self_attn.qkv_proj': 'attn_qkv',
  'mlp.gate_up_proj': 'ffn_up',
};
/** Of layers that norm what they add. */
const POST_NORMS: Readonly<Record<string, string>> = {
  post_attention_layernorm: 'post_attention_norm',
  pre_feedforward_layernorm: 'ffn_norm',
  post_feedforward_layernorm: 'post_ffw_norm',
};

/** `model.layers.3.mlp.up_proj.weight` → `blk.3.ffn_up.weight` */
function ggufName(name: string, { postNorms }: ModelConfig): string {
  const [, layer, module, kind] = /^(?:model\.layers\.(\d+)\.)?(.+)\.(weight|bias)$/.exec(name)!;
  const place = (postNorms ? POST_NORMS[module!] : undefined) ?? PLACES[module!];
  return `${layer === undefined ? '' : `blk.${layer}.`}${place}.${kind}`;
}
