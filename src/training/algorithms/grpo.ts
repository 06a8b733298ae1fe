import { perGroup, standardize } from '../advantages/groups.ts';
import { algorithm, SHARED } from './define.ts';

/**
 * GRPO (DeepSeekMath, Shao et al. 2024): each attempt against its group, PPO's clipped ratio, no critic.
 *   A_i = (R_i − mean_g) / (std_g + 1e-6),  std with n − 1
 * Deviations: (1) tokens are averaged over the batch, not first by sequence, as verl does by default; (2) no KL term
 * unless `kl` is given.
 */
export const grpo = algorithm({
  name: 'grpo',
  title: 'GRPO',
  advantage: {
    kind: 'grpo',
    settings: { normalizeByStd: SHARED.normalizeByStd },
    needs: { comparesAttempts: true },
    estimate: (trajectories, { normalizeByStd }) =>
      perGroup(trajectories, (rewards) => standardize(rewards, normalizeByStd)),
  },
  verl: { estimators: ['grpo', 'grpo_vectorized'], losses: { vanilla: {} }, lossType: 'ppo_clip' },
});
