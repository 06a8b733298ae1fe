import { ConfigError } from '../../errors.ts';
import type { AdvantageTrajectory } from '../advantages/advantage.ts';
import { groupIndices } from '../advantages/groups.ts';
import { returnsToGo } from '../advantages/returns.ts';
import { algorithm } from './define.ts';

/**
 * Optimal token baseline: at each position the baseline that minimises the variance of the gradient, with the
 * squared norm of a token's score function, 1 − 2π + Σπ², as its weight.
 *   w_t = (1 − 2π_t + Σπ²) · ρ̄²,  W_t = Σ_{s≤t} w_s,  B_t = Σ_i G_{i,t} W_{i,t} / Σ_i W_{i,t},  A_t = G_t − B_t
 * Where only one attempt of the group is left (its tail, or alone from the start) there is no baseline.
 * Positions count trained tokens only, which is verl's `tir_` form; with one turn the two are the same.
 */
export const optimalTokenBaseline = algorithm({
  name: 'optimal-token-baseline',
  title: 'optimal token baseline',
  advantage: {
    kind: 'optimal-token-baseline',
    settings: {},
    needs: { outputs: ['sumSquares'] },
    estimate: (trajectories) => {
      const returns = trajectories.map(({ tokenRewards }) => returnsToGo(tokenRewards, 1));
      const energies = trajectories.map(cumulatedEnergy);
      const advantages = returns.map((list) => list.slice());
      for (const indices of groupIndices(trajectories)) {
        const longest = Math.max(...indices.map((index) => returns[index]!.length));
        for (let t = 0; t < longest; t++) {
          const alive = indices.filter((index) => t < returns[index]!.length);
          if (alive.length < 2) break;
          const weight = alive.reduce((sum, index) => sum + energies[index]![t]!, 0);
          const weighted = alive.reduce((sum, index) => sum + returns[index]![t]! * energies[index]![t]!, 0);
          for (const index of alive) advantages[index]![t] = returns[index]![t]! - weighted / (weight + 1e-8);
        }
      }
      return { advantages, returns };
    },
  },
  verl: { estimators: ['optimal_token_baseline', 'tir_optimal_token_baseline'] },
});

function cumulatedEnergy({ logprobs, sumSquares, weights }: AdvantageTrajectory): Float64Array {
  if (!logprobs || !sumSquares) {
    throw new ConfigError('the optimal token baseline needs log-probs and Σπ² of the old policy');
  }
  let sum = 0;
  return logprobs.map((logprob, t) => {
    sum += (1 - 2 * Math.exp(logprob) + sumSquares[t]!) * (weights?.[t] ?? 1) ** 2;
    return sum;
  });
}
