import { returnsToGo } from '../advantages/returns.ts';
import { whiten } from '../statistics.ts';
import { algorithm, SHARED } from './define.ts';

/**
 * REINFORCE++ (Hu 2025): the return, whitened over the batch's tokens; no group, no critic, and one attempt per task
 * is enough.  G_t = r_t + γ G_{t+1},  A = whiten(G)
 */
export const reinforcePlusPlus = algorithm({
  name: 'reinforce++',
  title: 'REINFORCE++',
  advantage: {
    kind: 'reinforce++',
    settings: { discount: SHARED.discount },
    needs: {},
    estimate: (trajectories, { discount }) => {
      const returns = trajectories.map(({ tokenRewards }) => returnsToGo(tokenRewards, discount));
      return { advantages: whiten(returns), returns };
    },
  },
  verl: { estimators: ['reinforce_plus_plus'] },
});
