import { clipSettings } from '../losses/clip.ts';
import { createOutput } from '../losses/loss.ts';
import { clamp } from '../losses/ratio.ts';
import { mean } from '../statistics.ts';
import { algorithm } from './define.ts';
import { grpo } from './grpo.ts';

/**
 * GSPO (Zheng et al. 2025): GRPO's advantage; the geometric mean of the token ratios is clipped, for all tokens alike.
 *   s = exp(mean_t(log π − log π_old)),  L_t = max(−A s, −A·clip(s, 1−low, 1+high))
 * The log of s is held at 10 or less. A sequence is one segment here: what the model read in one go. Bounds of the
 * paper.
 */
export const gspo = algorithm({
  name: 'gspo',
  title: 'GSPO',
  advantage: grpo.definition.advantage,
  loss: {
    kind: 'gspo',
    settings: clipSettings(0.0003, 0.0004),
    takesRatio: true,
    silentWithoutAdvantage: true,
    compute: (input, { low, high }) => {
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
    },
  },
  usual: { aggregation: 'sequence-mean-token-mean' },
  verl: { losses: { gspo: {} } },
});
