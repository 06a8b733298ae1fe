import { ConfigError } from '../../errors.ts';
import { mean, sampleDeviation, whiten } from '../statistics.ts';
import type { Advantages, AdvantageTrajectory } from './advantage.ts';

/**
 * Estimators that compare the attempts at one task with one another. All of them:
 *  1. give every trained token of a trajectory the same advantage;
 *  2. give 0 to an attempt that is alone in its group, because there is nothing to compare it with (verl: its
 *     reward as it is). Groups shrink when attempts fail; the statistics are over those that are left.
 */

const EPSILON = 1e-6;

/**
 * GRPO (DeepSeekMath, Shao et al. 2024, outcome supervision), and without std the advantage of Dr. GRPO
 * (Liu et al. 2025):  A_i = (R_i − mean_g) / (std_g + 1e-6),  std with n − 1.
 */
export function grpoAdvantages(
  trajectories: readonly AdvantageTrajectory[],
  { normalizeByStd }: { readonly normalizeByStd: boolean },
): Advantages {
  return perGroup(trajectories, (rewards) => standardize(rewards, normalizeByStd));
}

/** RLOO (Ahmadian et al. 2024): against the mean of the others.  A_i = n/(n−1) · (R_i − mean_g) */
export function rlooAdvantages(trajectories: readonly AdvantageTrajectory[]): Advantages {
  return perGroup(trajectories, (rewards) => {
    const center = mean(rewards);
    return rewards.map((reward) => (rewards.length / (rewards.length - 1)) * (reward - center));
  });
}

/** OPO (Hao et al. 2025): the baseline weighs attempts by length.  b = Σ len_i R_i / Σ len_i,  A_i = R_i − b */
export function opoAdvantages(trajectories: readonly AdvantageTrajectory[]): Advantages {
  return perGroup(trajectories, (rewards, members) => {
    const lengths = members.map((member) => member.tokenRewards.length);
    const total = lengths.reduce((sum, length) => sum + length, 0);
    const baseline = rewards.reduce((sum, reward, i) => sum + reward * lengths[i]!, 0) / Math.max(total, 1);
    return rewards.map((reward) => reward - baseline);
  });
}

/**
 * GPG (Chu et al. 2025): the group mean, scaled up by the share of attempts with a reward.
 *   A_i = α (R_i − mean_g) / norm,  α = B / #{R ≠ 0} over the batch
 */
export function gpgAdvantages(
  trajectories: readonly AdvantageTrajectory[],
  { norm }: { readonly norm: number },
): Advantages {
  const rewarded = trajectories.filter(({ reward }) => reward !== 0).length;
  const alpha = trajectories.length / Math.max(rewarded, 1);
  return perGroup(trajectories, (rewards) => {
    const center = mean(rewards);
    return rewards.map((reward) => (alpha * (reward - center)) / norm);
  });
}

/**
 * Pass@k GRPO (verl's `grpo_passk`): only the best attempt of a group is pushed, by its lead over the second.
 *   A_best = (R_best − R_second) / (std_g + 1e-6),  the others 0
 */
export function passAtKAdvantages(
  trajectories: readonly AdvantageTrajectory[],
  { normalizeByStd }: { readonly normalizeByStd: boolean },
): Advantages {
  return perGroup(trajectories, (rewards) => {
    const [best, second] = rewards.toSorted((a, b) => b - a);
    const scale = normalizeByStd ? sampleDeviation(rewards) + EPSILON : 1;
    const winner = rewards.indexOf(best!);
    return rewards.map((_, i) => (i === winner ? (best! - second!) / scale : 0));
  });
}

/**
 * GDPO (Liu et al. 2026, group reward-decoupled normalisation): every named reward is standardised in its group
 * by itself, then they are added and the batch is whitened.
 *   A = whiten(Σ_k w_k · GRPO(R_k))
 */
export function gdpoAdvantages(
  trajectories: readonly AdvantageTrajectory[],
  { weights }: { readonly weights: Readonly<Record<string, number>> },
): Advantages {
  const { advantages } = perGroup(trajectories, (rewards, members) => {
    const sums = rewards.map(() => 0);
    for (const [name, weight] of Object.entries(weights)) {
      const parts = standardize(
        members.map(({ rewards: parts }) => partOf(parts, name)),
        true,
      );
      parts.forEach((part, i) => {
        sums[i] = sums[i]! + weight * part;
      });
    }
    return sums;
  });
  return { advantages: whiten(advantages) };
}

function partOf(rewards: Readonly<Record<string, number>>, name: string): number {
  const part = rewards[name];
  if (part !== undefined) return part;
  throw new ConfigError(
    `gdpo() weighs the reward '${name}', which an attempt does not have; it has ${Object.keys(rewards).join(', ') || 'none'}`,
  );
}

/** REINFORCE++ with a group baseline (Hu et al. 2025):  A = whiten(R_i − mean_g), over the batch's tokens. */
export function reinforcePlusPlusBaselineAdvantages(
  trajectories: readonly AdvantageTrajectory[],
): Advantages {
  return { advantages: whiten(grpoAdvantages(trajectories, { normalizeByStd: false }).advantages) };
}

function standardize(rewards: readonly number[], byDeviation: boolean): number[] {
  const center = mean(rewards);
  const scale = byDeviation ? sampleDeviation(rewards) + EPSILON : 1;
  return rewards.map((reward) => (reward - center) / scale);
}

/** One number per attempt of a group, spread over the attempt's trained tokens. */
function perGroup(
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

export function groupIndices(trajectories: readonly { readonly group: number }[]): number[][] {
  const groups = new Map<number, number[]>();
  for (const [index, { group }] of trajectories.entries()) {
    const members = groups.get(group);
    if (members) members.push(index);
    else groups.set(group, [index]);
  }
  return [...groups.values()];
}
