/** Lower and upper bound. */
export type Bounds = readonly [low: number, high: number];

export type RejectionStatistic =
  | 'token-k1'
  | 'token-k2'
  | 'token-k3'
  | 'sequence-sum-k1'
  | 'sequence-sum-k2'
  | 'sequence-sum-k3'
  | 'sequence-mean-k1'
  | 'sequence-mean-k2'
  | 'sequence-mean-k3'
  | 'sequence-max-k2'
  | 'sequence-max-k3';

/**
 * The engine that sampled and the trainer that learns never agree exactly, and in asynchronous modes the engine's
 * weights are older. What to do about the tokens on which they differ.
 */
export interface CorrectionOptions {
  /** Importance weights π_old / π_rollout on the loss. */
  readonly weights?: {
    readonly level: 'token' | 'sequence';
    /** `truncate`: min(w, high). `mask`: 0 outside [low, high] (IcePop). */
    readonly outside: 'truncate' | 'mask';
    readonly bounds: Bounds;
    /** Divide by the batch's mean weight. */
    readonly normalize: boolean;
  };
  /** Tokens or trajectories that are not trained. All must pass. k1 bounds are on π_rollout / π_old. */
  readonly rejection?: readonly { readonly statistic: RejectionStatistic; readonly bounds: Bounds }[];
  /** A token sampled `n` versions ago weighs 2^(−n / halfLifeVersions). */
  readonly staleness?: { readonly halfLifeVersions: number; readonly maxVersions?: number };
}
