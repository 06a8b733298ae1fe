import { ConfigError } from '../errors.ts';
import type { Group } from '../types.ts';
import type { AdvantageOptions } from './advantages/advantage.ts';
import { comparesAttempts } from './advantages/estimate.ts';
import { type CorrectionOptions, REJECTION_STATISTICS } from './correction.ts';
import type { FiltrationOptions } from './filtration.ts';
import type { KlOptions } from './kl.ts';
import type { Aggregation } from './losses/aggregation.ts';
import type { LossOptions } from './losses/loss.ts';
import type { Trainer } from './trainer.ts';

/**
 * A training algorithm is a value: which advantage, which loss, how tokens are averaged, what is filtered and
 * what keeps it close to a reference. It is plain data (a `custom` part aside), so it can be logged, stored
 * beside a batch and run again. The functions that act on it are pure; `updatePolicy` calls them.
 */
export interface Algorithm {
  /** As in the paper, for logs. */
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
  /** Rounds of refill before the step goes on with what it has; -1 is no limit. */
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
 * Whether a group can teach: its attempts did not all get the same. Failed attempts do not count. Of tasks with a
 * single attempt every group is kept, as in verl.
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

/** What a run brings to its algorithm; what is not given is not checked. */
export interface AlgorithmSetting {
  /** Of the policy's trainer. */
  readonly can: Trainer['can'];
  readonly criticCan?: Trainer['can'];
  readonly attemptsPerTask: number;
  readonly tokensPerTrajectory?: number;
  readonly rewardNames?: readonly string[];
  readonly temperature?: number;
}

/** Refuses, before anything starts, what cannot work. */
export function checkAlgorithm(algorithm: Algorithm, setting: AlgorithmSetting): void {
  const { name, advantage, loss, aggregation, kl, critic, correction, overlong, filtration } = algorithm;
  const refuse = (problem: string): never => {
    throw new ConfigError(problem);
  };
  if (comparesAttempts(advantage) && setting.attemptsPerTask < 2) {
    refuse(
      `attemptsPerTask is ${setting.attemptsPerTask}, but ${name} compares attempts at one task; use 2 or more, or reinforcePlusPlus()`,
    );
  }
  if (algorithm.entropyBonus !== 0 && !setting.can.has('entropy')) {
    refuse(`${name} has an entropy bonus, but this trainer gives no entropy; set entropyBonus to 0`);
  }
  if (advantage.kind === 'optimal-token-baseline' && !setting.can.has('sumSquares')) {
    refuse(`${name} needs Σπ², which this trainer does not give; use rloo() or grpo()`);
  }
  if (setting.temperature !== undefined && setting.temperature !== 1 && !setting.can.has('temperature')) {
    refuse(
      `the temperature is ${setting.temperature}, but this trainer scores at 1 only, so every ratio would be wrong; sample at temperature 1`,
    );
  }
  if (advantage.kind === 'gae' && !critic) refuse(`${name} uses GAE but has no critic options; use ppo()`);
  if (critic && setting.criticCan && !setting.criticCan.has('value')) {
    refuse(`${name} needs a critic, but its trainer has no value head; open it as a critic, or use grpo()`);
  }
  if (critic?.shared && !setting.can.has('value')) {
    refuse(
      `the critic of ${name} is a value head on the policy, but this trainer has none; use critic: { shared: false }`,
    );
  }
  if (critic?.shared && critic.model !== undefined) {
    refuse(
      `the critic of ${name} is a value head on the policy, and also a model of its own, ${critic.model}; give one of shared and model`,
    );
  }
  if (filtration && advantage.kind !== 'gae') {
    refuse(`policy filtration is for PPO, where a critic gives the advantage; ${name} compares attempts`);
  }
  if (filtration && !(filtration.power >= 0)) {
    refuse(`the power of the policy filtration is ${filtration.power}; use 0 or more, such as 2`);
  }
  if (critic?.epochs !== undefined && !(Number.isInteger(critic.epochs) && critic.epochs > 0)) {
    refuse(`the critic makes ${critic.epochs} passes over a batch; use a whole number of 1 or more`);
  }
  if (critic && !(critic.clip >= 0)) refuse(`the critic's clip is ${critic.clip}; use 0 (off) or more`);
  if ('low' in loss) {
    for (const bound of ['low', 'high'] as const) {
      if (!(loss[bound] >= 0))
        refuse(`the clip's ${bound} bound is ${loss[bound]}; use a number such as 0.2`);
    }
    if (loss.low >= 1 && loss.kind === 'clip') {
      refuse(`the clip's low bound is ${loss.low}, which lets a ratio fall to 0; use less than 1`);
    }
  }
  if (loss.kind === 'clip' && loss.dual !== undefined && !(loss.dual > 1)) {
    refuse(
      `dualClip is ${loss.dual}; it bounds a ratio that is already above 1, so use more than 1, or 0 for off`,
    );
  }
  if (loss.kind === 'dro' && !(loss.beta > 0)) refuse(`dro's beta is ${loss.beta}; use a number above 0`);
  if (loss.kind === 'sapo' && !(loss.positive > 0 && loss.negative > 0)) {
    refuse(`sapo's gates are ${loss.positive} and ${loss.negative}; use numbers above 0, such as 1 and 1.05`);
  }
  if (loss.kind === 'dppo' && !(loss.cap > 0)) refuse(`dppo's cap is ${loss.cap}; use a ratio such as 20`);
  if ('fraction' in loss && !(loss.fraction > 0 && loss.fraction <= 1)) {
    refuse(`${loss.kind} acts on ${loss.fraction} of the tokens; use a share above 0, such as 0.0002`);
  }
  if (loss.kind === 'clip-cov' && !(loss.covariance[0] < loss.covariance[1])) {
    refuse(
      `clip-cov cuts covariances from ${loss.covariance.join(' to ')}; use low before high, such as 1, 5`,
    );
  }
  if (
    aggregation.kind === 'sequence-mean-token-sum-norm' &&
    !((aggregation.divisor ?? setting.tokensPerTrajectory ?? 0) > 0)
  ) {
    refuse(
      `${name} divides by a constant length, but none is known; give divisor, such as drGrpo({ divisor: 1024 })`,
    );
  }
  if ((kl?.estimator as string) === 'full') {
    refuse(
      "the KL estimator 'full' needs whole distributions of policy and reference, which no trainer gives; use k1, k2, k3, abs, k1+ or k3+",
    );
  }
  if (kl?.adaptive && kl.as !== 'reward') {
    refuse("an adaptive KL coefficient works on the reward; use kl: { as: 'reward', adaptive: … }");
  }
  if (kl && !(kl.coefficient >= 0)) refuse(`the KL coefficient is ${kl.coefficient}; use 0 or more`);
  if (algorithm.old === 'behaviour' && correction?.weights?.normalize) {
    refuse(
      "the correction's weights are to be normalised, but with old: 'behaviour' they are computed sequence by sequence in the pass, where no mean over the batch is known; use normalize: false, or old: 'recompute'",
    );
  }
  if (algorithm.old === 'behaviour' && correction?.weights && loss.kind !== 'reinforce') {
    refuse(
      `with old: 'behaviour' the ratio of ${name} already compares to the engine, and importance weights would count it twice; use old: 'recompute', or the reinforce loss`,
    );
  }
  for (const { statistic, bounds } of correction?.rejection ?? []) {
    if (!REJECTION_STATISTICS.includes(statistic)) {
      refuse(`rejection by '${statistic}' is not known; use one of ${REJECTION_STATISTICS.join(', ')}`);
    }
    if (!(bounds[1] > 0) || (statistic.endsWith('k1') && !(bounds[0] > 0 && bounds[0] <= bounds[1]))) {
      refuse(
        `rejection by ${statistic} has the bounds ${bounds.join(' to ')}; use ratios above 0, low before high`,
      );
    }
  }
  if (correction?.weights && !(correction.weights.bounds[1] > 0)) {
    refuse(`importance weights are cut at ${correction.weights.bounds[1]}; use a number above 0, such as 2`);
  }
  const refills = algorithm.dynamicSampling?.maxRefills ?? 0;
  if (!(Number.isInteger(refills) && refills >= -1)) {
    refuse(`dynamicSampling.maxRefills is ${refills}; use a whole number, 0 for none or -1 for no limit`);
  }
  if (overlong && !(overlong.bufferTokens > 0 && overlong.bufferTokens <= overlong.maxTokens)) {
    refuse(
      `the over-long buffer is ${overlong.bufferTokens} of ${overlong.maxTokens} tokens; use more than 0 and at most all`,
    );
  }
  if (advantage.kind === 'gpg' && !(advantage.norm > 0)) {
    refuse(`gpg() divides the advantage by ${advantage.norm}; use a number above 0`);
  }
  if (advantage.kind === 'gdpo' && Object.keys(advantage.weights).length === 0) {
    refuse(
      'gdpo() weighs no reward, so nothing would be learned; give each its weight, such as { correct: 1 }',
    );
  }
  if (advantage.kind === 'gdpo' && setting.rewardNames) {
    for (const reward of Object.keys(advantage.weights)) {
      // A reward that gives several numbers has parts: `NAME/part`.
      if (!setting.rewardNames.includes(reward.split('/')[0]!)) {
        refuse(
          `gdpo() weighs the reward '${reward}', but the run has ${setting.rewardNames.join(', ') || 'none'}`,
        );
      }
    }
  }
}
