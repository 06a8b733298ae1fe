import { ConfigError } from '../../errors.ts';
import { returnsToGo } from '../advantages/returns.ts';
import { algorithm } from './define.ts';

/**
 * ReMax (Li et al. 2023): the return less the reward of one greedy attempt.  A_t = Σ_{s≥t} r_s − R_greedy
 * A task whose greedy attempt failed has no advantage.
 */
export const remax = algorithm({
  name: 'remax',
  title: 'ReMax',
  advantage: {
    kind: 'remax',
    settings: {},
    needs: { greedyAttempt: true },
    estimate: (trajectories) => {
      if (trajectories.length > 0 && trajectories.every(({ baseline }) => baseline === undefined)) {
        throw new ConfigError(
          'remax() needs the reward of a greedy attempt at every task; give `baselines` to createBatch, or use rloo()',
        );
      }
      const returns = trajectories.map(({ tokenRewards }) => returnsToGo(tokenRewards, 1));
      const advantages = returns.map((list, i) => {
        const { baseline } = trajectories[i]!;
        return list.map((value) => (baseline === undefined ? 0 : value - baseline));
      });
      return { advantages, returns };
    },
  },
  verl: { estimators: ['remax'] },
});
