import { atLeast, setting } from '../../lib/setting.ts';
import { createOutput, type Loss, type LossInput, type LossOutput } from './loss.ts';
import { clamp, ratioOf } from './ratio.ts';

/** A ratio may go from 1 − low to 1 + high. */
export interface Clip {
  readonly low: number;
  readonly high: number;
}

/** The bounds as settings of a loss. In a program they are the option `clip`, in YAML clipLow and clipHigh. */
export const clipSettings = (low: number, high: number) => ({
  low: setting(atLeast(0), low, 'A ratio may fall to 1 − low.'),
  high: setting(atLeast(0), high, 'A ratio may rise to 1 + high.'),
});

const settings = {
  ...clipSettings(0.2, 0.2),
  dual: setting(atLeast(0), 0, 'Upper bound of the loss on negative advantages, as a ratio; 0 is off.'),
};

/** The loss of most algorithms. */
export const clip: Loss<typeof settings> = {
  kind: 'clip',
  settings,
  takesRatio: true,
  silentWithoutAdvantage: true,
  compute: clipLoss,
  check({ low, dual }) {
    if (low >= 1) return `the clip's low bound is ${low}, which lets a ratio fall to 0; use less than 1`;
    if (dual > 0 && dual <= 1) {
      return `dualClip is ${dual}; it bounds a ratio that is already above 1, so use more than 1, or 0 for off`;
    }
    return undefined;
  },
};

/**
 * PPO's clipped surrogate (Schulman et al. 2017), with a bound for each side (DAPO's clip-higher, Yu et al. 2025) and
 * dual clip (Ye et al. 2020), which bounds the loss where a negative advantage meets a large ratio.
 *   L = max(−Aρ, −A·clip(ρ, 1−low, 1+high));  A < 0: L = min(L, −A·dual)
 */
export function clipLoss(
  input: LossInput,
  { low, high, dual = 0 }: Clip & { readonly dual?: number },
): LossOutput {
  const output = createOutput(input);
  for (let t = 0; t < input.logprobs.length; t++) {
    const advantage = input.advantages[t]!;
    const { ratio, slope } = ratioOf(input.logprobs[t]!, input.old[t]!);
    const free = -advantage * ratio;
    const clipped = -advantage * clamp(ratio, 1 - low, 1 + high);
    const bound = dual > 0 && advantage < 0 ? -advantage * dual : Number.POSITIVE_INFINITY;
    const worse = Math.max(free, clipped);
    output.loss[t] = Math.min(worse, bound);
    output.gradient[t] = clipped > free || worse > bound ? 0 : -advantage * slope;
    output.clipped[t] = clipped > free ? 1 : 0;
    output.clippedLower[t] = worse > bound ? 1 : 0;
  }
  return output;
}
