import { ConfigError } from '../../errors.ts';
import { FAMILIES, type FamilyTraits, type ModelFamily } from './families.ts';
import { parseRopeScaling, type RopeScaling, ropeScalingJson } from './rope.ts';
import { parseVision, type VisionConfig, visionJson } from './vision-config.ts';

/** Attention of some layers to the last few positions only. */
export interface LocalAttention {
  /** Positions that a token sees, its own the last. */
  readonly window: number;
  /** Of each layer, whether it is one of them. */
  readonly layers: readonly boolean[];
  /** The rotation of these layers, where it is another. */
  readonly rope?: { readonly ropeBase: number; readonly ropeScaling?: RopeScaling | undefined } | undefined;
}

/** A decoder-only transformer: RMSNorm, rotary positions, grouped-query attention, a gated feed-forward layer. */
export interface ModelConfig extends FamilyTraits {
  readonly family: ModelFamily;
  readonly vocabulary: number;
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  /** Width of the gated layer. */
  readonly intermediate: number;
  readonly contextTokens: number;
  readonly ropeBase: number;
  /** How positions beyond the first training's context are reached. */
  readonly ropeScaling?: RopeScaling | undefined;
  /** Sliding windows. */
  readonly local?: LocalAttention | undefined;
  /** Scores are divided by the root of this; the head size unless given. */
  readonly queryScalar?: number | undefined;
  /** Scores become cap·tanh(score / cap). */
  readonly attentionCap?: number | undefined;
  /** The same of logits, before any temperature. */
  readonly logitCap?: number | undefined;
  readonly normEpsilon: number;
  /** The output layer is the embedding matrix. */
  readonly tied: boolean;
  readonly bosId: number | undefined;
  /** Ids that end a reply; `generation_config.json` may add more. */
  readonly eosIds: readonly number[];
  /** The encoder of a model that sees. */
  readonly vision?: VisionConfig;
}

/** What scores are multiplied by. */
export function attentionScale({ queryScalar, headSize }: ModelConfig): number {
  return 1 / Math.sqrt(queryScalar ?? headSize);
}

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
  const layers = count('num_hidden_layers');
  const { traits, defaults } = FAMILIES[family];
  const kvHeads = count('num_key_value_heads', defaults.kvHeads === 'heads' ? heads : defaults.kvHeads);
  const headSize = count('head_dim', defaults.headSize ?? Math.floor(hidden / heads));
  const contextTokens = count('max_position_embeddings', defaults.contextTokens);
  const optional = (name: string, fallback: number | undefined) =>
    json[name] === null || (json[name] === undefined && fallback === undefined)
      ? undefined
      : readPositive(json, name, fallback, file);
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
    layers,
    heads,
    kvHeads,
    headSize,
    intermediate: count('intermediate_size'),
    contextTokens,
    ...readRope(json, family, contextTokens, file),
    local: readLocal(json, family, layers, contextTokens, file),
    queryScalar:
      defaults.queryScalar && readPositive(json, 'query_pre_attn_scalar', defaults.queryScalar, file),
    attentionCap: optional('attn_logit_softcapping', defaults.attentionCap),
    logitCap: optional('final_logit_softcapping', defaults.logitCap),
    normEpsilon: readPositive(json, 'rms_norm_eps', 1e-6, file),
    tied: typeof json.tie_word_embeddings === 'boolean' ? json.tie_word_embeddings : defaults.tied,
    ...traits,
    ...(family === 'qwen2_5_vl' ? { vision: parseVision(whole, json, { hidden, headSize }, file) } : {}),
    bosId: typeof json.bos_token_id === 'number' ? json.bos_token_id : undefined,
    eosIds: readIds(json.eos_token_id, 'eos_token_id', file),
  };
}

