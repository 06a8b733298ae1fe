import { LOG_RATIO_LIMIT } from './losses/ratio.ts';
import { flatten, mean } from './statistics.ts';

/** Lower and upper bound. */
export type Bounds = readonly [low: number, high: number];

export const REJECTION_STATISTICS = [
  'token-k1',
  'token-k2',
  'token-k3',
  'sequence-sum-k1',
  'sequence-sum-k2',
  'sequence-sum-k3',
  'sequence-mean-k1',
  'sequence-mean-k2',
  'sequence-mean-k3',
  'sequence-max-k2',
  'sequence-max-k3',
] as const;
export type RejectionStatistic = (typeof REJECTION_STATISTICS)[number];

/**
 * The engine that sampled and the trainer that learns never agree exactly, and in asynchronous modes the engine's
 * weights are older. What to do about the tokens on which they differ. All of it is without gradient.
 */
export interface CorrectionOptions {
  /** Importance weights w = π_old / π_rollout on the loss; by sequence: the product over its tokens. */
  readonly weights?: {
    readonly level: 'token' | 'sequence';
    /** `truncate`: min(w, high). `mask`: 0 outside [low, high] (IcePop). */
    readonly outside: 'truncate' | 'mask';
    readonly bounds: Bounds;
    /** Divide by the mean weight, over tokens or sequences. */
    readonly normalize: boolean;
  };
  /** Tokens or sequences that are not trained unless all pass. Note the direction in `passes`. */
  readonly rejection?: readonly { readonly statistic: RejectionStatistic; readonly bounds: Bounds }[];
  /** A token sampled n versions ago weighs 2^(−n / halfLifeVersions); past `maxVersions` it is not trained. */
  readonly staleness?: { readonly halfLifeVersions?: number; readonly maxVersions?: number };
}

export interface CorrectionInput {
  /** log π_old − log π_rollout of each trained token. */
  readonly logRatios: Float64Array;
  /** How many versions ago each was sampled. */
  readonly ages: Float64Array;
}

export interface Correction {
  /** On the policy loss, per sequence and token; all 1 where nothing is asked. */
  readonly weights: readonly Float64Array[];
  /** 0: not trained. */
  readonly keep: readonly Uint8Array[];
  readonly metrics: Record<string, number>;
}

export function correct(sequences: readonly CorrectionInput[], options: CorrectionOptions): Correction {
  const raw = sequences.map(({ logRatios }) => rawWeights(logRatios, options.weights?.level));
  const bounded = raw.map((list) => list.map((weight) => bound(weight, options.weights)));
  const factor = options.weights?.normalize ? meanWeight(bounded, options.weights.level) : 1;
  const keep = sequences.map((sequence) => keptTokens(sequence, options));
  return {
    weights: bounded.map((list, i) =>
      list.map((weight, t) => (weight / factor) * freshness(sequences[i]!.ages[t]!, options.staleness)),
    ),
    keep,
    metrics: {
      ...(options.weights ? weightMetrics(raw, bounded, options.weights, factor) : {}),
      ...(options.rejection || options.staleness?.maxVersions !== undefined ? rejectionMetrics(keep) : {}),
    },
  };
}

/** The correction of trajectories whose tokens are in several sequences: these are laid end to end, and cut again. */
export function correctJoined(
  trajectories: readonly (readonly number[])[],
  { old, behaviour, ages }: Readonly<Record<'old' | 'behaviour' | 'ages', readonly Float64Array[]>>,
  options: CorrectionOptions,
): Correction {
  const lay = (lists: readonly Float64Array[], indices: readonly number[]) =>
    flatten(indices.map((index) => lists[index]!));
  const whole = correct(
    trajectories.map((indices) => {
      const rollout = lay(behaviour, indices);
      return {
        logRatios: lay(old, indices).map((logprob, t) => logprob - rollout[t]!),
        ages: lay(ages, indices),
      };
    }),
    options,
  );
  const weights: Float64Array[] = [];
  const keep: Uint8Array[] = [];
  trajectories.forEach((indices, i) => {
    let from = 0;
    for (const index of indices) {
      const { length } = behaviour[index]!;
      weights[index] = whole.weights[i]!.slice(from, from + length);
      keep[index] = whole.keep[i]!.slice(from, from + length);
      from += length;
    }
  });
  return { weights, keep, metrics: whole.metrics };
}

