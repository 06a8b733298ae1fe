import { ConfigError } from '../errors.ts';
import type { Group } from '../types.ts';
import type { AdvantageOptions } from './advantages/advantage.ts';
import type { CorrectionOptions } from './correction.ts';
import type { FiltrationOptions } from './filtration-options.ts';
import type { KlOptions } from './kl.ts';
import type { Aggregation } from './losses/aggregation.ts';
import type { LossOptions } from './losses/loss.ts';

/**
 * A training algorithm is a value: which advantage, which loss, how tokens are averaged, what is filtered and
 * what keeps it close to a reference. It is plain data (a `custom` part aside), so it can be logged, stored
 * beside a batch and run again. The functions that act on it are pure; `updatePolicy` calls them.
 */
export interface Algorithm {
  /** The algorithm's name in its paper, for logs. */
  readonly name: string;
  readonly advantage: AdvantageOptions;
  readonly loss: LossOptions;
  readonly aggregation: Aggregation;
  /** Coefficient of the mean entropy, which is maximised; 0 is off. */
  readonly entropyBonus: number;
  readonly kl?: KlOptions;
  /**
   * The policy that the ratio compares to. `recompute`: the trainer scores the batch before the first update
   * (verl: decoupled). `behaviour`: what the engine reported when it sampled (verl: bypass; one forward less).
   */
  readonly old: 'recompute' | 'behaviour';
  readonly correction?: CorrectionOptions;
  /** DAPO's dynamic sampling: groups whose attempts all got the same are replaced by new ones. */
  readonly dynamicSampling?: DynamicSampling;
  /** DAPO's soft penalty for long trajectories. */
  readonly overlong?: Overlong;
  /** What a truncated trajectory does: is trained; counts in its group without being trained; is left out. */
  readonly truncated: 'train' | 'mask' | 'leave-out';
  /** Whether rewards of turns and tools join the token rewards. Off: only the trajectory's reward counts. */
  readonly turnRewards: boolean;
  readonly critic?: CriticOptions;
  readonly filtration?: FiltrationOptions;
}

export interface DynamicSampling {
  /** A reward's name, or `reward` for the weighted sum. */
  readonly metric: string;
  /** Rounds of refill before the step continues with what it has; -1 is no limit. */
  readonly maxRefills: number;
}

export interface Overlong {
  /** Length at which the penalty is full; tokens after the prompt, observations included. */
  readonly maxTokens: number;
  /** The penalty rises linearly over the last `bufferTokens` before `maxTokens`. */
  readonly bufferTokens: number;
  readonly penalty: number;
}

export interface CriticOptions {
  /** The value may move this far from what it was before the update; 0 is no clipping. */
  readonly clip: number;
  /** Steps in which only the critic learns. */
  readonly warmupSteps: number;
  /** Absent: the policy's. Unused where the value head sits on the policy. */
  readonly learningRate?: number;
  /** Passes over a batch; absent: as many as the policy makes. Unused where the value head sits on the policy. */
  readonly epochs?: number;
  /** Updates a pass; absent: as many as the policy makes. Unused where the value head sits on the policy. */
  readonly miniBatches?: number;
  /** A folder or hub name to start from; absent: the policy's own model. */
  readonly model?: string;
  /** The value head sits on the policy itself: one model, one pass. */
  readonly shared: boolean;
  /** Weight of the value loss where the value head sits on the policy itself. */
  readonly coefficient: number;
}

/**
 * Whether a group can teach: its attempts did not all get the same. Failed attempts do not count. With a single
 * attempt per task every group is kept, as in verl.
 */
export function keepGroup(group: Group<unknown>, { metric }: Pick<DynamicSampling, 'metric'>): boolean {
  if (group.attempts.length === 1) return true;
  const values = group.attempts
    .filter(({ trajectory, reward }) => reward !== undefined && trajectory.end.kind !== 'failed')
    .map(({ reward, rewards, trajectory }) => {
      const value = metric === 'reward' ? reward : rewards[metric];
      if (value === undefined) {
        throw new ConfigError(
          `dynamic sampling looks at the reward '${metric}', which trajectory ${trajectory.id} does not have; it has ${Object.keys(rewards).join(', ') || 'none'}, and 'reward' is their sum`,
        );
      }
      return value;
    });
  return values.some((value) => value !== values[0]);
}
