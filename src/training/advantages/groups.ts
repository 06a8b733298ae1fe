import { mean, sampleDeviation } from '../statistics.ts';
import type { Advantages, AdvantageTrajectory } from './advantage.ts';

/** Added to a deviation before it divides. */
export const EPSILON = 1e-6;

/**
 * One number per attempt of a group, spread over the attempt's trained tokens. An attempt that is alone in its group
 * gets 0, because there is nothing to compare it with (verl: its reward as it is). Groups shrink when attempts fail;
 * the statistics are over those that are left.
 */
export function perGroup(
  trajectories: readonly AdvantageTrajectory[],
  compare: (rewards: readonly number[], members: readonly AdvantageTrajectory[]) => readonly number[],
): Advantages {
  const advantages: Float64Array[] = trajectories.map(
    ({ tokenRewards }) => new Float64Array(tokenRewards.length),
  );
  for (const indices of groupIndices(trajectories)) {
    if (indices.length < 2) continue;
    const members = indices.map((index) => trajectories[index]!);
    const numbers = compare(
      members.map(({ reward }) => reward),
      members,
    );
    indices.forEach((index, i) => {
      advantages[index]!.fill(numbers[i]!);
    });
  }
  return { advantages };
}

/** (R_i − mean) / (std + 1e-6), std with n − 1; without `byDeviation` only the mean is taken off. */
export function standardize(rewards: readonly number[], byDeviation: boolean): number[] {
  const center = mean(rewards);
  const scale = byDeviation ? sampleDeviation(rewards) + EPSILON : 1;
  return rewards.map((reward) => (reward - center) / scale);
}

export function groupIndices(trajectories: readonly { readonly group: number }[]): number[][] {
  const groups = new Map<number, number[]>();
  for (const [index, { group }] of trajectories.entries()) {
    const members = groups.get(group);
    if (members) members.push(index);
    else groups.set(group, [index]);
  }
  return [...groups.values()];
}
