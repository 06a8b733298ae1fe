import { above, setting } from '../../lib/setting.ts';
import { createOutput } from '../losses/loss.ts';
import { algorithm } from './define.ts';
import { grpo } from './grpo.ts';

/**
 * DRO (Richemond et al. 2024), with GRPO's advantage: a quadratic tie to the old policy.
 *   L = −(A·log π − β/2·(log π − log π_old)²)
 */
export const dro = algorithm({
  name: 'dro',
  title: 'DRO',
  advantage: grpo.definition.advantage,
  loss: {
    kind: 'dro',
    settings: { beta: setting(above(0), 0.1, 'Strength of the tie to the old policy.') },
    takesRatio: true,
    silentWithoutAdvantage: false,
    compute: (input, { beta }) => {
      const output = createOutput(input);
      for (let t = 0; t < input.logprobs.length; t++) {
        const difference = input.logprobs[t]! - input.old[t]!;
        output.loss[t] = -(input.logprobs[t]! * input.advantages[t]! - (beta / 2) * difference ** 2);
        output.gradient[t] = -input.advantages[t]! + beta * difference;
      }
      return output;
    },
  },
  verl: { losses: { dro: {} }, keys: { beta: 'actor_rollout_ref.actor.policy_loss.dro_beta' } },
});
