import { type Clip, createOutput, type LossInput, type LossOutput } from './loss.ts';
import { clamp, ratioOf } from './ratio.ts';

/**
 * Losses of the form −c·A·log π with a coefficient c that carries no gradient: a clipped token still teaches,
 * or is dropped, but is never stuck at the edge of a clip.
 */

/** REINFORCE (Williams 1992), the loss of GPG.  L = −A·log π */
export function reinforceLoss(input: LossInput): LossOutput {
  return weighted(input, () => 1);
}

/** CISPO (MiniMax-M1, 2025): the importance weight is clipped, not the token.  c = clip(ρ, 1−low, 1+high) */
export function cispoLoss(input: LossInput, { low, high }: Clip): LossOutput {
  return weighted(input, (t, output) => {
    const { ratio } = ratioOf(input.logprobs[t]!, input.old[t]!);
    const coefficient = clamp(ratio, 1 - low, 1 + high);
    output.clipped[t] = coefficient === ratio ? 0 : 1;
    return coefficient;
  });
}

/**
 * DPPO (2026, arXiv 2602.04879): a token is dropped when the divergence of the two policies, seen as "this token or
 * another", is past a bound in the direction in which the advantage pushes.  c = min(ρ, cap) if valid, else 0
 *   tv:  valid if π − π_old ≤ high (A > 0),  π − π_old ≥ −low (A ≤ 0)
 *   kl:  valid if KL(old ‖ new) of the two-way choice ≤ high or π ≤ π_old (A > 0);  ≤ low or π ≥ π_old (A ≤ 0)
 */
export function dppoLoss(
  input: LossInput,
  { low, high, divergence, cap }: Clip & { readonly divergence: 'tv' | 'kl'; readonly cap: number },
): LossOutput {
  return weighted(input, (t, output) => {
    const [logprob, logOld] = [input.logprobs[t]!, input.old[t]!];
    const [now, old] = [Math.exp(logprob), Math.exp(logOld)];
    const rises = input.advantages[t]! > 0;
    const bound = rises ? high : low;
    const towards = rises ? now - old : old - now;
    const kl = old * (logOld - logprob) + (1 - old) * Math.log((1 - old + 1e-8) / (1 - now + 1e-8));
    const valid = divergence === 'tv' ? towards <= bound : kl <= bound || towards <= 0;
    const { ratio } = ratioOf(logprob, logOld);
    output.clipped[t] = valid ? 0 : 1;
    output.clippedLower[t] = valid && ratio > cap ? 1 : 0;
    return valid ? Math.min(ratio, cap) : 0;
  });
}

function weighted(input: LossInput, coefficientOf: (t: number, output: LossOutput) => number): LossOutput {
  const output = createOutput(input);
  for (let t = 0; t < input.logprobs.length; t++) {
    const gradient = -coefficientOf(t, output) * input.advantages[t]!;
    output.gradient[t] = gradient;
    output.loss[t] = gradient * input.logprobs[t]!;
  }
  return output;
}
