import { RewardError } from '../errors.ts';
import { responseTokens } from '../lib/trajectory-lengths.ts';
import type { Group, ImageRef, Scored, Segment, Trajectory, Turn } from '../types.ts';
import type { Algorithm, Overlong } from './algorithm.ts';

/**
 * From groups of attempts to what a trainer takes. This is the only place that decides which tokens are trained,
 * which attempts count in a group's statistics and which token carries a reward; `micro-batches.ts` turns the sequences
 * into rows of the trainer's port.
 */
export interface Batch {
  readonly step: number;
  /** Version of the weights that are about to be updated. */
  readonly version: number;
  /** How many groups have a trajectory here. */
  readonly groups: number;
  /** Every attempt that counts in its group, also those without a trained token. */
  readonly trajectories: readonly BatchTrajectory[];
  /** Every segment with at least one trained token. */
  readonly sequences: readonly Sequence[];
  readonly leftOut: readonly LeftOut[];
}

/** An attempt, or the part of it that one of its sub-agents with a reward of its own has sampled. */
export interface BatchTrajectory {
  readonly id: string;
  /** The sub-agent. */
  readonly agent?: string;
  readonly taskIndex: number;
  readonly attempt: number;
  /** Index of the group, 0 to `groups` − 1; each rewarded sub-agent of a task's attempts is a group of its own. */
  readonly group: number;
  readonly rewards: Readonly<Record<string, number>>;
  /** The reward as scored. */
  readonly score: number;
  /** The reward with the penalty for length. */
  readonly reward: number;
  /** Reward of the greedy attempt (ReMax). */
  readonly baseline?: number;
  /** Indices into `Batch.sequences`. */
  readonly sequences: readonly number[];
  /** Rewards of turns and their tools, each on a trained token: (sequence, position in it). */
  readonly turnRewards: readonly {
    readonly sequence: number;
    readonly at: number;
    readonly reward: number;
  }[];
  /** Sum over all turns, including those without a trained token to carry it. */
  readonly turnRewardSum: number;
  readonly trainedTokens: number;
  /** After the prompt, observations included. */
  readonly responseTokens: number;
}

/** One segment, as a trainer sees it. Arrays have the length of `ids`. */
export interface Sequence {
  readonly trajectory: number;
  readonly segment: number;
  readonly ids: Int32Array;
  readonly trained: Uint8Array;
  /** Positions of the trained tokens, ascending; never 0. */
  readonly positions: Int32Array;
  /** Log-probs of the engine that sampled. */
  readonly behaviour: Float32Array;
  readonly versions: Int32Array;
  readonly turns: Int32Array;
  readonly images: readonly { readonly at: number; readonly image: ImageRef }[];
}

export interface LeftOut {
  readonly id: string;
  readonly taskIndex: number;
  readonly attempt: number;
  readonly why: 'failed' | 'reward-failed' | 'cancelled' | 'not-scored' | 'truncated' | 'reward-not-finite';
  readonly message: string;
}

/** What a batch is made with: step, version of the weights, algorithm. */
export interface BatchOptions {
  readonly step: number;
  /** Version of the weights that are about to be updated. */
  readonly version: number;
  readonly algorithm: Pick<Algorithm, 'truncated' | 'overlong'>;
  /** Reward of one greedy attempt per group, in order of groups (ReMax). */
  readonly baselines?: readonly (number | undefined)[] | undefined;
}

/**
 * A failed or unscored attempt is in no statistics and not trained. A truncated one follows
 * `algorithm.truncated`. A group of which nothing is left vanishes.
 */
export function createBatch(groups: readonly Group<unknown>[], options: BatchOptions): Batch {
  const trajectories: BatchTrajectory[] = [];
  const sequences: Sequence[] = [];
  const leftOut: LeftOut[] = [];
  let groupCount = 0;
  for (const [groupIndex, group] of groups.entries()) {
    const numbers = new Map<string | undefined, number>();
    const numberOf = (agent: string | undefined) => {
      const number = numbers.get(agent) ?? groupCount++;
      numbers.set(agent, number);
      return number;
    };
    for (const scored of group.attempts) {
      const out = reasonToLeaveOut(scored, options.algorithm.truncated);
      if (out) leftOut.push({ ...coordinates(scored.trajectory), ...out });
      else for (const part of partsOf(scored)) addTrajectory(part, numberOf, options.baselines?.[groupIndex]);
    }
  }
  return {
    step: options.step,
    version: options.version,
    groups: groupCount,
    trajectories,
    sequences,
    leftOut,
  };

  function addTrajectory(
    { trajectory, agent, rewards, score, segments }: Part,
    numberOf: (agent: string | undefined) => number,
    baseline?: number,
  ): void {
    const truncated = trajectory.end.kind === 'truncated';
    const trains = !(truncated && options.algorithm.truncated === 'mask');
    const own: number[] = [];
    const sequenceOfSegment = new Map<number, number>();
    if (trains) {
      for (const number of segments) {
        const segment = trajectory.segments[number]!;
        const sequence = sequenceOf(segment, trajectories.length, number);
        if (sequence.positions.length === 0) continue;
        sequenceOfSegment.set(number, sequences.length);
        own.push(sequences.length);
        sequences.push(sequence);
      }
    }
    const length = responseTokens(trajectory);
    const turns = trajectory.turns.filter(({ segment }) => segments.includes(segment));
    trajectories.push({
      ...coordinates(trajectory),
      ...(agent === undefined ? {} : { agent }),
      group: numberOf(agent),
      rewards,
      score,
      reward: score + (agent === undefined ? overlongPenalty(length, options.algorithm.overlong) : 0),
      ...(baseline === undefined || agent !== undefined ? {} : { baseline }),
      sequences: own,
      turnRewards: turnRewardsOf(trajectory.id, turns, (segment) => {
        const index = sequenceOfSegment.get(segment);
        return index === undefined ? undefined : { index, sequence: sequences[index]! };
      }),
      turnRewardSum: turns.reduce((sum, turn) => sum + turnReward(turn), 0),
      trainedTokens: own.reduce((sum, index) => sum + sequences[index]!.positions.length, 0),
      responseTokens: length,
    });
  }
}

