import type { Trainer } from './trainer.ts';

/** What a run brings to its algorithm; what is not given is not checked. */
export interface AlgorithmSetting {
  /** What the policy's trainer can. */
  readonly can: Trainer['can'];
  readonly criticCan?: Trainer['can'];
  readonly attemptsPerTask: number;
  readonly tokensPerTrajectory?: number;
  readonly rewardNames?: readonly string[];
  readonly temperature?: number;
}
