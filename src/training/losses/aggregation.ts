/**
 * How token losses become one number. Each gives a weight per token that already holds the global counts of the
 * mini-batch, so losses and gradients of micro-batches simply add up. A sequence is a trajectory: one that was
 * cut into several segments counts once.
 */
export type Aggregation =
  | { readonly kind: 'token-mean' }
  | { readonly kind: 'token-sum' }
  | { readonly kind: 'sequence-mean-token-sum' }
  | { readonly kind: 'sequence-mean-token-mean' }
  /** Dr. GRPO: a constant instead of the length; without one, the run's `tokensPerTrajectory`. */
  | { readonly kind: 'sequence-mean-token-sum-norm'; readonly divisor?: number };

export const AGGREGATIONS = [
  'token-mean',
  'token-sum',
  'sequence-mean-token-sum',
  'sequence-mean-token-mean',
  'sequence-mean-token-sum-norm',
] as const satisfies readonly Aggregation['kind'][];

export interface AggregationCounts {
  /** Trained tokens of the mini-batch. */
  readonly tokens: number;
  /** Trajectories of the mini-batch with at least one trained token. */
  readonly sequences: number;
}

/** Weight of each token of a trajectory with `tokens` trained tokens. */
export function tokenWeight(
  aggregation: Aggregation,
  tokens: number,
  counts: AggregationCounts,
  tokensPerTrajectory?: number,
): number {
  switch (aggregation.kind) {
    case 'token-mean':
      return 1 / counts.tokens;
    case 'token-sum':
      return 1;
    case 'sequence-mean-token-sum':
      return 1 / counts.sequences;
    case 'sequence-mean-token-mean':
      return 1 / (tokens * counts.sequences);
    case 'sequence-mean-token-sum-norm':
      return 1 / (counts.sequences * (aggregation.divisor ?? tokensPerTrajectory ?? Number.NaN));
  }
}
