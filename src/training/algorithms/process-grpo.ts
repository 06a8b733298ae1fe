import { discounted, perTurn, standardizeTurn } from '../advantages/turns.ts';
import { algorithm, SHARED } from './define.ts';

/**
 * GRPO with process supervision (DeepSeekMath, §4.1.3), a turn being a step: rewards of all turns of the group
 * are standardised together, and a token gets the sum of those from its turn on.
 *   r̃ = (r − mean(all r of the group)) / (std + 1e-6),  A_{i,k} = Σ_{j≥k} r̃_{i,j}
 */
export const processGrpo = algorithm({
  name: 'process-grpo',
  title: 'process GRPO',
  advantage: {
    kind: 'process-grpo',
    settings: { normalizeByStd: SHARED.normalizeByStd },
    needs: { comparesAttempts: true },
    estimate: (trajectories, { normalizeByStd }) =>
      perTurn(trajectories, (attempts) => {
        const all = attempts.flat();
        return attempts.map((turns) =>
          discounted(
            turns.map(({ turn, reward }) => ({ turn, reward: standardizeTurn(reward, all, normalizeByStd) })),
            1,
          ),
        );
      }),
  },
  usual: { turnRewards: true },
});
