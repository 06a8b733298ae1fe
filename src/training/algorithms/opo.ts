import { perGroup } from '../advantages/groups.ts';
import { algorithm } from './define.ts';

/**
 * OPO (Hao et al. 2025): the baseline weighs attempts by length. Meant for one update per batch.
 *   b = Σ len_i R_i / Σ len_i,  A_i = R_i − b
 */
export const opo = algorithm({
  name: 'opo',
  title: 'OPO',
  advantage: {
    kind: 'opo',
    settings: {},
    needs: { comparesAttempts: true },
    estimate: (trajectories) =>
      perGroup(trajectories, (rewards, members) => {
        const lengths = members.map((member) => member.tokenRewards.length);
        const total = lengths.reduce((sum, length) => sum + length, 0);
        const weighted = rewards.reduce((sum, reward, i) => sum + reward * lengths[i]!, 0);
        const baseline = weighted / Math.max(total, 1);
        return rewards.map((reward) => reward - baseline);
      }),
  },
  verl: { estimators: ['opo'] },
});