/** Segments of an attempt that share a reward. */
interface Part extends Pick<Scored<unknown>, 'trajectory' | 'rewards'> {
  readonly agent: string | undefined;
  readonly score: number;
  /** Their numbers. */
  readonly segments: readonly number[];
}

/** A sub-agent with a reward of its own is a part; what is left has the attempt's. */
function partsOf({ trajectory, rewards, reward }: Scored<unknown>): Part[] {
  const { segments, agentRewards = {} } = trajectory;
  const ownerOf = ({ agent }: Segment) => (agent !== undefined && agent in agentRewards ? agent : undefined);
  const owners = segments.map(ownerOf);
  const numbersOf = (owner: string | undefined) =>
    owners.flatMap((each, number) => (each === owner ? number : []));
  const rest = { trajectory, rewards, agent: undefined, score: reward!, segments: numbersOf(undefined) };
  const named = [...new Set(owners)].flatMap((agent): Part[] => {
    if (agent === undefined) return [];
    const score = agentRewards[agent]!;
    return [{ trajectory, rewards: { [agent]: score }, agent, score, segments: numbersOf(agent) }];
  });
  return [rest, ...named];
}

const coordinates = ({ id, taskIndex, attempt }: Trajectory<unknown>) => ({ id, taskIndex, attempt });

function reasonToLeaveOut(
  { trajectory, reward }: Scored<unknown>,
  truncated: Algorithm['truncated'],
): Pick<LeftOut, 'why' | 'message'> | undefined {
  const { end } = trajectory;
  if (end.kind === 'failed') {
    return end.boundary === 'reward'
      ? { why: 'reward-failed', message: end.message }
      : { why: 'failed', message: `${end.boundary}: ${end.message}` };
  }
  if (reward === undefined) {
    return end.kind === 'cancelled'
      ? { why: 'cancelled', message: end.why }
      : { why: 'not-scored', message: 'has no reward' };
  }
  if (!Number.isFinite(reward)) return { why: 'reward-not-finite', message: `its reward is ${reward}` };
  if (end.kind === 'truncated' && truncated === 'leave-out') return { why: 'truncated', message: end.why };
  return undefined;
}

function sequenceOf(segment: Segment, trajectory: number, number: number): Sequence {
  const trained = Uint8Array.from(segment.trained);
  if (trained.length > 0) trained[0] = 0; // nothing predicts the first token
  const positions: number[] = [];
  for (let at = 1; at < trained.length; at++) if (trained[at]) positions.push(at);
  return {
    trajectory,
    segment: number,
    ids: segment.ids,
    trained,
    positions: Int32Array.from(positions),
    behaviour: segment.logprobs,
    versions: segment.versions,
    turns: segment.turns,
    images: segment.images,
  };
}

/** A turn's reward is on its last trained token; for a turn that is not trained, on the last one before it. */
function turnRewardsOf(
  id: string,
  turns: readonly Turn[],
  sequenceOfSegment: (segment: number) => { index: number; sequence: Sequence } | undefined,
): BatchTrajectory['turnRewards'] {
  const placed: { sequence: number; at: number; reward: number }[] = [];
  let last: { sequence: number; at: number } | undefined;
  for (const turn of turns) {
    const found = sequenceOfSegment(turn.segment);
    const at = found?.sequence.positions.findLast(
      (position) => position >= turn.start && position < turn.end,
    );
    if (found && at !== undefined) last = { sequence: found.index, at };
    const reward = turnReward(turn);
    if (!Number.isFinite(reward)) {
      throw new RewardError(
        `trajectory ${id} has a turn reward of ${reward}; a tool's or turn's reward must be a finite number`,
      );
    }
    if (reward !== 0 && last) placed.push({ ...last, reward });
  }
  return placed;
}

const turnReward = (turn: Turn) =>
  turn.toolRuns.reduce((sum, run) => sum + (run.reward ?? 0), turn.reward ?? 0);

/**
 * DAPO, soft over-long punishment: 0 up to max − buffer, then falling linearly; `−penalty` at max and
 * falling further beyond it.
 */
export function overlongPenalty(tokens: number, overlong: Overlong | undefined): number {
  if (!overlong) return 0;
  const excess = tokens - (overlong.maxTokens - overlong.bufferTokens);
  return Math.min((-excess / overlong.bufferTokens) * overlong.penalty, 0);
}
