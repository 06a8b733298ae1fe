import { ConfigError } from '../errors.ts';
import { leavesOf, shown, usualOf, valueAt } from '../lib/setting.ts';
import type { Algorithm } from './algorithm.ts';
import { ALGORITHM_SETTINGS, type DescribedAlgorithm, groupOf, USUAL } from './algorithm-settings.ts';
import { type AnyAlgorithm, type CommonOptions, SHARED } from './algorithms/define.ts';
import type { CorrectionOptions } from './correction.ts';
import { ALGORITHMS } from './parts.ts';

/** The algorithm that settings describe, as the value `train()` takes: made by the function a program calls. */
export function describedAlgorithm(
  described: DescribedAlgorithm,
  { tokensPerTrajectory, warn }: { tokensPerTrajectory: number; warn: (message: string) => void },
): Algorithm {
  const chosen = algorithmNamed(described.name);
  const donor = described.loss === null ? chosen : ownerOfLoss(described.loss);
  const common = commonOptions(chosen, described, tokensPerTrajectory);
  const own = chosen({ ...common, ...ownOptions(chosen, described) });
  const whole = withLoss(
    chosen,
    own,
    donor,
    donor({ ...common, ...ownOptions(donor, described) }),
    described,
  );
  const { dynamicSampling, ...rest } = {
    ...whole,
    loss:
      'low' in whole.loss
        ? { ...whole.loss, ...given({ low: described.clipLow, high: described.clipHigh }) }
        : whole.loss,
    aggregation:
      whole.aggregation.kind === 'sequence-mean-token-sum-norm'
        ? { ...whole.aggregation, ...given({ divisor: described.divisor }) }
        : whole.aggregation,
  };
  const algorithm =
    dynamicSampling && described.dynamicSampling.enabled !== false ? { ...rest, dynamicSampling } : rest;
  const unread = unreadBy(algorithm, chosen, donor, described);
  if (unread.length > 0) {
    warn(
      `${unread.map((path) => `algorithm.${path}`).join(', ')}: not used: ${algorithm.name} does not have it`,
    );
  }
  return algorithm;
}

export function algorithmNamed(name: string): AnyAlgorithm {
  const made = ALGORITHMS.find(({ definition }) => definition.name === name);
  if (!made) throw new ConfigError(`there is no algorithm named ${shown(name)}`);
  return made;
}

/** The algorithm that a loss was made for; the clipped ratio is everyone's, and so the usual algorithm's. */
export function ownerOfLoss(kind: string): AnyAlgorithm {
  if (USUAL.definition.loss.kind === kind) return USUAL;
  const owner = ALGORITHMS.find(({ definition }) => definition.loss.kind === kind);
  if (!owner) throw new ConfigError(`there is no loss named ${shown(kind)}`);
  return owner;
}

/** What was given: a null leaves the algorithm's own. */
function given<T extends object>(values: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const entries = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: NonNullable<T[K]> };
}

/** Its own settings, and those it shares with others. */
function ownOptions(made: AnyAlgorithm, described: DescribedAlgorithm): Readonly<Record<string, unknown>> {
  const { normalizeByStd, discount, lambda, filtration, critic } = described;
  return {
    ...given({ normalizeByStd, discount, lambda }),
    ...Object(described[groupOf(made)]),
    critic: given(critic),
    ...(filtration.method === 'off' ? {} : { filtration }),
  };
}

/** The algorithm with another's loss; one that is a mean over sequences brings that along, as in its paper. */
function withLoss(
  chosen: AnyAlgorithm,
  own: Algorithm,
  owner: AnyAlgorithm,
  donor: Algorithm,
  { aggregation }: DescribedAlgorithm,
): Algorithm {
  if (own.loss.kind === donor.loss.kind) return own;
  const bySequence = owner.definition.usual?.aggregation !== undefined;
  return {
    ...own,
    name: chosen === USUAL ? donor.name : `${own.name} with the loss of ${donor.name}`,
    loss: donor.loss,
    aggregation: aggregation === null && bySequence ? donor.aggregation : own.aggregation,
  };
}

function commonOptions(
  chosen: AnyAlgorithm,
  described: DescribedAlgorithm,
  tokensPerTrajectory: number,
): CommonOptions {
  const { kl, correction, dynamicSampling, overlong, entropyBonus, old, truncated } = described;
  const { enabled, metric, maxRefills } = dynamicSampling;
  const samples = enabled ?? chosen.definition.usual?.dynamicSampling !== undefined;
  return {
    entropyBonus,
    old,
    truncated,
    ...given({
      dualClip: described.dualClip,
      turnRewards: described.turnRewards,
      aggregation: described.aggregation,
    }),
    ...(kl.as === 'off'
      ? {}
      : {
          kl: {
            as: kl.as,
            estimator: kl.estimator,
            coefficient: kl.coefficient,
            ...given({ refreshEverySteps: kl.refreshEverySteps }),
            ...(kl.adaptive ? { adaptive: { target: kl.target, horizon: kl.horizon } } : {}),
          },
        }),
    ...(isOff(correction) ? {} : { correction: correctionOf(correction) }),
    ...(samples ? { dynamicSampling: { metric, maxRefills } } : {}),
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

const isOff = ({ weights, rejection, halfLifeVersions, maxVersions }: DescribedAlgorithm['correction']) =>
  weights === 'off' && rejection.length === 0 && halfLifeVersions === null && maxVersions === null;

function correctionOf(described: DescribedAlgorithm['correction']): CorrectionOptions {
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
            level: weights,
            outside: low > 0 ? 'mask' : 'truncate',
            bounds: [low, high],
            normalize,
          },
        }),
    ...(rejection.length === 0
      ? {}
      : {
          rejection: rejection.map((statistic, at) => ({
            statistic,
            bounds: rejectionBounds[at] ?? rejectionBounds[0]!,
          })),
        }),
  };
}

/** What an algorithm must have for a common setting to mean anything. */
const READ_BY: readonly (readonly [string, (algorithm: Algorithm) => boolean])[] = [
  ['clipLow', ({ loss }) => 'low' in loss],
  ['clipHigh', ({ loss }) => 'high' in loss],
  ['dualClip', ({ loss }) => 'dual' in loss],
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

const LEAVES = leavesOf(ALGORITHM_SETTINGS);

/** Paths that were set to no effect. */
function unreadBy(
  algorithm: Algorithm,
  chosen: AnyAlgorithm,
  donor: AnyAlgorithm,
  described: DescribedAlgorithm,
): string[] {
  const read = (path: string) => {
    const [first = ''] = path.split('.');
    if (first in SHARED) {
      return first in chosen.definition.advantage.settings && !(first in (chosen.definition.fixed ?? {}));
    }
    const owner = ALGORITHMS.find((made) => groupOf(made) === first);
    if (owner) {
      const setting = path.slice(first.length + 1);
      const ofAdvantage = setting in owner.definition.advantage.settings;
      return owner === (ofAdvantage ? chosen : donor);
    }
    return READ_BY.filter(([of]) => path === of || path.startsWith(`${of}.`)).every(([, test]) =>
      test(algorithm),
    );
  };
  const isSet = ([path, schema]: (typeof LEAVES)[number]) =>
    shown(valueAt(described, path)) !== shown(usualOf(schema));
  return LEAVES.filter((leaf) => isSet(leaf) && !SWITCHES.includes(leaf[0]) && !read(leaf[0])).map(
    ([path]) => path,
  );
}