/** One weight for a whole sequence: the geometric mean over the tokens that are kept. */
export function wholeWeight(weights: Float64Array, keep: Uint8Array | undefined): Float64Array {
  const counted = weights.filter((_, t) => !keep || keep[t] === 1);
  // As verl has it: a weight of 0 counts as 1e-10.
  return weights.map(() => Math.exp(mean(counted.map((weight) => Math.log(weight + 1e-10)))));
}

const bounded = (logRatio: number) => Math.max(-LOG_RATIO_LIMIT, Math.min(LOG_RATIO_LIMIT, logRatio));

function rawWeights(logRatios: Float64Array, level: 'token' | 'sequence' | undefined): Float64Array {
  if (level === undefined) return new Float64Array(logRatios.length).fill(1);
  if (level === 'token') return logRatios.map((logRatio) => Math.exp(bounded(logRatio)));
  const product = Math.exp(bounded(logRatios.reduce((sum, logRatio) => sum + logRatio, 0)));
  return new Float64Array(logRatios.length).fill(product);
}

function bound(weight: number, options: CorrectionOptions['weights']): number {
  if (!options) return weight;
  const [low, high] = options.bounds;
  if (options.outside === 'truncate') return Math.min(weight, high);
  return weight >= low && weight <= high ? weight : 0;
}

function meanWeight(lists: readonly Float64Array[], level: 'token' | 'sequence'): number {
  const center = level === 'token' ? mean(flatten(lists)) : mean(lists.flatMap((list) => list[0] ?? []));
  return center > 0 ? center : 1;
}

const freshness = (age: number, staleness: CorrectionOptions['staleness']) =>
  staleness?.halfLifeVersions === undefined ? 1 : 2 ** (-age / staleness.halfLifeVersions);

function keptTokens({ logRatios, ages }: CorrectionInput, options: CorrectionOptions): Uint8Array {
  const keep = new Uint8Array(logRatios.length).fill(1);
  const oldest = options.staleness?.maxVersions;
  if (oldest !== undefined) {
    ages.forEach((age, t) => {
      if (age > oldest) keep[t] = 0;
    });
  }
  for (const { statistic, bounds } of options.rejection ?? []) {
    const [level, ...rest] = statistic.split('-') as ['token' | 'sequence', ...string[]];
    const estimator = rest.at(-1) as 'k1' | 'k2' | 'k3';
    const values = logRatios.map((logRatio) => divergence(bounded(logRatio), estimator));
    if (level === 'token') {
      values.forEach((value, t) => {
        if (!passes(value, estimator, bounds)) keep[t] = 0;
      });
    } else if (values.length > 0 && !passes(fold(values, rest[0]!), estimator, bounds)) keep.fill(0);
  }
  return keep;
}

/** Divergence of rollout and old policy:  k1 = −ℓ,  k2 = ℓ²/2,  k3 = e^ℓ − 1 − ℓ,  ℓ = log π_old − log π_rollout */
function divergence(logRatio: number, estimator: 'k1' | 'k2' | 'k3'): number {
  if (estimator === 'k1') return -logRatio;
  return estimator === 'k2' ? logRatio ** 2 / 2 : Math.exp(logRatio) - 1 - logRatio;
}

/** k1: the bounds are on π_rollout / π_old (not its inverse), so ln low ≤ k1 ≤ ln high. k2, k3: at most high. */
function passes(value: number, estimator: 'k1' | 'k2' | 'k3', [low, high]: Bounds): boolean {
  return estimator === 'k1' ? value >= Math.log(low) && value <= Math.log(high) : value <= high;
}

function fold(values: Float64Array, how: string): number {
  if (how === 'max') return Math.max(...values);
  const sum = values.reduce((total, value) => total + value, 0);
  return how === 'sum' ? sum : sum / values.length;
}

