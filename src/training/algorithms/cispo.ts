import { clipSettings } from '../losses/clip.ts';
import { clamp, ratioOf } from '../losses/ratio.ts';
import { weighted } from '../losses/weighted.ts';
import { algorithm } from './define.ts';
import { grpo } from './grpo.ts';

/**
 * CISPO (MiniMax-M1, 2025): GRPO's advantage; the importance weight is clipped, and tokens never lose their gradient.
 *   L = −c·A·log π,  c = clip(ρ, 1−low, 1+high) without gradient
 */
export const cispo = algorithm({
  name: 'cispo',
  title: 'CISPO',
  advantage: grpo.definition.advantage,
  loss: {
    kind: 'cispo',
    settings: clipSettings(0.2, 0.28),
    takesRatio: true,
    silentWithoutAdvantage: true,
    compute: (input, { low, high }) =>
      weighted(input, (t, output) => {
        const { ratio } = ratioOf(input.logprobs[t]!, input.old[t]!);
        const coefficient = clamp(ratio, 1 - low, 1 + high);
        output.clipped[t] = coefficient === ratio ? 0 : 1;
        return coefficient;
      }),
  },
  verl: { losses: { cispo: {} } },
});
