import type { Settings, Values } from '../../lib/setting.ts';
import type { AlgorithmSetting } from '../algorithm-setting.ts';
import type { Output } from '../trainer.ts';

/**
 * What an estimator sees of a trajectory. Arrays run over its trained tokens only, all segments in order of
 * time: prompts and observations are not there, so nothing is discounted or bootstrapped across them.
 */
export interface AdvantageTrajectory {
  /** Trajectories with the same number are attempts at the same task. */
  readonly group: number;
  readonly rewards: Readonly<Record<string, number>>;
  /** Reward on the last trained token, plus turn rewards and minus the KL penalty where the algorithm says so. */
  readonly tokenRewards: Float64Array;
  /** Σ of the token rewards, also when nothing is trained. */
  readonly reward: number;
  /** Reward of the greedy attempt at the same task, where the estimator needs one. */
  readonly baseline?: number;
  /** Turn of each trained token. */
  readonly turns: Int32Array;
  /** Log-probs under the old policy. */
  readonly logprobs?: Float64Array;
  readonly sumSquares?: Float64Array;
  readonly values?: Float64Array;
  /** Importance weights of the off-policy correction. */
  readonly weights?: Float64Array;
}

/** The advantage of every trained token, and the returns for a critic. */
export interface Advantages {
  /** Per trajectory, per trained token. */
  readonly advantages: readonly Float64Array[];
  /** What a critic should predict. */
  readonly returns?: readonly Float64Array[];
}

export type AdvantageEstimator = (trajectories: readonly AdvantageTrajectory[]) => Advantages;

/** What an estimator needs of the loop, beside the attempts and their rewards. */
export interface AdvantageNeeds {
  /** Attempts at one task are compared, so there must be two or more. */
  readonly comparesAttempts?: boolean;
  /** The reward of one greedy attempt at every task, as `AdvantageTrajectory.baseline`. */
  readonly greedyAttempt?: boolean;
  /** What the trainer must give of the old policy, beside log-probs. */
  readonly outputs?: readonly Exclude<Output, 'logprob' | 'value'>[];
  /** Values of a critic. */
  readonly values?: boolean;
}

/** An estimator as an algorithm's file defines it. `AdvantageOptions` is the same as data. */
export interface Advantage<S extends Settings = Settings> {
  readonly kind: string;
  readonly settings: S;
  readonly needs: AdvantageNeeds;
  estimate(trajectories: readonly AdvantageTrajectory[], settings: Values<S>): Advantages;
  /** What is wrong with settings that are right one by one, or undefined. */
  check?(settings: Values<S>, run: AlgorithmSetting): string | undefined;
}

/** A custom estimator. It is code, so a batch trained with it is replayed from a program only. */
export interface CustomAdvantage {
  readonly kind: 'custom';
  readonly name: string;
  readonly estimate: AdvantageEstimator;
  readonly needs?: AdvantageNeeds;
}

/** An estimator as data: `{ kind: 'grpo', normalizeByStd: true }`, or a custom one. */
export type AdvantageOptions =
  | { readonly kind: string; readonly [setting: string]: unknown }
  | CustomAdvantage;
