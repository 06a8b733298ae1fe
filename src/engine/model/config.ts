import { ConfigError } from '../../errors.ts';
import { parseRopeScaling, type RopeScaling, ropeScalingJson } from './rope.ts';
import { parseVision, type VisionConfig, visionJson } from './vision-config.ts';

export type ModelFamily = 'llama' | 'qwen2' | 'qwen3' | 'qwen2_5_vl';

/** A decoder-only transformer: RMSNorm, rotary positions, grouped-query attention, SwiGLU. */
export interface ModelConfig {
  readonly family: ModelFamily;
  readonly vocabulary: number;
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  /** Width of the SwiGLU layer. */
  readonly intermediate: number;
  readonly contextTokens: number;
  readonly ropeBase: number;
  /** How positions beyond the first training's context are reached. */
  readonly ropeScaling?: RopeScaling | undefined;
  readonly normEpsilon: number;
  /** The output layer is the embedding matrix. */
  readonly tied: boolean;
  /** Biases on the query, key and value projections (Qwen2). */
  readonly attentionBias: boolean;
  /** RMSNorm over each query and key head before rotation (Qwen3). */
  readonly headNorm: boolean;
  readonly bosId: number | undefined;
  /** Ids that end a reply; `generation_config.json` may add more. */
  readonly eosIds: readonly number[];
  /** The encoder of a model that sees. */
  readonly vision?: VisionConfig;
}

const FAMILIES: readonly ModelFamily[] = ['llama', 'qwen2', 'qwen3', 'qwen2_5_vl'];
const DEFAULT_CONTEXT: Record<ModelFamily, number> = {
  llama: 2048,
  qwen2: 32768,
  qwen3: 32768,
  qwen2_5_vl: 32768,
};
const BIASED: readonly ModelFamily[] = ['qwen2', 'qwen2_5_vl'];

/** Biases on the query, key and value projections. */
export const hasAttentionBias = (family: ModelFamily) => BIASED.includes(family);

type Fields = Readonly<Record<string, unknown>>;

/** Reads a Hugging Face `config.json`; `file` is named in errors. What is not implemented is refused by field. */
export function parseModelConfig(whole: unknown, file: string): ModelConfig {
  if (!isFields(whole)) throw new ConfigError(`${file}: not a JSON object`);
  const family = readFamily(whole, file);
  // A model that sees says beside its vision what its decoder is, in a part of its own since transformers 4.52.
  const json = isFields(whole.text_config) ? { ...whole, ...whole.text_config } : whole;
  refuseUnsupported(json, family, file);

  const count = (name: string, fallback?: number) => readCount(json, name, fallback, file);
  const hidden = count('hidden_size');
  const heads = count('num_attention_heads');
  const kvHeads = count('num_key_value_heads', family === 'llama' ? heads : undefined);
  const headSize = count('head_dim', family === 'qwen3' ? 128 : Math.floor(hidden / heads));
  const contextTokens = count('max_position_embeddings', DEFAULT_CONTEXT[family]);
  if (heads % kvHeads !== 0) {
    throw new ConfigError(
      `${file}: num_attention_heads ${heads} is not a multiple of num_key_value_heads ${kvHeads}`,
    );
  }
  if (headSize % 2 !== 0) throw new ConfigError(`${file}: head_dim ${headSize} is odd; rotation needs pairs`);
  return {
    family,
    vocabulary: count('vocab_size'),
    hidden,
    layers: count('num_hidden_layers'),
    heads,
    kvHeads,
    headSize,
    intermediate: count('intermediate_size'),
    contextTokens,
    ropeBase: readRopeBase(json, file),
    ropeScaling: readRopeScaling(json, family, contextTokens, file),
    normEpsilon: readPositive(json, 'rms_norm_eps', 1e-6, file),
    tied: json.tie_word_embeddings === true,
    attentionBias: hasAttentionBias(family),
    headNorm: family === 'qwen3',
    ...(family === 'qwen2_5_vl' ? { vision: parseVision(whole, json, { hidden, headSize }, file) } : {}),
    bosId: typeof json.bos_token_id === 'number' ? json.bos_token_id : undefined,
    eosIds: readIds(json.eos_token_id, 'eos_token_id', file),
  };
}

