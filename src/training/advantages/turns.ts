import { mean, sampleDeviation } from '../statistics.ts';
import type { Advantages, AdvantageTrajectory } from './advantage.ts';
import { EPSILON, groupIndices } from './groups.ts';

/**
 * For estimators that give every turn its own credit. The reward of a turn is the sum of its token rewards: what the
 * turn and its tools earned and, on the last turn, the trajectory's reward.
 */
export interface TurnReward {
  readonly turn: number;
  readonly reward: number;
}

/** One number per turn of each attempt of a group, spread over the turn's trained tokens. */
export function perTurn(
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

/** The discounted sum of rewards from each turn on. */
export function discounted(turns: readonly TurnReward[], discount: number): TurnReward[] {
  let next = 0;
  return turns
    .toReversed()
    .map(({ turn, reward }) => {
      next = reward + discount * next;
      return { turn, reward: next };
    })
    .reverse();
}

export function standardizeTurn(reward: number, others: readonly TurnReward[], byDeviation: boolean): number {
  const rewards = others.map((other) => other.reward);
  return (reward - mean(rewards)) / (byDeviation ? sampleDeviation(rewards) + EPSILON : 1);
}
