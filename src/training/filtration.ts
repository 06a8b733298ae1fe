import { createRandom } from '../lib/random.ts';
import type { Metrics } from '../types.ts';
import type { Batch } from './batch.ts';
import type { FiltrationOptions } from './filtration-options.ts';
import { type GroupedSequence, membersOf } from './score.ts';

/**
 * PF-PPO (Shen et al. 2024, policy filtration): a reward model is most reliable at its extremes, so after the advantages
 * are known trajectories are drawn again, with replacement and as many as there were, in proportion to
 *   power       |R|^power
 *   max-min     1 for the best and the worst of the batch, 0 for the others
 *   max-random  0.4 for the best, 0.1 for the others
 * plus 1e-8 each, as in verl. The policy and the critic learn from what was drawn.
 */
export function filtrationWeights(
  rewards: readonly number[],
  { method, power }: FiltrationOptions,
): number[] {
  const best = rewards.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const worst = rewards.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const weight = (reward: number): number => {
    if (method === 'power') return Math.abs(reward) ** power;
    if (method === 'max-min') return reward === best || reward === worst ? 1 : 0;
    return reward === best ? 0.4 : 0.1;
  };
  return rewards.map((reward) => weight(reward) + 1e-8);
}

export interface Filtered {
  /** Its trajectories may be there several times, or not at all. */
  readonly batch: Batch;
  /** Per sequence of it: its number in the batch that it was drawn from. */
  readonly origin: readonly number[];
  /** Share of the trajectories that were drawn at least once. */
  readonly keptShare: number;
}

export function filterTrajectories(batch: Batch, options: FiltrationOptions, seed: number): Filtered {
  const sums: number[] = [];
  let total = 0;
  for (const weight of filtrationWeights(
    batch.trajectories.map(({ reward }) => reward),
    options,
  )) {
    total += weight;
    sums.push(total);
  }
  const random = createRandom(seed);
  const drawn = batch.trajectories.map(() => {
    const at = random.next() * total;
    return sums.findIndex((sum) => at < sum);
  });
  const origin: number[] = [];
  const trajectories = drawn.map((index) => {
    const trajectory = batch.trajectories[index]!;
    const first = origin.length;
    origin.push(...trajectory.sequences);
    return { ...trajectory, sequences: trajectory.sequences.map((_, at) => first + at) };
  });
  const owner = trajectories.flatMap(({ sequences }, index) => sequences.map(() => index));
  return {
    batch: {
      ...batch,
      trajectories,
      sequences: origin.map((index, at) => ({ ...batch.sequences[index]!, trajectory: owner[at]! })),
    },
    origin,
    keptShare: drawn.length > 0 ? new Set(drawn).size / drawn.length : 1,
  };
}

/** What the policy and the critic learn from: the whole batch, or what was drawn from it. */
export interface Trained {
  readonly batch: Batch;
  readonly members: readonly GroupedSequence[];
  readonly metrics: Metrics;
  /** Of lists by sequence of the whole batch, those of its sequences. */
  take<L>(lists: readonly L[]): readonly L[];
  /** The reverse; sequences that were not drawn get an empty list. */
  putBack(lists: readonly Float64Array[]): readonly Float64Array[];
}

export function drawTrained(batch: Batch, options: FiltrationOptions | undefined, seed: number): Trained {
  if (!options) {
    return {
      batch,
      members: membersOf(batch),
      metrics: {},
      take: (lists) => lists,
      putBack: (lists) => lists,
    };
  }
  const { batch: drawn, origin, keptShare } = filterTrajectories(batch, options, seed);
  return {
    batch: drawn,
    members: membersOf(drawn),
    metrics: { 'training/filtration/kept_share': keptShare },
    take: (lists) => origin.map((index) => lists[index]!),
    putBack(lists) {
      const back: Float64Array[] = batch.sequences.map(() => new Float64Array());
      lists.forEach((list, at) => {
        if (list.length > 0) back[origin[at]!] = list;
      });
      return back;
    },
  };
}
