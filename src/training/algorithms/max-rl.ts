import { ConfigError } from '../../errors.ts';
import { EPSILON, perGroup } from '../advantages/groups.ts';
import { mean } from '../statistics.ts';
import { algorithm } from './define.ts';

/**
 * MaxRL (Tajwar, Zeng et al. 2026): raises the logarithm of a task's success rate instead of the rate, so that a rare success
 * counts for much and an easy task for little.
 *   A_i = (R_i − mean_g) / (mean_g + 1e-6);  0 in a group without a reward
 * Meant for rewards of 0 and 1. A negative one is refused, because the mean could be near 0 or below.
 */
export const maxRl = algorithm({
  name: 'max-rl',
  title: 'MaxRL',
  advantage: {
    kind: 'max-rl',
    settings: {},
    needs: { comparesAttempts: true },
    estimate: (trajectories) =>
      perGroup(trajectories, (rewards) => {
        const negative = rewards.find((reward) => reward < 0);
        if (negative !== undefined)
          throw new ConfigError(
            `MaxRL needs rewards of 0 and more, but a trajectory has ${negative}; use grpo()`,
          );
        const center = mean(rewards);
        return rewards.map((reward) => (reward - center) / (center + EPSILON));
      }),
  },
});
