import { above, setting } from '../../lib/setting.ts';
import { createOutput } from '../losses/loss.ts';
import { ratioOf } from '../losses/ratio.ts';
import { algorithm } from './define.ts';
import { grpo } from './grpo.ts';

/**
 * SAPO (Gao et al. 2025): GRPO's advantage; a sigmoid gate in place of the clip, steeper for negative advantages.
 *   f(ρ) = (4/τ)·σ(τ(ρ − 1)),  L = −f(ρ)·A,  τ by the sign of A.  f'(1) = 1, as for the plain ratio.
 */
export const sapo = algorithm({
  name: 'sapo',
  title: 'SAPO',
  advantage: grpo.definition.advantage,
  loss: {
    kind: 'sapo',
    settings: {
      positive: setting(above(0), 1, 'Steepness of the gate where the advantage is positive.'),
      negative: setting(above(0), 1.05, 'Steepness of the gate where it is negative; higher, for stability.'),
    },
    takesRatio: true,
    silentWithoutAdvantage: true,
    compute: (input, { positive, negative }) => {
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
    },
  },
  usual: { aggregation: 'sequence-mean-token-mean' },
  verl: {
    losses: { sapo: {} },
    keys: { positive: 'actor_rollout_ref.actor.tau_pos', negative: 'actor_rollout_ref.actor.tau_neg' },
  },
});
