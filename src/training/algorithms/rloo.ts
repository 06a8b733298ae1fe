import { perGroup } from '../advantages/groups.ts';
import { mean } from '../statistics.ts';
import { algorithm } from './define.ts';

/** RLOO (Ahmadian et al. 2024): each attempt against the mean of the others.  A_i = n/(n−1)·(R_i − mean_g) */
export const rloo = algorithm({
  name: 'rloo',
  title: 'RLOO',
  advantage: {
    kind: 'rloo',
    settings: {},
    needs: { comparesAttempts: true },
    estimate: (trajectories) =>
      perGroup(trajectories, (rewards) => {
        const center = mean(rewards);
        return rewards.map((reward) => (rewards.length / (rewards.length - 1)) * (reward - center));
      }),
  },
  verl: { estimators: ['rloo', 'rloo_vectorized'] },
});
