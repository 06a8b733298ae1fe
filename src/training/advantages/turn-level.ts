import { mean, sampleDeviation } from '../statistics.ts';
import type { Advantages, AdvantageTrajectory } from './advantage.ts';
import { groupIndices } from './group-relative.ts';

/**
 * Estimators that give every turn its own credit. The reward of a turn is the sum of its token rewards: what the
 * turn and its tools earned and, on the last turn, the trajectory's reward.
 */

interface TurnReward {
  readonly turn: number;
  readonly reward: number;
}

/**
 * Per-turn GRPO: the discounted return from a turn on, compared in the group.
 *   G_{i,k} = Σ_{j≥k} γ^{j−k} r_{i,j},  A_{i,k} = (G_{i,k} − mean) / (std + 1e-6)
 * `compare: 'turn'` takes mean and std over the attempts that reached turn k. Where the policy itself decides
 * when to stop, those are not a fair sample, and the estimate is biased; `'group'` compares with all turns of the
 * group and has no such bias, at the price of more variance. A turn only one attempt reached is compared with the
 * whole group in both.
 */
export function turnGrpoAdvantages(
  trajectories: readonly AdvantageTrajectory[],
  options: {
    readonly discount: number;
    readonly normalizeByStd: boolean;
    readonly compare: 'turn' | 'group';
  },
): Advantages {
  return perTurn(trajectories, (attempts) => {
    const returns = attempts.map((turns) => discounted(turns, options.discount));
    const all = returns.flat();
    return returns.map((turns) =>
      turns.map(({ turn, reward }) => {
        const same = all.filter((other) => other.turn === turn);
        const others = options.compare === 'turn' && same.length > 1 ? same : all;
        return { turn, reward: standardize(reward, others, options.normalizeByStd) };
      }),
    );
  });
}

/**
 * GRPO with process supervision (DeepSeekMath, §4.1.3), a turn being a step: rewards of all turns of the group
 * are standardised together, and a token gets the sum of those from its turn on.
 *   r̃ = (r − mean(all r of the group)) / (std + 1e-6),  A_{i,k} = Σ_{j≥k} r̃_{i,j}
 */
export function processGrpoAdvantages(
  trajectories: readonly AdvantageTrajectory[],
  { normalizeByStd }: { readonly normalizeByStd: boolean },
): Advantages {
  return perTurn(trajectories, (attempts) => {
    const all = attempts.flat();
    return attempts.map((turns) =>
      discounted(
        turns.map(({ turn, reward }) => ({ turn, reward: standardize(reward, all, normalizeByStd) })),
        1,
      ),
    );
  });
}

function perTurn(
  trajectories: readonly AdvantageTrajectory[],
  credit: (attempts: readonly TurnReward[][]) => readonly TurnReward[][],
): Advantages {
  const advantages: Float64Array[] = trajectories.map(
    ({ tokenRewards }) => new Float64Array(tokenRewards.length),
  );
  for (const indices of groupIndices(trajectories)) {
    if (indices.length < 2) continue;
    const credits = credit(indices.map((index) => turnRewards(trajectories[index]!)));
    indices.forEach((index, i) => {
      const ofTurn = new Map(credits[i]!.map(({ turn, reward }) => [turn, reward]));
      trajectories[index]!.turns.forEach((turn, t) => {
        advantages[index]![t] = ofTurn.get(turn)!;
      });
    });
  }
  return { advantages };
}

function turnRewards({ turns, tokenRewards }: AdvantageTrajectory): TurnReward[] {
  const sums = new Map<number, number>();
  turns.forEach((turn, t) => {
    sums.set(turn, (sums.get(turn) ?? 0) + tokenRewards[t]!);
  });
  return [...sums].map(([turn, reward]) => ({ turn, reward }));
}

function discounted(turns: readonly TurnReward[], discount: number): TurnReward[] {
  let next = 0;
  return turns
    .toReversed()
    .map(({ turn, reward }) => {
      next = reward + discount * next;
      return { turn, reward: next };
    })
    .reverse();
}

function standardize(reward: number, others: readonly TurnReward[], byDeviation: boolean): number {
  const rewards = others.map((other) => other.reward);
  return (reward - mean(rewards)) / (byDeviation ? sampleDeviation(rewards) + 1e-6 : 1);
}
