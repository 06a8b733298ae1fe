import { EPSILON, perGroup } from '../advantages/groups.ts';
import { sampleDeviation } from '../statistics.ts';
import { algorithm, SHARED } from './define.ts';

/**
 * Pass@k GRPO (verl's `grpo_passk`): only the best attempt of a group is pushed, by its lead over the second.
 *   A_best = (R_best − R_second) / (std_g + 1e-6),  the others 0
 */
export const passAtK = algorithm({
  name: 'pass@k',
  title: 'pass@k GRPO',
  advantage: {
    kind: 'pass@k',
    settings: { normalizeByStd: SHARED.normalizeByStd },
    needs: { comparesAttempts: true },
    estimate: (trajectories, { normalizeByStd }) =>
      perGroup(trajectories, (rewards) => {
        const [best, second] = rewards.toSorted((a, b) => b - a);
        const scale = normalizeByStd ? sampleDeviation(rewards) + EPSILON : 1;
        const winner = rewards.indexOf(best!);
        return rewards.map((_, i) => (i === winner ? (best! - second!) / scale : 0));
      }),
  },
  verl: { estimators: ['grpo_passk'] },
});
