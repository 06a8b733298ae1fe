import type { Random } from '../../lib/random.ts';
import { flatten, mean } from '../statistics.ts';
import { clipLoss } from './clip.ts';
import { type Clip, createOutput, type LossInput, type LossOutput } from './loss.ts';
import { ratioOf } from './ratio.ts';

/**
 * The entropy mechanism (Cui et al. 2025): entropy falls mostly through the few tokens where advantage and
 * log-prob rise together,  cov_t = (A_t − mean A)·(log π_t − mean log π).  Those tokens are picked from the whole
 * mini-batch (verl: from each micro-batch, so that its result depends on the split).
 */

/** Clip-Cov: the picked tokens lose their gradient; the rest is PPO's clip. */
export function clipCovLoss(input: LossInput, clip: Clip): LossOutput {
  const output = clipLoss(input, clip);
  input.picked?.forEach((picked, t) => {
    if (!picked) return;
    output.loss[t] = 0;
    output.gradient[t] = 0;
    output.clipped[t] = 1;
  });
  return output;
}

/** KL-Cov: the picked tokens pay for distance from the old policy.  L = −Aρ + coefficient·|log ρ| */
export function klCovLoss(input: LossInput, { coefficient }: { readonly coefficient: number }): LossOutput {
  const output = createOutput(input);
  for (let t = 0; t < input.logprobs.length; t++) {
    const { ratio, slope, logRatio } = ratioOf(input.logprobs[t]!, input.old[t]!);
    const penalty = input.picked?.[t] ? coefficient : 0;
    output.loss[t] = -input.advantages[t]! * ratio + penalty * Math.abs(logRatio);
    output.gradient[t] = -input.advantages[t]! * slope + (slope === 0 ? 0 : penalty * Math.sign(logRatio));
  }
  return output;
}

/**
 * Clip-Cov's choice: of the unclipped tokens with a covariance inside `covariance`, a random
 * max(1, ⌊fraction·N⌋).
 */
export function pickForClipCov(
  inputs: readonly LossInput[],
  options: Clip & { readonly fraction: number; readonly covariance: readonly [number, number] },
  random: Random,
): Uint8Array[] {
  const covariances = covariancesOf(inputs);
  const candidates = inputs.flatMap((input, row) => {
    const { clipped } = clipLoss(input, options);
    return [...covariances[row]!].flatMap((covariance, t) =>
      !clipped[t] && covariance > options.covariance[0] && covariance < options.covariance[1]
        ? [{ row, t }]
        : [],
    );
  });
  return marks(inputs, random.shuffle(candidates).slice(0, pickCount(inputs, options.fraction)));
}

/** KL-Cov's choice: the max(1, ⌊fraction·N⌋) tokens of largest covariance. */
export function pickForKlCov(
  inputs: readonly LossInput[],
  { fraction }: { readonly fraction: number },
): Uint8Array[] {
  const candidates = covariancesOf(inputs).flatMap((list, row) =>
    [...list].map((covariance, t) => ({ row, t, covariance })),
  );
  candidates.sort((a, b) => b.covariance - a.covariance);
  return marks(inputs, candidates.slice(0, pickCount(inputs, fraction)));
}

function covariancesOf(inputs: readonly LossInput[]): Float64Array[] {
  const meanAdvantage = mean(flatten(inputs.map(({ advantages }) => advantages)));
  const meanLogprob = mean(flatten(inputs.map(({ logprobs }) => logprobs)));
  return inputs.map(({ advantages, logprobs }) =>
    advantages.map((advantage, t) => (advantage - meanAdvantage) * (logprobs[t]! - meanLogprob)),
  );
}

function pickCount(inputs: readonly LossInput[], fraction: number): number {
  const tokens = inputs.reduce((sum, { logprobs }) => sum + logprobs.length, 0);
  return Math.max(1, Math.floor(fraction * tokens));
}

function marks(inputs: readonly LossInput[], picked: readonly { row: number; t: number }[]): Uint8Array[] {
  const lists = inputs.map(({ logprobs }) => new Uint8Array(logprobs.length));
  for (const { row, t } of picked) lists[row]![t] = 1;
  return lists;
}
