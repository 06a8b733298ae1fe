import type { Algorithm } from '../training/algorithm.ts';
import { ppo } from '../training/algorithms.ts';
import type { RejectionStatistic } from '../training/correction.ts';
import type { LossOptions } from '../training/losses/loss.ts';
import type { DescribedRun } from './settings.ts';

type Described = DescribedRun['algorithm'];

/** The algorithm that the settings describe, as the value `train()` takes. */
export function assembleAlgorithm(described: Described, tokensPerTrajectory: number): Algorithm {
  const { kl, correction, dynamicSampling, overlong, critic } = described;
  return {
    name: described.name,
    advantage: advantageOf(described),
    loss: lossOf(described),
    aggregation: aggregationOf(described),
    entropyBonus: described.entropyBonus,
    old: described.old as Algorithm['old'],
    truncated: described.truncated as Algorithm['truncated'],
    turnRewards: described.turnRewards || ['turn-grpo', 'process-grpo'].includes(described.name),
    ...(kl.as === 'off'
      ? {}
      : {
          kl: {
            as: kl.as as 'loss' | 'reward',
            estimator: kl.estimator as NonNullable<Algorithm['kl']>['estimator'],
            coefficient: kl.coefficient,
            ...(kl.refreshEverySteps === null ? {} : { refreshEverySteps: kl.refreshEverySteps }),
            ...(kl.adaptive ? { adaptive: { target: kl.target, horizon: kl.horizon } } : {}),
          },
        }),
    ...(correction.weights === 'off' &&
    correction.rejection.length === 0 &&
    correction.halfLifeVersions === null
      ? {}
      : { correction: correctionOf(correction) }),
    ...(dynamicSampling.enabled
      ? { dynamicSampling: { metric: dynamicSampling.metric, maxRefills: dynamicSampling.maxRefills } }
      : {}),
    ...(overlong.enabled
      ? {
          overlong: {
            maxTokens: overlong.maxTokens ?? tokensPerTrajectory,
            bufferTokens: overlong.bufferTokens,
            penalty: overlong.penalty,
          },
        }
      : {}),
    ...(described.name === 'ppo'
      ? {
          critic: {
            ...ppo().critic!,
            clip: critic.clip,
            warmupSteps: critic.warmupSteps,
            learningRate: critic.learningRate,
          },
        }
      : {}),
  };
}

/** A loss with one ratio per sequence is a mean over sequences of means over tokens, as in its paper. */
function aggregationOf({ loss, aggregation, divisor }: Described): Algorithm['aggregation'] {
  if (['gspo', 'gmpo', 'sapo'].includes(loss)) return { kind: 'sequence-mean-token-mean' };
  return aggregation === 'sequence-mean-token-sum-norm' && divisor !== null
    ? { kind: aggregation, divisor }
    : { kind: aggregation as Algorithm['aggregation']['kind'] };
}

function advantageOf({
  name,
  normalizeByStd,
  discount,
  lambda,
  rewardWeights,
  turnCompare,
}: Described): Algorithm['advantage'] {
  switch (name) {
    case 'ppo':
      return { kind: 'gae', discount, lambda };
    case 'reinforce++':
      return { kind: 'reinforce++', discount };
    case 'pass@k':
      return { kind: 'pass@k', normalizeByStd };
    case 'gpg':
      return { kind: 'gpg', norm: 1 };
    case 'turn-grpo':
      return { kind: name, discount, normalizeByStd, compare: turnCompare as 'group' | 'turn' };
    case 'process-grpo':
      return { kind: name, normalizeByStd };
    case 'gdpo':
      return { kind: 'gdpo', weights: rewardWeights };
    case 'rloo':
    case 'reinforce++-baseline':
    case 'remax':
    case 'opo':
    case 'optimal-token-baseline':
      return { kind: name };
    default:
      return { kind: 'grpo', normalizeByStd };
  }
}

function lossOf({ loss, clipLow: low, clipHigh: high, dualClip, droBeta }: Described): LossOptions {
  switch (loss) {
    case 'gspo':
    case 'gmpo':
    case 'cispo':
      return { kind: loss, low, high };
    case 'sapo':
      return { kind: 'sapo', positive: 1, negative: 1.05 };
    case 'reinforce':
      return { kind: 'reinforce' };
    case 'dro':
      return { kind: 'dro', beta: droBeta };
    case 'clip-cov':
      return { kind: 'clip-cov', fraction: 0.0002, covariance: [1, 5], low, high };
    case 'kl-cov':
      return { kind: 'kl-cov', fraction: 0.0002, coefficient: 0.1 };
    case 'dppo-tv':
    case 'dppo-kl':
      return { kind: 'dppo', divergence: loss === 'dppo-tv' ? 'tv' : 'kl', cap: 20, low, high };
    default:
      return { kind: 'clip', low, high, ...(dualClip > 0 ? { dual: dualClip } : {}) };
  }
}

function correctionOf(described: Described['correction']): NonNullable<Algorithm['correction']> {
  const { weights, low, high, normalize, rejection, rejectionLow, rejectionHigh, halfLifeVersions } =
    described;
  return {
    ...(halfLifeVersions === null ? {} : { staleness: { halfLifeVersions } }),
    ...(weights === 'off'
      ? {}
      : {
          weights: {
            level: weights as 'token' | 'sequence',
            outside: low > 0 ? 'mask' : 'truncate',
            bounds: [low, high],
            normalize,
          },
        }),
    ...(rejection.length === 0
      ? {}
      : {
          rejection: rejection.map((statistic) => ({
            statistic: statistic as RejectionStatistic,
            bounds: [rejectionLow ?? 0, rejectionHigh ?? Number.POSITIVE_INFINITY],
          })),
        }),
  };
}
