import { clamp } from './losses/ratio.ts';

/**
 * Estimates of KL(policy ‖ reference) from the log-prob of the sampled token (Schulman 2020), x = log π − log ref:
 *   k1: x    abs: |x|    k2: x²/2    k3: e^−x + x − 1
 * k1 is unbiased and noisy, k3 unbiased and never negative. As a loss, the gradient of k1 has mean zero and does
 * nothing, that of k3 is biased; k2 has the right gradient in the mean, so `k1+` and `k3+` show the value of k1 or
 * k3 and push with the gradient of k2.
 */
export const KL_ESTIMATORS = ['k1', 'k2', 'k3', 'abs', 'k1+', 'k3+'] as const;
export type KlEstimator = (typeof KL_ESTIMATORS)[number];

export interface KlOptions {
  /** `loss`: a term of the loss, with gradient. `reward`: taken off each token's reward. */
  readonly as: 'loss' | 'reward';
  readonly estimator: KlEstimator;
  readonly coefficient: number;
  /** Moves the coefficient so that the KL comes near `target`. Only with `as: 'reward'`. */
  readonly adaptive?: { readonly target: number; readonly horizon: number };
  /** Steps after which the reference becomes a copy of the policy; absent: frozen. */
  readonly refreshEverySteps?: number;
}

/** Value and gradient by log π. k3 is held in [−10, 10], and its exponent in ±20, as in verl. */
export function estimateKl(
  logprob: number,
  reference: number,
  estimator: KlEstimator,
): { value: number; gradient: number } {
  const x = logprob - reference;
  switch (estimator) {
    case 'k1':
      return { value: x, gradient: 1 };
    case 'abs':
      return { value: Math.abs(x), gradient: Math.sign(x) };
    case 'k2':
      return { value: x ** 2 / 2, gradient: x };
    case 'k1+':
      return { value: x, gradient: x };
    case 'k3':
    case 'k3+': {
      const y = clamp(-x, -20, 20);
      const value = Math.exp(y) - y - 1;
      const held = value > 10 || y !== -x;
      return {
        value: Math.min(value, 10),
        gradient: estimator === 'k3+' ? x : held ? 0 : 1 - Math.exp(y),
      };
    }
  }
}

/**
 * Adaptive KL controller (Ziegler et al. 2019):  β ← β·(1 + clip(kl/target − 1, ±0.2)·n/horizon),  n in
 * trajectories.
 */
export function adaptKlCoefficient(
  coefficient: number,
  kl: number,
  trajectories: number,
  { target, horizon }: { readonly target: number; readonly horizon: number },
): number {
  return coefficient * (1 + (clamp(kl / target - 1, -0.2, 0.2) * trajectories) / horizon);
}
