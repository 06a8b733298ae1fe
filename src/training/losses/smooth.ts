import { createOutput, type LossInput, type LossOutput } from './loss.ts';
import { ratioOf } from './ratio.ts';

/** Losses without a clip: something smooth holds the policy near the old one. */

/**
 * SAPO (Gao et al. 2025): a sigmoid gate in place of the clip, steeper for negative advantages.
 *   f(ρ) = (4/τ)·σ(τ(ρ − 1)),  L = −f(ρ)·A,  τ by the sign of A.  f'(1) = 1, as for the plain ratio.
 */
export function sapoLoss(
  input: LossInput,
  { positive, negative }: { readonly positive: number; readonly negative: number },
): LossOutput {
  const output = createOutput(input);
  for (let t = 0; t < input.logprobs.length; t++) {
    const advantage = input.advantages[t]!;
    const { ratio, slope } = ratioOf(input.logprobs[t]!, input.old[t]!);
    const steepness = advantage > 0 ? positive : negative;
    const gate = 1 / (1 + Math.exp(-steepness * (ratio - 1)));
    output.loss[t] = -advantage * gate * (4 / steepness);
    output.gradient[t] = -advantage * 4 * gate * (1 - gate) * slope;
  }
  return output;
}

/** DRO (Richemond et al. 2024): a quadratic tie to the old policy.  L = −(A·log π − β/2·(log π − log π_old)²) */
export function droLoss(input: LossInput, { beta }: { readonly beta: number }): LossOutput {
  const output = createOutput(input);
  for (let t = 0; t < input.logprobs.length; t++) {
    const difference = input.logprobs[t]! - input.old[t]!;
    output.loss[t] = -(input.logprobs[t]! * input.advantages[t]! - (beta / 2) * difference ** 2);
    output.gradient[t] = -input.advantages[t]! + beta * difference;
  }
  return output;
}
