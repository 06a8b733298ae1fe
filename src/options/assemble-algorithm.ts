import { ConfigError } from '../errors.ts';
import type { Algorithm } from '../training/algorithm.ts';
import * as algorithms from '../training/algorithms.ts';
import type { RejectionStatistic } from '../training/correction.ts';
import type { AlgorithmName, LossName } from './algorithm-names.ts';
import { KNOWN_OPTIONS } from './known-options.ts';
import type { DescribedRun } from './settings.ts';
import { shown } from './verl-row.ts';

type Described = DescribedRun['algorithm'];
type Make = (common: algorithms.CommonOptions, described: Described) => Algorithm;

/** The algorithm that the settings describe, as the value `train()` takes: made by the functions a program calls. */
export function assembleAlgorithm(
  described: Described,
  { tokensPerTrajectory, warn }: { tokensPerTrajectory: number; warn: (message: string) => void },
): Algorithm {
  const common = commonOptions(described, tokensPerTrajectory);
  const own = ALGORITHMS[described.name as AlgorithmName](common, described);
  const whole = withLoss(own, common, described);
  const clipped = {
    ...whole,
    loss: 'low' in whole.loss ? { ...whole.loss, ...clipOf(described) } : whole.loss,
    aggregation:
      whole.aggregation.kind === 'sequence-mean-token-sum-norm'
        ? { ...whole.aggregation, ...given({ divisor: described.divisor }) }
        : whole.aggregation,
  };
  const { dynamicSampling, ...rest } = clipped;
  const algorithm = described.dynamicSampling.enabled === false ? rest : clipped;
  const unread = unreadBy(algorithm, described);
  if (unread.length > 0) {
    warn(
      `${unread.map((path) => `algorithm.${path}`).join(', ')}: not used: ${algorithm.name} does not have it`,
    );
  }
  return algorithm;
}

/** What was given: a null leaves the algorithm's own. */
function given<T extends object>(values: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const entries = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: NonNullable<T[K]> };
}

const clipOf = ({ clipLow: low, clipHigh: high }: Described) => given({ low, high });
const normalize = ({ normalizeByStd }: Described) => given({ normalizeByStd });

const ALGORITHMS: Readonly<Record<AlgorithmName, Make>> = {
  grpo: (common, described) => algorithms.grpo({ ...common, ...normalize(described) }),
  'dr-grpo': algorithms.drGrpo,
  dapo: algorithms.dapo,
  rloo: algorithms.rloo,
  'reinforce++': (common, { discount }) =>
    algorithms.reinforcePlusPlus({ ...common, ...given({ discount }) }),
  'reinforce++-baseline': (common) => algorithms.reinforcePlusPlus({ ...common, baseline: 'group' }),
  remax: algorithms.remax,
  gpg: (common, { gpgNorm: norm }) => algorithms.gpg({ ...common, ...given({ norm }) }),
  opo: algorithms.opo,
  'pass@k': (common, described) => algorithms.passAtK({ ...common, ...normalize(described) }),
  gdpo: (common, { rewardWeights: weights }) => algorithms.gdpo({ ...common, weights }),
  'optimal-token-baseline': algorithms.optimalTokenBaseline,
  'turn-grpo': (common, described) =>
    algorithms.turnGrpo({
      ...common,
      ...normalize(described),
      ...given({
        discount: described.discount,
        compare: described.turnCompare as 'group' | 'turn' | null,
      }),
    }),
  'process-grpo': (common, described) => algorithms.processGrpo({ ...common, ...normalize(described) }),
  ppo: (common, { discount, lambda, critic, filtration }) =>
    algorithms.ppo({
      ...common,
      ...given({ discount, lambda }),
      critic: given(critic),
      ...(filtration.method === 'off'
        ? {}
        : {
            filtration: {
              method: filtration.method as 'power' | 'max-min' | 'max-random',
              power: filtration.power,
            },
          }),
    }),
  gspo: (common, described) => algorithms.gspo({ ...common, ...normalize(described) }),
  gmpo: (common, described) => algorithms.gmpo({ ...common, ...normalize(described) }),
  cispo: (common, described) => algorithms.cispo({ ...common, ...normalize(described) }),
  sapo: (common, described) =>
    algorithms.sapo({ ...common, ...normalize(described), ...given(described.sapo) }),
  dppo: (common, described) =>
    algorithms.dppo({
      ...common,
      ...normalize(described),
      ...given({ divergence: described.dppo.divergence as 'tv' | 'kl' | null, cap: described.dppo.cap }),
    }),
  dro: (common, described) => algorithms.dro({ ...common, ...normalize(described), ...given(described.dro) }),
  'clip-cov': (common, described) => {
    const { fraction, low, high } = described.clipCov;
    return algorithms.clipCov({
      ...common,
      ...normalize(described),
      ...given({ fraction }),
      ...(low === null && high === null ? {} : { covariance: [low ?? 1, high ?? 5] as const }),
    });
  },
  'kl-cov': (common, described) =>
    algorithms.klCov({ ...common, ...normalize(described), ...given(described.klCov) }),
};

/** Whose loss it is. */
const LOSS_OF: Readonly<Record<LossName, AlgorithmName>> = {
  clip: 'grpo',
  reinforce: 'gpg',
  gspo: 'gspo',
  gmpo: 'gmpo',
  cispo: 'cispo',
  sapo: 'sapo',
  dppo: 'dppo',
  dro: 'dro',
  'clip-cov': 'clip-cov',
  'kl-cov': 'kl-cov',
};