/** The `config.json` that `parseModelConfig` reads back as `config`, and that transformers loads. */
export function modelConfigJson(config: ModelConfig): Record<string, unknown> {
  return {
    architectures: [FAMILIES[config.family].architecture],
    model_type: config.family,
    vocab_size: config.vocabulary,
    hidden_size: config.hidden,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headSize,
    intermediate_size: config.intermediate,
    max_position_embeddings: config.contextTokens,
    ...(config.activation === 'gelu' ? { hidden_activation: 'gelu_pytorch_tanh' } : { hidden_act: 'silu' }),
    rms_norm_eps: config.normEpsilon,
    rope_theta: config.ropeBase,
    rope_scaling: config.vision
      ? { type: 'mrope', mrope_section: config.vision.sections }
      : config.ropeScaling
        ? ropeScalingJson(config.ropeScaling)
        : null,
    tie_word_embeddings: config.tied,
    ...localJson(config),
    ...(config.attentionBias ? {} : { attention_bias: false }),
    ...(config.vision ? visionJson(config.vision, config.hidden) : {}),
    ...(config.bosId === undefined ? {} : { bos_token_id: config.bosId }),
    ...(config.eosIds.length === 0
      ? {}
      : { eos_token_id: config.eosIds.length === 1 ? config.eosIds[0] : config.eosIds }),
    torch_dtype: 'float32',
  };
}

/** The text of a `config.json`. transformers 5 takes caps as floats only, and JSON of JavaScript says 30 for 30.0. */
export function configText(json: object): string {
  const text = JSON.stringify(json, null, 2);
  return `${text.replace(/("(?:attn|final)_logit_softcapping": \d+)(?=[,\n])/g, '$1.0')}\n`;
}

/** Windows, caps and the scale of scores, for families that have them. */
function localJson({ family, local, queryScalar, attentionCap, logitCap }: ModelConfig): Fields {
  if (!FAMILIES[family].local) return {};
  const isMixed = local?.layers.includes(false);
  return {
    // Phi-3's default lies outside of a small vocabulary.
    pad_token_id: null,
    sliding_window: local?.window ?? null,
    ...(isMixed ? { layer_types: local!.layers.map((isLocal) => (isLocal ? LOCAL_LAYER : FULL_LAYER)) } : {}),
    ...(local?.rope ? { rope_local_base_freq: local.rope.ropeBase } : {}),
    ...(queryScalar === undefined
      ? {}
      : {
          query_pre_attn_scalar: queryScalar,
          attn_logit_softcapping: attentionCap ?? null,
          final_logit_softcapping: logitCap ?? null,
        }),
  };
}

