import { oneOf, setting } from '../../lib/setting.ts';
import { discounted, perTurn, standardizeTurn } from '../advantages/turns.ts';
import { algorithm, SHARED } from './define.ts';

/**
 * GRPO by turn: each turn is credited with the discounted rewards from it on, compared in the group.
 *   G_{i,k} = Σ_{j≥k} γ^{j−k} r_{i,j},  A_{i,k} = (G_{i,k} − mean) / (std + 1e-6)
 * `compare: 'turn'` takes mean and std over the attempts that reached turn k. Where the policy itself decides
 * when to stop, those are not a fair sample, and the estimate is biased; `'group'` compares with all turns of the
 * group and has no such bias, at the price of more variance. A turn only one attempt reached is compared with the
 * whole group in both.
 */
export const turnGrpo = algorithm({
  name: 'turn-grpo',
  title: 'turn GRPO',
  advantage: {
    kind: 'turn-grpo',
    settings: {
      discount: SHARED.discount,
      normalizeByStd: SHARED.normalizeByStd,
      compare: setting(
        oneOf('group', 'turn'),
        'group',
        'Compare a turn with all turns of the group, which is unbiased, or only with the same turn.',
      ),
    },
    needs: { comparesAttempts: true },
    estimate: (trajectories, { discount, normalizeByStd, compare }) =>
      perTurn(trajectories, (attempts) => {
        const returns = attempts.map((turns) => discounted(turns, discount));
        const all = returns.flat();
        return returns.map((turns) =>
          turns.map(({ turn, reward }) => {
            const same = all.filter((other) => other.turn === turn);
            const others = compare === 'turn' && same.length > 1 ? same : all;
            return { turn, reward: standardizeTurn(reward, others, normalizeByStd) };
          }),
        );
      }),
  },
  usual: { turnRewards: true },
});
