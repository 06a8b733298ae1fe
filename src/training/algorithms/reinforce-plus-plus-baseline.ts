import { perGroup, standardize } from '../advantages/groups.ts';
import { whiten } from '../statistics.ts';
import { algorithm } from './define.ts';

/** REINFORCE++ with a group baseline (Hu et al. 2025):  A = whiten(R_i − mean_g), over the batch's tokens. */
export const reinforcePlusPlusBaseline = algorithm({
  name: 'reinforce++-baseline',
  title: 'REINFORCE++ with a group baseline',
  advantage: {
    kind: 'reinforce++-baseline',
    settings: {},
    needs: { comparesAttempts: true },
    estimate: (trajectories) => {
      const { advantages } = perGroup(trajectories, (rewards) => standardize(rewards, false));
      return { advantages: whiten(advantages) };
    },
  },
  verl: { estimators: ['reinforce_plus_plus_baseline'] },
});
