import { clipSettings } from '../losses/clip.ts';
import { createOutput } from '../losses/loss.ts';
import { clamp } from '../losses/ratio.ts';
import { mean } from '../statistics.ts';
import { algorithm } from './define.ts';
import { grpo } from './grpo.ts';

/**
 * GMPO (Zhao et al. 2025): GRPO's advantage; tokens are clipped one by one, on the side where the objective would
 * grow, and the geometric mean of what remains is the sequence's ratio.
 *   k_t = sgn(A)·min(sgn(A)·κ_t, sgn(A)·clip(κ_t, −low, high)),  L = −mean(A)·exp(mean_t k_t)
 * Bounds e^±0.4 as in the paper. A sequence is one segment here. Importance weights multiply L by their own geometric
 * mean, exp(mean_t log w_t), as in verl.
 */
export const gmpo = algorithm({
  name: 'gmpo',
  title: 'GMPO',
  advantage: grpo.definition.advantage,
  loss: {
    kind: 'gmpo',
    settings: clipSettings(0.4, 0.4),
    takesRatio: true,
    silentWithoutAdvantage: true,
    weighsWhole: true,
    compute: (input, { low, high }) => {
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
    },
  },
  usual: { aggregation: 'sequence-mean-token-mean' },
  verl: { losses: { geo_mean: {} } },
});
