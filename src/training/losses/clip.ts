import { type Clip, createOutput, type LossInput, type LossOutput } from './loss.ts';
import { clamp, ratioOf } from './ratio.ts';

/**
 * PPO's clipped surrogate (Schulman et al. 2017), with bounds of its own for each side (DAPO's clip-higher, Yu et
 * al. 2025) and dual clip (Ye et al. 2020), which bounds the loss where a negative advantage meets a large ratio.
 *   L = max(−Aρ, −A·clip(ρ, 1−low, 1+high));  A < 0: L = min(L, −A·dual)
 */
export function clipLoss(
  input: LossInput,
  { low, high, dual }: Clip & { readonly dual?: number },
): LossOutput {
  const output = createOutput(input);
  for (let t = 0; t < input.logprobs.length; t++) {
    const advantage = input.advantages[t]!;
    const { ratio, slope } = ratioOf(input.logprobs[t]!, input.old[t]!);
    const free = -advantage * ratio;
    const clipped = -advantage * clamp(ratio, 1 - low, 1 + high);
    const bound = dual !== undefined && advantage < 0 ? -advantage * dual : Number.POSITIVE_INFINITY;
    const worse = Math.max(free, clipped);
    output.loss[t] = Math.min(worse, bound);
    output.gradient[t] = clipped > free || worse > bound ? 0 : -advantage * slope;
    output.clipped[t] = clipped > free ? 1 : 0;
    output.clippedLower[t] = worse > bound ? 1 : 0;
  }
  return output;
}
