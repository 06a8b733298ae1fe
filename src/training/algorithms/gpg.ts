import { above, setting } from '../../lib/setting.ts';
import { perGroup } from '../advantages/groups.ts';
import { weighted } from '../losses/weighted.ts';
import { mean } from '../statistics.ts';
import { algorithm } from './define.ts';

/**
 * GPG (Chu et al. 2025): the plain policy gradient with a group mean, scaled up by the share of attempts with a
 * reward; no ratio, no clip. Its loss is that of REINFORCE (Williams 1992).
 *   A_i = α (R_i − mean_g) / norm,  α = B / #{R ≠ 0} over the batch;  L = −A·log π
 */
export const gpg = algorithm({
  name: 'gpg',
  title: 'GPG',
  advantage: {
    kind: 'gpg',
    settings: { norm: setting(above(0), 1, 'Divides the advantage.') },
    needs: { comparesAttempts: true },
    estimate: (trajectories, { norm }) => {
      const rewarded = trajectories.filter(({ reward }) => reward !== 0).length;
      const alpha = trajectories.length / Math.max(rewarded, 1);
      return perGroup(trajectories, (rewards) => {
        const center = mean(rewards);
        return rewards.map((reward) => (alpha * (reward - center)) / norm);
      });
    },
  },
  loss: {
    kind: 'reinforce',
    settings: {},
    takesRatio: false,
    silentWithoutAdvantage: true,
    compute: (input) => weighted(input, () => 1),
  },
  verl: { estimators: ['gpg'], losses: { gpg: {} }, lossType: 'reinforce' },
});