function readFamily(json: Fields, file: string): ModelFamily {
  const names = Object.keys(FAMILIES) as ModelFamily[];
  const family = names.find((name) => name === json.model_type);
  if (family) return family;
  throw new ConfigError(
    `${file}: model_type ${show(json.model_type)} is not implemented; the embedded engine runs ${names.join(', ')}`,
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
  const { traits, local, defaults } = FAMILIES[family];
  if (traits.activation === 'silu') only('hidden_act', ['silu', 'swish'], 'silu is');
  // Gemma's files say "gelu" for the one by tanh in `hidden_act`, which `hidden_activation` corrects.
  else only('hidden_activation', ['gelu_pytorch_tanh'], 'gelu_pytorch_tanh is');
  only('mlp_bias', [false], 'false is');
  only('attention_dropout', [0], '0 is');
  only('partial_rotary_factor', [1], '1 is');
  only('pretraining_tp', [1], '1 is');
  for (const name of ['resid_pdrop', 'embd_pdrop']) only(name, [0], '0 is');
  only('use_bidirectional_attention', [false], 'causal attention is');
  // Qwen2 has its biases whatever this says.
  if (!traits.attentionBias) only('attention_bias', [false], `false is, for ${family}`);
  only('use_sliding_window', [false], 'full attention is');
  // Qwen files carry a window that `use_sliding_window: false` turns off.
  if (family === 'llama') only('sliding_window', [], 'full attention is');
  if (!defaults.queryScalar) {
    for (const name of ['attn_logit_softcapping', 'final_logit_softcapping'])
      only(name, [], `it belongs to no ${family} model`);
  }
  for (const name of ['num_experts', 'num_local_experts', 'n_routed_experts', 'quantization_config']) {
    only(name, [0], 'dense unquantized layers are');
  }
  const layerTypes: unknown = json.layer_types;
  if (Array.isArray(layerTypes)) {
    const known: unknown[] = local ? [FULL_LAYER, LOCAL_LAYER] : [FULL_LAYER];
    const other = layerTypes.find((type) => !known.includes(type));
    if (other !== undefined) refuse('layer_types', other, `${known.join(' or ')} is`);
  }
}

const FULL_LAYER = 'full_attention';
const LOCAL_LAYER = 'sliding_attention';

/** Which layers have a sliding window: those that `layer_types` names, else those of the family. */
function readLocal(
  json: Fields,
  family: ModelFamily,
  layers: number,
  contextTokens: number,
  file: string,
): LocalAttention | undefined {
  const { local } = FAMILIES[family];
  const given = json.sliding_window === undefined ? local?.window : json.sliding_window;
  if (!local || given === null) return undefined;
  const window = readCount({ sliding_window: given }, 'sliding_window', undefined, file);
  const pattern = json.sliding_window_pattern ?? json._sliding_window_pattern ?? undefined;
  const every =
    pattern === undefined
      ? undefined
      : readCount({ pattern }, 'pattern', undefined, `${file}: sliding_window`);
  const types: unknown = json.layer_types;
  if (Array.isArray(types) && types.length !== layers) {
    throw new ConfigError(`${file}: layer_types has ${types.length} entries; num_hidden_layers is ${layers}`);
  }
  const isLocal = Array.from({ length: layers }, (_, layer) =>
    Array.isArray(types) ? types[layer] === LOCAL_LAYER : local.isLocal(layer, every),
  );
  if (!isLocal.includes(true)) return undefined;
  if (local.ropeBase === undefined) return { window, layers: isLocal };
  const parameters = isFields(json.rope_parameters) ? json.rope_parameters[LOCAL_LAYER] : undefined;
  const rope = isFields(parameters)
    ? {
        ropeBase: readPositive(parameters, 'rope_theta', local.ropeBase, file),
        ropeScaling: parseRopeScaling('rope_parameters', parameters, contextTokens, file),
      }
    : { ropeBase: readPositive(json, 'rope_local_base_freq', local.ropeBase, file) };
  return { window, layers: isLocal, rope };
}

/**
 * Of the layers that see all: `rope_theta` and `rope_scaling`, or since transformers 5 `rope_parameters`, where kinds of
 * layers may have their own. Qwen2.5-VL names its three axes there.
 */
function readRope(json: Fields, family: ModelFamily, contextTokens: number, file: string) {
  const given = json.rope_parameters;
  const parameters = isFields(given) && isFields(given[FULL_LAYER]) ? given[FULL_LAYER] : given;
  const from = isFields(parameters) && parameters.rope_theta !== undefined ? parameters : json;
  const ropeBase = readPositive(from, 'rope_theta', FAMILIES[family].defaults.ropeBase ?? 10000, file);
  for (const [name, rope] of [
    ['rope_scaling', json.rope_scaling],
    ['rope_parameters', parameters],
  ] as const) {
    if (rope === undefined || rope === null) continue;
    if (!isFields(rope))
      throw new ConfigError(`${file}: ${name} is ${show(rope)}; an object or null is right`);
    if (family === 'qwen2_5_vl' && (rope.rope_type ?? rope.type) === 'mrope') continue;
    const ropeScaling = parseRopeScaling(name, rope, contextTokens, file);
    if (ropeScaling) return { ropeBase, ropeScaling };
  }
  return { ropeBase, ropeScaling: undefined };
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
