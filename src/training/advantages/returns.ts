import { ConfigError } from '../../errors.ts';
import { whiten } from '../statistics.ts';
import type { Advantages, AdvantageTrajectory } from './advantage.ts';

/** Estimators from the return that follows each token. */

/**
 * GAE (Schulman et al. 2015), over trained tokens: the token after an observation is the next one.
 *   δ_t = r_t + γ V_{t+1} − V_t,  A_t = δ_t + γλ A_{t+1},  returns = A + V,  then A is whitened over the batch
 */
export function gaeAdvantages(
  trajectories: readonly AdvantageTrajectory[],
  { discount, lambda }: { readonly discount: number; readonly lambda: number },
): Advantages & { readonly returns: readonly Float64Array[] } {
  const raw = trajectories.map(({ tokenRewards, values }) => {
    if (!values) throw new ConfigError('GAE needs values, but there is no critic; give one, or use grpo()');
    const advantages = new Float64Array(tokenRewards.length);
    let [nextValue, nextAdvantage] = [0, 0];
    for (let t = tokenRewards.length - 1; t >= 0; t--) {
      const delta = tokenRewards[t]! + discount * nextValue - values[t]!;
      nextAdvantage = delta + discount * lambda * nextAdvantage;
      nextValue = values[t]!;
      advantages[t] = nextAdvantage;
    }
    return advantages;
  });
  const returns = raw.map((advantages, i) =>
    advantages.map((value, t) => value + trajectories[i]!.values![t]!),
  );
  return { advantages: whiten(raw), returns };
}

/**
 * REINFORCE++ (Hu 2025): no group, no critic; the return, whitened over the batch's tokens.
 *   G_t = r_t + γ G_{t+1},  A = whiten(G)
 */
export function reinforcePlusPlusAdvantages(
  trajectories: readonly AdvantageTrajectory[],
  { discount }: { readonly discount: number },
): Advantages {
  const returns = trajectories.map(({ tokenRewards }) => returnsToGo(tokenRewards, discount));
  return { advantages: whiten(returns), returns };
}

/**
 * ReMax (Li et al. 2023): the return less the reward of one greedy attempt.  A_t = Σ_{s≥t} r_s − R_greedy
 * A task whose greedy attempt failed has no advantage.
 */
export function remaxAdvantages(trajectories: readonly AdvantageTrajectory[]): Advantages {
  if (trajectories.length > 0 && trajectories.every(({ baseline }) => baseline === undefined)) {
    throw new ConfigError(
      'remax() needs the reward of a greedy attempt at every task; give `baselines` to createBatch, or use rloo()',
    );
  }
  const returns = trajectories.map(({ tokenRewards }) => returnsToGo(tokenRewards, 1));
  const advantages = returns.map((list, i) => {
    const { baseline } = trajectories[i]!;
    return list.map((value) => (baseline === undefined ? 0 : value - baseline));
  });
  return { advantages, returns };
}

export function returnsToGo(rewards: Float64Array, discount: number): Float64Array {
  const returns = new Float64Array(rewards.length);
  let next = 0;
  for (let t = rewards.length - 1; t >= 0; t--) {
    next = rewards[t]! + discount * next;
    returns[t] = next;
  }
  return returns;
}
