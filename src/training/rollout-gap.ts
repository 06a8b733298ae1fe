import type { Metrics } from '../types.ts';
import { flatten, mean, sampleDeviation } from './statistics.ts';

/**
 * How far the trainer is from the engine that sampled, on the same tokens: of everything that can go wrong between
 * two implementations of one model, this shows it first. Lists are per sequence; names are verl's.
 */
export function rolloutGap(trainer: readonly Float64Array[], rollout: readonly Float64Array[]): Metrics {
  const pairs = trainer.map((list, i) => ({ trainer: list, rollout: rollout[i]! }));
  const full = pairs.filter((pair) => pair.trainer.length > 0);
  if (full.length === 0) return { 'training/rollout_probs_diff_valid': 0 };
  const [ours, theirs] = [flatten(trainer), flatten(rollout)];
  const logRatios = ours.map((logprob, t) => logprob - theirs[t]!);
  const differences = ours.map((logprob, t) => Math.abs(Math.exp(logprob) - Math.exp(theirs[t]!)));
  const sequences = full.map((pair) => ({
    trainer: mean(pair.trainer),
    rollout: mean(pair.rollout),
    logRatio: pair.trainer.reduce((sum, logprob, t) => sum + logprob - pair.rollout[t]!, 0),
  }));
  const gaps = sequences.map((sequence) => sequence.rollout - sequence.trainer);
  const hold = (x: number) => Math.max(-20, Math.min(20, x));
  return {
    'training/rollout_probs_diff_valid': 1,
    'training/rollout_probs_diff_max': differences.reduce((a, b) => Math.max(a, b)),
    'training/rollout_probs_diff_mean': mean(differences),
    'training/rollout_probs_diff_std': sampleDeviation(differences),
    'training/rollout_actor_probs_pearson_corr': pearson(ours.map(Math.exp), theirs.map(Math.exp)),
    'rollout_corr/kl': 0 - mean(logRatios),
    'rollout_corr/k3_kl': mean(logRatios.map((x) => Math.exp(hold(x)) - 1 - hold(x))),
    'rollout_corr/training_ppl': mean(sequences.map((sequence) => Math.exp(-sequence.trainer))),
    'rollout_corr/training_log_ppl': -mean(sequences.map((sequence) => sequence.trainer)),
    'rollout_corr/rollout_ppl': mean(sequences.map((sequence) => Math.exp(-sequence.rollout))),
    'rollout_corr/rollout_log_ppl': -mean(sequences.map((sequence) => sequence.rollout)),
    'rollout_corr/log_ppl_diff': mean(gaps),
    'rollout_corr/log_ppl_abs_diff': mean(gaps.map(Math.abs)),
    'rollout_corr/log_ppl_diff_max': gaps.reduce((a, b) => Math.max(a, b)),
    'rollout_corr/log_ppl_diff_min': gaps.reduce((a, b) => Math.min(a, b)),
    'rollout_corr/ppl_ratio': mean(gaps.map(Math.exp)),
    'rollout_corr/chi2_token': mean(logRatios.map((x) => Math.exp(2 * hold(x)))) - 1,
    'rollout_corr/chi2_seq': mean(sequences.map(({ logRatio }) => Math.exp(2 * hold(logRatio)))) - 1,
  };
}

/** 1 for two constant lists, which agree as far as one can tell. */
function pearson(a: Float64Array, b: Float64Array): number {
  const [meanA, meanB] = [mean(a), mean(b)];
  let [both, squaresA, squaresB] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    both += (a[i]! - meanA) * (b[i]! - meanB);
    squaresA += (a[i]! - meanA) ** 2;
    squaresB += (b[i]! - meanB) ** 2;
  }
  return squaresA > 0 && squaresB > 0 ? both / Math.sqrt(squaresA * squaresB) : 1;
}