/** The algorithm with another's loss; one that is a mean over sequences brings that along, as in its paper. */
function withLoss(own: Algorithm, common: algorithms.CommonOptions, described: Described): Algorithm {
  const { loss, name } = described;
  if (loss === null || loss === own.loss.kind) return own;
  const donor = ALGORITHMS[LOSS_OF[loss as LossName]](common, described);
  const bySequence = donor.aggregation.kind === 'sequence-mean-token-mean';
  return {
    ...own,
    name: name === 'grpo' ? donor.name : `${own.name} with the loss of ${donor.name}`,
    loss: donor.loss,
    aggregation: described.aggregation === null && bySequence ? donor.aggregation : own.aggregation,
  };
}

function commonOptions(described: Described, tokensPerTrajectory: number): algorithms.CommonOptions {
  const { kl, correction, dynamicSampling, overlong, name } = described;
  const { enabled, metric, maxRefills } = dynamicSampling;
  return {
    entropyBonus: described.entropyBonus,
    old: described.old as Algorithm['old'],
    truncated: described.truncated as Algorithm['truncated'],
    ...given({
      dualClip: described.dualClip,
      turnRewards: described.turnRewards,
      aggregation: described.aggregation as Algorithm['aggregation']['kind'] | null,
    }),
    ...(kl.as === 'off'
      ? {}
      : {
          kl: {
            as: kl.as as 'loss' | 'reward',
            estimator: kl.estimator as NonNullable<Algorithm['kl']>['estimator'],
            coefficient: kl.coefficient,
            ...given({ refreshEverySteps: kl.refreshEverySteps }),
            ...(kl.adaptive ? { adaptive: { target: kl.target, horizon: kl.horizon } } : {}),
          },
        }),
    ...(isOff(correction) ? {} : { correction: correctionOf(correction) }),
    ...(enabled || name === 'dapo' ? { dynamicSampling: { metric, maxRefills } } : {}),
    ...(overlong.enabled
      ? {
          overlong: {
            maxTokens: overlong.maxTokens ?? tokensPerTrajectory,
            bufferTokens: overlong.bufferTokens,
            penalty: overlong.penalty,
          },
        }
      : {}),
  };
}

const isOff = ({ weights, rejection, halfLifeVersions, maxVersions }: Described['correction']) =>
  weights === 'off' && rejection.length === 0 && halfLifeVersions === null && maxVersions === null;

function correctionOf(described: Described['correction']): NonNullable<Algorithm['correction']> {
  const { weights, low, high, normalize, rejection, rejectionBounds, halfLifeVersions, maxVersions } =
    described;
  if (rejection.length > 0 && ![1, rejection.length].includes(rejectionBounds.length)) {
    throw new ConfigError(
      `algorithm.correction.rejection names ${rejection.join(', ')}, but rejectionBounds has ${rejectionBounds.length} pairs; give one for all, or one for each, such as [[0.5, 2]]`,
    );
  }
  return {
    ...(halfLifeVersions === null && maxVersions === null
      ? {}
      : { staleness: given({ halfLifeVersions, maxVersions }) }),
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
          rejection: rejection.map((statistic, at) => ({
            statistic: statistic as RejectionStatistic,
            bounds: rejectionBounds[at] ?? rejectionBounds[0]!,
          })),
        }),
  };
}

/** What an algorithm must have for a setting to mean anything. */
const READ_BY: readonly (readonly [string, (algorithm: Algorithm) => boolean])[] = [
  ['normalizeByStd', ({ advantage }) => 'normalizeByStd' in advantage],
  ['discount', ({ advantage }) => 'discount' in advantage],
  ['lambda', ({ advantage }) => 'lambda' in advantage],
  ['rewardWeights', ({ advantage }) => advantage.kind === 'gdpo'],
  ['turnCompare', ({ advantage }) => 'compare' in advantage],
  ['gpgNorm', ({ advantage }) => advantage.kind === 'gpg'],
  ['clipLow', ({ loss }) => 'low' in loss],
  ['clipHigh', ({ loss }) => 'low' in loss],
  ['dualClip', ({ loss }) => loss.kind === 'clip'],
  ['sapo', ({ loss }) => loss.kind === 'sapo'],
  ['dppo', ({ loss }) => loss.kind === 'dppo'],
  ['dro', ({ loss }) => loss.kind === 'dro'],
  ['clipCov', ({ loss }) => loss.kind === 'clip-cov'],
  ['klCov', ({ loss }) => loss.kind === 'kl-cov'],
  ['divisor', ({ aggregation }) => aggregation.kind === 'sequence-mean-token-sum-norm'],
  ['kl', ({ kl }) => kl !== undefined],
  ['correction', ({ correction }) => correction !== undefined],
  ['dynamicSampling', ({ dynamicSampling }) => dynamicSampling !== undefined],
  ['overlong', ({ overlong }) => overlong !== undefined],
  ['critic', ({ critic }) => critic !== undefined],
  ['critic.coefficient', ({ critic }) => critic?.shared === true],
  ['filtration', ({ filtration }) => filtration !== undefined],
];
/** These say themselves whether the rest of their group is read. */
const SWITCHES = ['kl.as', 'dynamicSampling.enabled', 'overlong.enabled'];

function unreadBy(algorithm: Algorithm, described: Described): string[] {
  return [...KNOWN_OPTIONS].flatMap(([path, { default: usual }]) => {
    if (!path.startsWith('algorithm.')) return [];
    const name = path.slice('algorithm.'.length);
    const isRead = READ_BY.filter(([of]) => name === of || name.startsWith(`${of}.`)).every(([, test]) =>
      test(algorithm),
    );
    const value = name
      .split('.')
      .reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], described);
    return isRead || SWITCHES.includes(name) || shown(value) === shown(usual) ? [] : [name];
  });
}
