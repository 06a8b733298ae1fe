import type { Metrics } from '../types.ts';

/** A jump by this factor over the largest gap so far, to more than rounding can be, is reported. */
const JUMP = 20;
const LEAST = 1e-4;

/**
 * Watches how far the trainer's probabilities are from those that servers sampled with. On-policy the gap is arithmetic
 * alone and stays where it is: a jump means that a server computes with weights that differ from the trainer's.
 */
export function watchProbabilityGap(): (metrics: Metrics) => string[] {
  let largest: number | undefined;
  return (metrics) => {
    const gap = metrics['training/rollout_probs_diff_mean'];
    if (gap === undefined || !Number.isFinite(gap)) return [];
    const before = largest;
    largest = Math.max(largest ?? 0, gap);
    if (before === undefined || gap < LEAST || gap < JUMP * before) return [];
    return [
      `The probabilities of trainer and servers differ by ${gap.toExponential(1)} on average, and by ${before.toExponential(1)} ` +
        'at most before: servers may not have all of the new weights. training/rollout_probs_diff_mean shows it step by step.',
    ];
  };
}
