import type { Metrics } from '../types.ts';
import type { Advantages, AdvantageTrajectory } from './advantages/advantage.ts';
import type { Algorithm } from './algorithm.ts';
import type { Batch, BatchTrajectory } from './batch.ts';
import { estimateKl } from './kl.ts';
import { openAdvantage } from './parts.ts';
import { gather, type TokenLists } from './score.ts';
import { flatten, mean, spread } from './statistics.ts';

/**
 * From rewards to an advantage per token. The trained tokens of a trajectory's segments are laid end to end,
 * token rewards are put on them, the estimator runs, and its result is cut back into segments.
 */
export interface CreditInput {
  readonly old?: TokenLists | undefined;
  readonly reference?: TokenLists | undefined;
  readonly sumSquares?: TokenLists | undefined;
  readonly values?: TokenLists | undefined;
  readonly weights?: TokenLists | undefined;
  readonly klCoefficient?: number | undefined;
}

export interface Credit {
  /** Per sequence of the batch. */
  readonly advantages: TokenLists;
  readonly returns?: TokenLists;
  readonly metrics: Metrics;
  /** Mean KL to the reference per token, where it is in the reward. */
  readonly rewardKl?: number;
}

export function assignCredit(batch: Batch, algorithm: Algorithm, input: CreditInput): Credit {
  const penalties =
    algorithm.kl?.as === 'reward' && input.old && input.reference
      ? klPenalties(input.old, input.reference, algorithm.kl.estimator)
      : undefined;
  const coefficient = penalties ? (input.klCoefficient ?? 0) : 0;
  const trajectories = batch.trajectories.map((trajectory): AdvantageTrajectory => {
    const lay = (lists: TokenLists) => flatten(trajectory.sequences.map((index) => lists[index]!));
    const tokenRewards = tokenRewardsOf(batch, trajectory, algorithm.turnRewards);
    const penalty = penalties && lay(penalties);
    if (penalty) for (let t = 0; t < penalty.length; t++) tokenRewards[t]! -= coefficient * penalty[t]!;
    return {
      group: trajectory.group,
      rewards: trajectory.rewards,
      tokenRewards,
      reward:
        trajectory.trainedTokens > 0
          ? tokenRewards.reduce((sum, reward) => sum + reward, 0)
          : trajectory.reward + (algorithm.turnRewards ? trajectory.turnRewardSum : 0),
      ...(trajectory.baseline === undefined ? {} : { baseline: trajectory.baseline }),
      turns: Int32Array.from(
        trajectory.sequences.flatMap((index) => {
          const { turns, positions } = batch.sequences[index]!;
          return [...gather(turns, positions)];
        }),
      ),
      ...(input.old ? { logprobs: lay(input.old) } : {}),
      ...(input.sumSquares ? { sumSquares: lay(input.sumSquares) } : {}),
      ...(input.values ? { values: lay(input.values) } : {}),
      ...(input.weights ? { weights: lay(input.weights) } : {}),
    };
  });
  const estimated = openAdvantage(algorithm.advantage).estimate(trajectories);
  const advantages = cut(batch, estimated.advantages);
  const returns = estimated.returns && cut(batch, estimated.returns);
  const counted = penalties?.filter((list) => list.length > 0) ?? [];
  const rewardKl = counted.length > 0 ? mean(counted.map(mean)) : undefined;
  return {
    advantages,
    ...(returns ? { returns } : {}),
    ...(rewardKl === undefined ? {} : { rewardKl }),
    metrics: creditMetrics(batch, trajectories, estimated, { rewardKl, coefficient }),
  };
}

/** The trajectory's reward on its last trained token, turn rewards on theirs. */
function tokenRewardsOf(batch: Batch, trajectory: BatchTrajectory, withTurns: boolean): Float64Array {
  const rewards = new Float64Array(trajectory.trainedTokens);
  if (rewards.length === 0) return rewards;
  rewards[rewards.length - 1] = trajectory.reward;
  if (withTurns) {
    const offsets = new Map<number, number>();
    let offset = 0;
    for (const index of trajectory.sequences) {
      offsets.set(index, offset);
      offset += batch.sequences[index]!.positions.length;
    }
    for (const { sequence, at, reward } of trajectory.turnRewards) {
      rewards[offsets.get(sequence)! + batch.sequences[sequence]!.positions.indexOf(at)]! += reward;
    }
  }
  return rewards;
}

function klPenalties(
  old: TokenLists,
  reference: TokenLists,
  estimator: Parameters<typeof estimateKl>[2],
): Float64Array[] {
  return old.map((list, i) =>
    list.map((logprob, t) => estimateKl(logprob, reference[i]![t]!, estimator).value),
  );
}

/** Converts lists per trajectory to lists per sequence. */
function cut(batch: Batch, lists: readonly Float64Array[]): Float64Array[] {
  const pieces: Float64Array[] = batch.sequences.map(() => new Float64Array());
  batch.trajectories.forEach((trajectory, i) => {
    let from = 0;
    for (const index of trajectory.sequences) {
      const { length } = batch.sequences[index]!.positions;
      pieces[index] = lists[i]!.slice(from, from + length);
      from += length;
    }
  });
  return pieces;
}

function creditMetrics(
  batch: Batch,
  trajectories: readonly AdvantageTrajectory[],
  { advantages, returns }: Advantages,
  { rewardKl, coefficient }: { rewardKl: number | undefined; coefficient: number },
): Metrics {
  return {
    ...spread(
      'critic/rewards',
      trajectories.map(({ reward }) => reward),
    ),
    ...spread('critic/advantages', flatten(advantages)),
    ...spread('critic/returns', flatten(returns ?? advantages)),
    'training/groups_without_spread': shareWithoutSpread(batch),
    'training/attempts_left_out': batch.leftOut.length,
    ...(rewardKl === undefined
      ? {}
      : { 'actor/reward_kl_penalty': rewardKl, 'actor/reward_kl_penalty_coeff': coefficient }),
  };
}

/** Groups in which every attempt got the same: nothing to learn from by comparison. */
function shareWithoutSpread({ groups, trajectories }: Batch): number {
  const first = new Map<number, number>();
  const varied = new Set<number>();
  for (const { group, reward } of trajectories) {
    if (!first.has(group)) first.set(group, reward);
    else if (first.get(group) !== reward) varied.add(group);
  }
  return groups > 0 ? 1 - varied.size / groups : 0;
}
