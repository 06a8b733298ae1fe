/**
 * Keeping the policy near a reference.
 */
export type KlEstimator = 'k1' | 'k2' | 'k3' | 'abs' | 'k1+' | 'k3+';

export interface KlOptions {
  /** `loss`: a term of the loss, with gradient. `reward`: taken off each token's reward. */
  readonly as: 'loss' | 'reward';
  readonly estimator: KlEstimator;
  readonly coefficient: number;
  /** Moves the coefficient so that the KL comes near `target` (Ziegler et al. 2019). Only with `as: 'reward'`. */
  readonly adaptive?: { readonly target: number; readonly horizon: number };
  /** The reference becomes a copy of the policy every so many steps; absent: frozen. */
  readonly refreshEverySteps?: number;
}
