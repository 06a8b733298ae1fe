import { mean } from '../statistics.ts';
import { type Clip, createOutput, type LossInput, type LossOutput } from './loss.ts';
import { clamp } from './ratio.ts';

/** Losses with one ratio per sequence. A sequence is one segment here: what the model read in one go. */

/**
 * GSPO (Zheng et al. 2025): the geometric mean of the token ratios is clipped, for all tokens alike.
 *   s = exp(mean_t(log π − log π_old)),  L_t = max(−A s, −A·clip(s, 1−low, 1+high))
 * The log of s is held at 10 or less. Meant to be aggregated as sequence-mean-token-mean.
 */
export function gspoLoss(input: LossInput, { low, high }: Clip): LossOutput {
  const output = createOutput(input);
  const logRatio = mean(input.logprobs.map((logprob, t) => logprob - input.old[t]!));
  const ratio = Math.exp(Math.min(logRatio, 10));
  const slope = logRatio <= 10 ? ratio : 0;
  for (let t = 0; t < input.logprobs.length; t++) {
    const advantage = input.advantages[t]!;
    const free = -advantage * ratio;
    const clipped = -advantage * clamp(ratio, 1 - low, 1 + high);
    output.loss[t] = Math.max(free, clipped);
    output.gradient[t] = clipped > free ? 0 : -advantage * slope;
    output.clipped[t] = clipped > free ? 1 : 0;
  }
  return output;
}

/**
 * GMPO (Zhao et al. 2025): tokens are clipped one by one, on the side where the objective would grow, and the
 * geometric mean of what remains is the sequence's ratio.
 *   k_t = sgn(A)·min(sgn(A)·κ_t, sgn(A)·clip(κ_t, −low, high)),  L = −mean(A)·exp(mean_t k_t)
 */
export function gmpoLoss(input: LossInput, { low, high }: Clip): LossOutput {
  const output = createOutput(input);
  const kept = input.logprobs.map((logprob, t) => {
    const sign = Math.sign(input.advantages[t]!);
    const logRatio = logprob - input.old[t]!;
    const bounded = clamp(logRatio, -low, high);
    output.clipped[t] = sign * bounded < sign * logRatio ? 1 : 0;
    return output.clipped[t] || sign === 0 ? sign * sign * bounded : logRatio;
  });
  const loss = -mean(input.advantages) * Math.exp(mean(kept));
  output.loss.fill(loss);
  for (let t = 0; t < kept.length; t++) {
    output.gradient[t] = output.clipped[t] || input.advantages[t] === 0 ? 0 : loss;
  }
  return output;
}