/** The `config.json` that `parseModelConfig` reads back as `config`, and that transformers loads. */
export function modelConfigJson(config: ModelConfig): Record<string, unknown> {
  const names = {
    llama: 'LlamaForCausalLM',
    qwen2: 'Qwen2ForCausalLM',
    qwen3: 'Qwen3ForCausalLM',
    qwen2_5_vl: 'Qwen2_5_VLForConditionalGeneration',
  };
  return {
    architectures: [names[config.family]],
    model_type: config.family,
    vocab_size: config.vocabulary,
    hidden_size: config.hidden,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headSize,
    intermediate_size: config.intermediate,
    max_position_embeddings: config.contextTokens,
    hidden_act: 'silu',
    rms_norm_eps: config.normEpsilon,
    rope_theta: config.ropeBase,
    rope_scaling: config.vision
      ? { type: 'mrope', mrope_section: config.vision.sections }
      : config.ropeScaling
        ? ropeScalingJson(config.ropeScaling)
        : null,
    tie_word_embeddings: config.tied,
    ...(hasAttentionBias(config.family) ? {} : { attention_bias: false }),
    ...(config.vision ? visionJson(config.vision, config.hidden) : {}),
    ...(config.bosId === undefined ? {} : { bos_token_id: config.bosId }),
    ...(config.eosIds.length === 0
      ? {}
      : { eos_token_id: config.eosIds.length === 1 ? config.eosIds[0] : config.eosIds }),
    torch_dtype: 'float32',
  };
}

function readFamily(json: Fields, file: string): ModelFamily {
  const family = FAMILIES.find((name) => name === json.model_type);
  if (family) return family;
  throw new ConfigError(
    `${file}: model_type ${show(json.model_type)} is not implemented; the embedded engine runs ${FAMILIES.join(', ')}`,
  );
}

function refuseUnsupported(json: Fields, family: ModelFamily, file: string): void {
  const refuse = (name: string, value: unknown, right: string) => {
    throw new ConfigError(`${file}: ${name} ${show(value)} is not implemented; ${right}`);
  };
  const only = (name: string, allowed: readonly unknown[], right: string) => {
    const value = json[name];
    if (value !== undefined && value !== null && !allowed.includes(value)) refuse(name, value, right);
  };
  only('hidden_act', ['silu', 'swish'], 'silu is');
  only('mlp_bias', [false], 'false is');
  only('attention_dropout', [0], '0 is');
  only('partial_rotary_factor', [1], '1 is');
  only('pretraining_tp', [1], '1 is');
  // Qwen2 has its biases whatever this says.
  if (!hasAttentionBias(family)) only('attention_bias', [false], `false is, for ${family}`);
  only('use_sliding_window', [false], 'full attention is');
  // Qwen files carry a window that `use_sliding_window: false` turns off.
  if (family === 'llama') only('sliding_window', [], 'full attention is');
  for (const name of ['num_experts', 'num_local_experts', 'n_routed_experts', 'quantization_config']) {
    only(name, [0], 'dense unquantized layers are');
  }
  const layerTypes: unknown = json.layer_types;
  if (Array.isArray(layerTypes)) {
    const other = layerTypes.find((type) => type !== 'full_attention');
    if (other !== undefined) refuse('layer_types', other, 'full_attention is');
  }
}

/** Of two fields the one that scales; Qwen2.5-VL names its three axes there. */
function readRopeScaling(
  json: Fields,
  family: ModelFamily,
  contextTokens: number,
  file: string,
): RopeScaling | undefined {
  for (const name of ['rope_scaling', 'rope_parameters']) {
    const rope = json[name];
    if (rope === undefined || rope === null) continue;
    if (!isFields(rope))
      throw new ConfigError(`${file}: ${name} is ${show(rope)}; an object or null is right`);
    if (family === 'qwen2_5_vl' && (rope.rope_type ?? rope.type) === 'mrope') continue;
    const scaling = parseRopeScaling(name, rope, contextTokens, file);
    if (scaling) return scaling;
  }
  return undefined;
}

/** `rope_theta`, or since transformers 5 `rope_parameters.rope_theta`. */
function readRopeBase(json: Fields, file: string): number {
  const parameters = isFields(json.rope_parameters) ? json.rope_parameters : {};
  if (parameters.rope_theta !== undefined) return readPositive(parameters, 'rope_theta', undefined, file);
  return readPositive(json, 'rope_theta', 10000, file);
}

function readCount(json: Fields, name: string, fallback: number | undefined, file: string): number {
  const value = json[name] ?? fallback;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new ConfigError(`${file}: ${name} is ${show(value)}; a positive integer is needed`);
}

function readPositive(json: Fields, name: string, fallback: number | undefined, file: string): number {
  const value = json[name] ?? fallback;
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
  throw new ConfigError(`${file}: ${name} is ${show(value)}; a positive number is needed`);
}

function readIds(value: unknown, name: string, file: string): readonly number[] {
  if (value === undefined || value === null) return [];
  const ids: unknown[] = Array.isArray(value) ? value : [value];
  return ids.map((id) => {
    if (typeof id === 'number' && Number.isSafeInteger(id) && id >= 0) return id;
    throw new ConfigError(`${file}: ${name} is ${show(value)}; an id or a list of ids is needed`);
  });
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const show = (value: unknown) => (value === undefined ? 'missing' : JSON.stringify(value));