function weightMetrics(
  raw: readonly Float64Array[],
  boundedWeights: readonly Float64Array[],
  options: NonNullable<CorrectionOptions['weights']>,
  factor: number,
): Record<string, number> {
  const [before, after] = [flatten(raw), flatten(boundedWeights)];
  if (after.length === 0) return {};
  const center = mean(after);
  const [low, high] =
    options.outside === 'mask' ? options.bounds : [1 / options.bounds[1], options.bounds[1]];
  const share = (test: (weight: number) => boolean) => before.filter(test).length / before.length;
  const sequenceMeans = raw.filter((list) => list.length > 0).map((list) => mean(list));
  return {
    'rollout_corr/rollout_is_mean': center,
    'rollout_corr/rollout_is_max': after.reduce((a, b) => Math.max(a, b)),
    'rollout_corr/rollout_is_min': after.reduce((a, b) => Math.min(a, b)),
    'rollout_corr/rollout_is_std': Math.sqrt(mean(after.map((weight) => (weight - center) ** 2))),
    'rollout_corr/rollout_is_eff_sample_size':
      center > 0 ? 1 / mean(after.map((weight) => (weight / center) ** 2)) : 0,
    'rollout_corr/rollout_is_ratio_fraction_high': share((weight) => weight > high),
    'rollout_corr/rollout_is_ratio_fraction_low': share((weight) => weight < low),
    'rollout_corr/rollout_is_oob_ratio': share((weight) => weight < low || weight > high),
    'rollout_corr/rollout_is_seq_mean': mean(sequenceMeans),
    'rollout_corr/rollout_is_seq_fraction_high':
      sequenceMeans.filter((weight) => weight > high).length / sequenceMeans.length,
    'rollout_corr/rollout_is_seq_fraction_low':
      sequenceMeans.filter((weight) => weight < low).length / sequenceMeans.length,
    ...(options.normalize ? { 'rollout_corr/rollout_is_batch_norm_factor': factor } : {}),
  };
}

function rejectionMetrics(keep: readonly Uint8Array[]): Record<string, number> {
  const all = flatten(keep);
  if (all.length === 0) return {};
  const rejected = keep.filter((list) => list.length > 0 && !list.includes(1)).length;
  return {
    'rollout_corr/rollout_rs_masked_fraction': 1 - mean(all),
    'rollout_corr/rollout_rs_seq_masked_fraction': rejected / keep.length,
  };
}

/** Corrections known by name, with the bounds that are usual for them. */
export const corrections = {
  /** Truncated importance sampling by token (Yao et al. 2025). */
  tokenTruncated: (high = 2): CorrectionOptions => ({
    weights: { level: 'token', outside: 'truncate', bounds: [0, high], normalize: false },
  }),
  /** The same by sequence: unbiased up to the truncation, with more variance. */
  sequenceTruncated: (high = 2): CorrectionOptions => ({
    weights: { level: 'sequence', outside: 'truncate', bounds: [0, high], normalize: false },
  }),
  /** IcePop (Ling team 2025): tokens outside the bounds weigh nothing. */
  icePop: (low = 0.5, high = 5): CorrectionOptions => ({
    weights: { level: 'token', outside: 'mask', bounds: [low, high], normalize: false },
  }),
  /** Sequence weights, and sequences outside the bounds are left out. */
  sequenceMasked: (low = 0.5, high = 2): CorrectionOptions => ({
    weights: { level: 'sequence', outside: 'truncate', bounds: [0, high], normalize: false },
    rejection: [{ statistic: 'sequence-sum-k1', bounds: [low, high] }],
  }),
  /** Sequences whose mean log-ratio is outside the bounds are left out. */
  geometricRejection: (low = 0.999, high = 1.001): CorrectionOptions => ({
    rejection: [{ statistic: 'sequence-mean-k1', bounds: [low, high] }],
  }),
  k3Rejection: (high = 0.01): CorrectionOptions => ({
    rejection: [{ statistic: 'sequence-mean-k3', bounds: [0, high] }],
  }),
};
