import { ConfigError } from '../errors.ts';
import type { Algorithm } from './algorithm.ts';
import type { AlgorithmSetting } from './algorithm-setting.ts';
import { REJECTION_STATISTICS } from './correction.ts';
import { KL_ESTIMATORS } from './kl.ts';
import { type OpenLoss, openAdvantage, openLoss } from './parts.ts';
import type { Output } from './trainer.ts';

/** What a trainer computes of each token, in words. */
const OUTPUT_WORDS: Readonly<Record<Output, string>> = {
  logprob: 'log-probs',
  entropy: 'the entropy',
  sumSquares: 'Σπ²',
  value: 'values',
};

/** Throws, before anything starts, for combinations that cannot work. */
export function checkAlgorithm(algorithm: Algorithm, setting: AlgorithmSetting): void {
  const advantage = openAdvantage(algorithm.advantage);
  const loss = openLoss(algorithm.loss);
  const problem =
    wrongWithTrainer(algorithm, setting, advantage.needs.outputs ?? []) ??
    wrongWithCritic(algorithm, setting, advantage.needs.values ?? false) ??
    (advantage.needs.comparesAttempts && setting.attemptsPerTask < 2
      ? `attemptsPerTask is ${setting.attemptsPerTask}, but ${algorithm.name} compares attempts at one task; use 2 or more, or reinforcePlusPlus()`
      : undefined) ??
    advantage.check(setting) ??
    loss.check(setting) ??
    wrongWithCommon(algorithm, setting) ??
    wrongWithKl(algorithm) ??
    wrongWithCorrection(algorithm, loss);
  if (problem !== undefined) throw new ConfigError(problem);
}

function wrongWithTrainer(
  { name, entropyBonus }: Algorithm,
  { can, temperature = 1 }: AlgorithmSetting,
  outputs: readonly Exclude<Output, 'logprob' | 'value'>[],
): string | undefined {
  if (entropyBonus !== 0 && !can.has('entropy')) {
    return `${name} has an entropy bonus, but this trainer gives no entropy; set entropyBonus to 0`;
  }
  const missing = outputs.find((output) => !can.has(output));
  if (missing !== undefined) {
    return `${name} needs ${OUTPUT_WORDS[missing]}, which this trainer does not give; use rloo() or grpo()`;
  }
  if (temperature !== 1 && !can.has('temperature')) {
    return `the temperature is ${temperature}, but this trainer scores at 1 only, so every ratio would be wrong; sample at temperature 1`;
  }
  return undefined;
}

function wrongWithCritic(
  { name, critic, filtration }: Algorithm,
  { can, criticCan }: AlgorithmSetting,
  needsValues: boolean,
): string | undefined {
  if (needsValues && !critic) return `${name} needs values but has no critic options; use ppo()`;
  if (critic && criticCan && !criticCan.has('value')) {
    return `${name} needs a critic, but its trainer has no value head; open it as a critic, or use grpo()`;
  }
  if (critic?.shared && !can.has('value')) {
    return `the critic of ${name} is a value head on the policy, but this trainer has none; use critic: { shared: false }`;
  }
  if (critic?.shared && critic.model !== undefined) {
    return `the critic of ${name} is a value head on the policy, and also the model ${critic.model}; give one of shared and model`;
  }
  if (critic?.epochs !== undefined && !(Number.isInteger(critic.epochs) && critic.epochs > 0)) {
    return `the critic makes ${critic.epochs} passes over a batch; use a whole number of 1 or more`;
  }
  if (critic && !(critic.clip >= 0)) return `the critic's clip is ${critic.clip}; use 0 (off) or more`;
  if (filtration && !needsValues) {
    return `policy filtration is for PPO, where a critic gives the advantage; ${name} compares attempts`;
  }
  if (filtration && !(filtration.power >= 0)) {
    return `the power of the policy filtration is ${filtration.power}; use 0 or more, such as 2`;
  }
  return undefined;
}

function wrongWithCommon(
  { name, aggregation, dynamicSampling, overlong }: Algorithm,
  { tokensPerTrajectory }: AlgorithmSetting,
): string | undefined {
  if (
    aggregation.kind === 'sequence-mean-token-sum-norm' &&
    !((aggregation.divisor ?? tokensPerTrajectory ?? 0) > 0)
  ) {
    return `${name} divides by a constant length, but none is known; give divisor, such as drGrpo({ divisor: 1024 })`;
  }
  const refills = dynamicSampling?.maxRefills ?? 0;
  if (!(Number.isInteger(refills) && refills >= -1)) {
    return `dynamicSampling.maxRefills is ${refills}; use a whole number, 0 for none or -1 for no limit`;
  }
  if (overlong && !(overlong.bufferTokens > 0 && overlong.bufferTokens <= overlong.maxTokens)) {
    return `the over-long buffer is ${overlong.bufferTokens} of ${overlong.maxTokens} tokens; use more than 0 and at most all`;
  }
  return undefined;
}

function wrongWithKl({ kl }: Algorithm): string | undefined {
  if (!kl) return undefined;
  if (!KL_ESTIMATORS.includes(kl.estimator)) {
    return `the KL estimator is ${JSON.stringify(kl.estimator)}; use one of ${KL_ESTIMATORS.join(', ')} ('full' needs whole distributions of policy and reference, which no trainer gives)`;
  }
  if (kl.adaptive && kl.as !== 'reward') {
    return "an adaptive KL coefficient works on the reward; use kl: { as: 'reward', adaptive: … }";
  }
  return kl.coefficient >= 0 ? undefined : `the KL coefficient is ${kl.coefficient}; use 0 or more`;
}

function wrongWithCorrection({ name, old, correction }: Algorithm, loss: OpenLoss): string | undefined {
  if (old === 'behaviour' && correction?.weights?.normalize) {
    return "the correction's weights are to be normalised, but with old: 'behaviour' they are computed sequence by sequence in the pass, where no mean over the batch is known; use normalize: false, or old: 'recompute'";
  }
  if (old === 'behaviour' && correction?.weights && loss.takesRatio) {
    return `with old: 'behaviour' the ratio of ${name} already compares to the engine, and importance weights would count it twice; use old: 'recompute', or a loss without a ratio (gpg().loss)`;
  }
  for (const { statistic, bounds } of correction?.rejection ?? []) {
    if (!REJECTION_STATISTICS.includes(statistic)) {
      return `rejection by '${statistic}' is not known; use one of ${REJECTION_STATISTICS.join(', ')}`;
    }
    if (!(bounds[1] > 0) || (statistic.endsWith('k1') && !(bounds[0] > 0 && bounds[0] <= bounds[1]))) {
      return `rejection by ${statistic} has the bounds ${bounds.join(' to ')}; use ratios above 0, low before high`;
    }
  }
  if (correction?.weights && !(correction.weights.bounds[1] > 0)) {
    return `importance weights are cut at ${correction.weights.bounds[1]}; use a number above 0, such as 2`;
  }
  return undefined;
}
