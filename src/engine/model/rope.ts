/** Rotary positions: how fast each pair of a head turns, and the scalings by which models reach longer contexts. */
import { ConfigError } from '../../errors.ts';

export type RopeScaling =
  | { readonly kind: 'linear'; readonly factor: number }
  | {
      readonly kind: 'llama3';
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalTokens: number;
    }
  | {
      readonly kind: 'yarn';
      readonly factor: number;
      readonly originalTokens: number;
      readonly betaFast: number;
      readonly betaSlow: number;
      /** Whether the turning range is rounded to whole pairs. */
      readonly truncate: boolean;
      /** Cosines and sines are multiplied by it. */
      readonly attention: number;
    };

export interface RopeConfig {
  readonly ropeBase: number;
  readonly headSize: number;
  readonly ropeScaling?: RopeScaling | undefined;
}

/** Radians per position of each pair, and what cosines and sines are multiplied by. */
export function ropeFrequencies(config: RopeConfig): { frequencies: Float64Array; attention: number } {
  const { ropeBase, headSize, ropeScaling } = config;
  const half = headSize / 2;
  const plain = Float64Array.from({ length: half }, (_, pair) => ropeBase ** (-pair / half));
  if (ropeScaling === undefined) return { frequencies: plain, attention: 1 };
  if (ropeScaling.kind === 'linear') {
    return { frequencies: plain.map((frequency) => frequency / ropeScaling.factor), attention: 1 };
  }
  if (ropeScaling.kind === 'llama3') {
    return { frequencies: plain.map((frequency) => llama3(frequency, ropeScaling)), attention: 1 };
  }
  const share = yarnShares(config, ropeScaling);
  return {
    frequencies: plain.map(
      (frequency, pair) => (frequency / ropeScaling.factor) * share(pair) + frequency * (1 - share(pair)),
    ),
    attention: ropeScaling.attention,
  };
}

/** Llama 3: slow pairs are slowed down by the factor, fast ones stay, those between are mixed. */
function llama3(frequency: number, scaling: Extract<RopeScaling, { kind: 'llama3' }>): number {
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalTokens } = scaling;
  const turns = (originalTokens * frequency) / (2 * Math.PI);
  if (turns > high) return frequency;
  if (turns < low) return frequency / factor;
  const share = (turns - low) / (high - low);
  return ((1 - share) * frequency) / factor + share * frequency;
}

/** YaRN: which share of a pair is slowed down, a ramp over the pairs (Peng et al. 2023, section 3.2). */
function yarnShares({ ropeBase, headSize }: RopeConfig, scaling: Extract<RopeScaling, { kind: 'yarn' }>) {
  const { originalTokens, betaFast, betaSlow, truncate } = scaling;
  const pairThatTurns = (times: number) =>
    (headSize * Math.log(originalTokens / (times * 2 * Math.PI))) / (2 * Math.log(ropeBase));
  const fast = pairThatTurns(betaFast);
  const slow = pairThatTurns(betaSlow);
  const low = Math.max(truncate ? Math.floor(fast) : fast, 0);
  const high = Math.min(truncate ? Math.ceil(slow) : slow, headSize - 1);
  const width = high === low ? 0.001 : high - low;
  return (pair: number) => Math.min(1, Math.max(0, (pair - low) / width));
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * `rope_scaling`, or since transformers 5 `rope_parameters`, of a `config.json`; undefined where positions are not scaled.
 */
export function parseRopeScaling(
  name: string,
  fields: Fields,
  contextTokens: number,
  file: string,
): RopeScaling | undefined {
  const kind = fields.rope_type ?? fields.type ?? 'default';
  const wrong = (field: string, right: string) =>
    new ConfigError(`${file}: ${name}.${field} is ${JSON.stringify(fields[field]) ?? 'missing'}; ${right}`);
  const positive = (field: string, fallback?: number) => {
    const value = fields[field] ?? fallback;
    if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
    throw wrong(field, 'a positive number is needed');
  };
  const partial = fields.partial_rotary_factor ?? 1;
  if (partial !== 1) throw wrong('partial_rotary_factor', 'only 1 is implemented');
  if (kind === 'default') return undefined;
  if (kind === 'linear') return { kind, factor: positive('factor') };
  if (kind === 'llama3') {
    return {
      kind,
      factor: positive('factor'),
      lowFrequencyFactor: positive('low_freq_factor'),
      highFrequencyFactor: positive('high_freq_factor'),
      originalTokens: positive('original_max_position_embeddings'),
    };
  }
  if (kind === 'yarn') {
    const originalTokens = positive('original_max_position_embeddings', contextTokens);
    const factor = positive(
      'factor',
      originalTokens < contextTokens ? contextTokens / originalTokens : undefined,
    );
    const scale = (times: number) => (factor <= 1 ? 1 : 0.1 * times * Math.log(factor) + 1);
    const inferred =
      fields.mscale && fields.mscale_all_dim
        ? scale(positive('mscale')) / scale(positive('mscale_all_dim'))
        : scale(1);
    return {
      kind,
      factor,
      originalTokens,
      betaFast: positive('beta_fast', 32),
      betaSlow: positive('beta_slow', 1),
      truncate: fields.truncate !== false,
      attention: positive('attention_factor', inferred),
    };
  }
  throw new ConfigError(
    `${file}: ${name}.rope_type ${JSON.stringify(kind)} is not implemented; default, linear, llama3 and yarn are`,
  );
}

/** The fields that `parseRopeScaling` reads back. */
export function ropeScalingJson(scaling: RopeScaling): Record<string, unknown> {
  const { kind, factor } = scaling;
  if (kind === 'linear') return { rope_type: kind, factor };
  const original = { original_max_position_embeddings: scaling.originalTokens };
  if (kind === 'llama3') {
    const { lowFrequencyFactor, highFrequencyFactor } = scaling;
    return {
      rope_type: kind,
      factor,
      low_freq_factor: lowFrequencyFactor,
      high_freq_factor: highFrequencyFactor,
      ...original,
    };
  }
  const { betaFast, betaSlow, truncate, attention } = scaling;
  return {
    rope_type: kind,
    factor,
    ...original,
    beta_fast: betaFast,
    beta_slow: betaSlow,
    truncate,
    attention_factor: attention,
  };
}
