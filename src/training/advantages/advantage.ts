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
  /** Reward of the greedy attempt at the same task (ReMax). */
  readonly baseline?: number;
  /** Turn of each trained token. */
  readonly turns: Int32Array;
  /** Of the old policy. */
  readonly logprobs?: Float64Array;
  readonly sumSquares?: Float64Array;
  readonly values?: Float64Array;
  /** Importance weights of the off-policy correction. */
  readonly weights?: Float64Array;
}

export interface Advantages {
  /** Per trajectory, per trained token. */
  readonly advantages: readonly Float64Array[];
  /** What a critic should predict. */
  readonly returns?: readonly Float64Array[];
}

export type AdvantageEstimator = (trajectories: readonly AdvantageTrajectory[]) => Advantages;

export type AdvantageOptions =
  | { readonly kind: 'grpo'; readonly normalizeByStd: boolean }
  | { readonly kind: 'gae'; readonly discount: number; readonly lambda: number }
  | { readonly kind: 'rloo' }
  | { readonly kind: 'reinforce++'; readonly discount: number }
  | { readonly kind: 'reinforce++-baseline' }
  | { readonly kind: 'remax' }
  | { readonly kind: 'gpg'; readonly norm: number }
  | { readonly kind: 'opo' }
  | { readonly kind: 'pass@k'; readonly normalizeByStd: boolean }
  | { readonly kind: 'gdpo'; readonly weights: Readonly<Record<string, number>> }
  | { readonly kind: 'optimal-token-baseline' }
  | {
      readonly kind: 'turn-grpo';
      readonly discount: number;
      readonly normalizeByStd: boolean;
      /** `turn`: with the attempts that reached the same turn; `group`: with all turns of the group. */
      readonly compare: 'turn' | 'group';
    }
  | { readonly kind: 'process-grpo'; readonly normalizeByStd: boolean }
  | { readonly kind: 'custom'; readonly name: string; readonly estimate: AdvantageEstimator };
