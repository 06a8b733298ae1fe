import { flatten, mean } from '../statistics.ts';
import type { LossInput } from './loss.ts';

/**
 * The entropy mechanism (Cui et al. 2025): entropy falls mostly through the few tokens where advantage and
 * log-prob rise together,  cov_t = (A_t − mean A)·(log π_t − mean log π).  Those tokens are picked from the whole
 * mini-batch (verl: from each micro-batch, so that its result depends on the split).
 */
export function covariancesOf(inputs: readonly LossInput[]): Float64Array[] {
  const meanAdvantage = mean(flatten(inputs.map(({ advantages }) => advantages)));
  const meanLogprob = mean(flatten(inputs.map(({ logprobs }) => logprobs)));
  return inputs.map(({ advantages, logprobs }) =>
    advantages.map((advantage, t) => (advantage - meanAdvantage) * (logprobs[t]! - meanLogprob)),
  );
}

/** max(1, ⌊fraction·N⌋) */
export function pickCount(inputs: readonly LossInput[], fraction: number): number {
  const tokens = inputs.reduce((sum, { logprobs }) => sum + logprobs.length, 0);
  return Math.max(1, Math.floor(fraction * tokens));
}

/** 1 at the picked tokens of each row. */
export function marks(
  inputs: readonly LossInput[],
  picked: readonly { row: number; t: number }[],
): Uint8Array[] {
  const lists = inputs.map(({ logprobs }) => new Uint8Array(logprobs.length));
  for (const { row, t } of picked) lists[row]![t] = 1;
  return lists;
}
