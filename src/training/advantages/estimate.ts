import type { AdvantageOptions, Advantages, AdvantageTrajectory } from './advantage.ts';
import {
  gdpoAdvantages,
  gpgAdvantages,
  grpoAdvantages,
  opoAdvantages,
  passAtKAdvantages,
  reinforcePlusPlusBaselineAdvantages,
  rlooAdvantages,
} from './group-relative.ts';
import { optimalTokenBaselineAdvantages } from './optimal-token-baseline.ts';
import { gaeAdvantages, reinforcePlusPlusAdvantages, remaxAdvantages } from './returns.ts';
import { processGrpoAdvantages, turnGrpoAdvantages } from './turn-level.ts';

export function estimateAdvantages(
  trajectories: readonly AdvantageTrajectory[],
  options: AdvantageOptions,
): Advantages {
  switch (options.kind) {
    case 'grpo':
      return grpoAdvantages(trajectories, options);
    case 'gae':
      return gaeAdvantages(trajectories, options);
    case 'rloo':
      return rlooAdvantages(trajectories);
    case 'reinforce++':
      return reinforcePlusPlusAdvantages(trajectories, options);
    case 'reinforce++-baseline':
      return reinforcePlusPlusBaselineAdvantages(trajectories);
    case 'remax':
      return remaxAdvantages(trajectories);
    case 'gpg':
      return gpgAdvantages(trajectories, options);
    case 'opo':
      return opoAdvantages(trajectories);
    case 'pass@k':
      return passAtKAdvantages(trajectories, options);
    case 'gdpo':
      return gdpoAdvantages(trajectories, options);
    case 'optimal-token-baseline':
      return optimalTokenBaselineAdvantages(trajectories);
    case 'turn-grpo':
      return turnGrpoAdvantages(trajectories, options);
    case 'process-grpo':
      return processGrpoAdvantages(trajectories, options);
    case 'custom':
      return options.estimate(trajectories);
  }
}

/** Estimators that compare attempts at one task, and so need two or more. */
export function comparesAttempts(options: AdvantageOptions): boolean {
  return !['gae', 'reinforce++', 'remax', 'optimal-token-baseline', 'custom'].includes(options.kind);
}
