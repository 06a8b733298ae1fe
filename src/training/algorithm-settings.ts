import { z } from 'zod';
import {
  atLeast,
  flag,
  kind,
  number,
  oneOf,
  orNull,
  type Settings,
  type SettingTree,
  setting,
  share,
  type TreeValues,
  text,
  wholeFrom,
} from '../lib/setting.ts';
import { type AnyAlgorithm, SHARED } from './algorithms/define.ts';
import { grpo } from './algorithms.ts';
import { REJECTION_STATISTICS } from './correction.ts';
import { FILTRATIONS } from './filtration-options.ts';
import { KL_ESTIMATORS } from './kl.ts';
import { AGGREGATIONS } from './losses/aggregation.ts';
import { ALGORITHMS, LOSSES } from './parts.ts';

/** What runs use that name no algorithm. */
export const USUAL: AnyAlgorithm = grpo;

const pairs = kind(
  z.array(z.tuple([z.number(), z.number()]).readonly()).readonly(),
  'use a list of pairs of numbers, such as [[0.5, 2]]',
);

/** An algorithm as data: what every one of them has. Null leaves the algorithm's own. */
const COMMON = {
  name: setting(
    oneOf(...ALGORITHMS.map(({ definition }) => definition.name)),
    USUAL.definition.name,
    'Each attempt against its group; needs no critic. Unset fields below keep the defaults of the algorithm.',
  ),
  loss: setting(
    orNull(oneOf(...LOSSES.keys())),
    null,
    "Absent: the algorithm's own; a loss that is a mean over sequences also sets the aggregation.",
  ),
  normalizeByStd: setting(orNull(flag), null, 'Absent: as in the GRPO paper, true; Dr. GRPO turns it off.'),
  discount: setting(orNull(share), null, 'Absent: 1; tokens of a reply are one decision.'),
  lambda: setting(orNull(share), null, "GAE's lambda; absent: 1, the plain return."),
  clipLow: setting(
    orNull(atLeast(0)),
    null,
    "A ratio may fall to 1 − low; absent: the loss's own value, which is 0.2 for PPO.",
  ),
  clipHigh: setting(
    orNull(atLeast(0)),
    null,
    "A ratio may rise to 1 + high; absent: the loss's own value, which is 0.2 for PPO and 0.28 for DAPO.",
  ),
  dualClip: setting(
    orNull(atLeast(0)),
    null,
    'Bounds the clip loss on negative advantages, as a ratio; absent: 3, DAPO 10; 0 is off.',
  ),
  aggregation: setting(
    orNull(oneOf(...AGGREGATIONS)),
    null,
    "Absent: the algorithm's own; for most token-mean, in which every token counts the same.",
  ),
  divisor: setting(
    orNull(atLeast(1)),
    null,
    'For …-norm; absent: the number of tokens a trajectory may have.',
  ),
  truncated: setting(
    oneOf('train', 'mask', 'leave-out'),
    'train',
    'A truncated trajectory was scored like any other; mask counts it without training it.',
  ),
  turnRewards: setting(
    orNull(flag),
    null,
    'Rewards of turns and tools are added to the trajectory’s; absent: only for turn-grpo and process-grpo.',
  ),
  entropyBonus: setting(number, 0, 'Off: the groups keep exploration alive.'),
  filtration: {
    method: setting(
      oneOf('off', ...FILTRATIONS),
      'off',
      'PF-PPO: trajectories are drawn again by their score; only for ppo.',
    ),
    power: setting(atLeast(0), 2, "For power: a trajectory's weight is |score|^power."),
  },
  kl: {
    as: setting(oneOf('off', 'loss', 'reward'), 'off', 'A reference model costs memory and a forward pass.'),
    estimator: setting(oneOf(...KL_ESTIMATORS), 'k3', 'Unbiased and never negative.'),
    coefficient: setting(atLeast(0), 0.001, 'Small, so that the reward decides; the usual value in verl.'),
    adaptive: setting(flag, false, 'Moves the coefficient towards a target KL; only as reward.'),
    target: setting(atLeast(0), 0.1, 'For adaptive.'),
    horizon: setting(
      atLeast(1),
      10_000,
      'For adaptive: the number of trajectories over which the coefficient moves.',
    ),
    refreshEverySteps: setting(
      orNull(wholeFrom(1)),
      null,
      'The reference becomes a copy of the policy; absent: frozen.',
    ),
  },
  old: setting(
    oneOf('recompute', 'behaviour'),
    'recompute',
    "The trainer computes the old log-probs; `behaviour` takes the engine's and saves a forward pass.",
  ),
  correction: {
    weights: setting(oneOf('off', 'token', 'sequence'), 'off', 'Engine and trainer agree on one machine.'),
    low: setting(atLeast(0), 0, 'Weights below this are set to 0 (IcePop); 0 is off.'),
    high: setting(atLeast(0), 2, 'Weights above this are capped; with low above 0 they are set to 0.'),
    normalize: setting(flag, false, 'Divide by the mean weight.'),
    rejection: setting(
      kind(
        z.array(z.enum(REJECTION_STATISTICS)).readonly(),
        `use a list of ${REJECTION_STATISTICS.join(', ')}`,
      ),
      [],
      'Statistics by which tokens or sequences are left out.',
    ),
    rejectionBounds: setting(
      pairs,
      [],
      'Low and high: one pair for all statistics, or one for each; for k2 and k3 only high counts.',
    ),
    halfLifeVersions: setting(
      orNull(atLeast(0.01)),
      null,
      'A token sampled this many versions ago has half the weight; absent: age does not matter.',
    ),
    maxVersions: setting(
      orNull(wholeFrom(0)),
      null,
      'A token older than this many versions is not trained; absent: none is too old.',
    ),
  },
  dynamicSampling: {
    enabled: setting(orNull(flag), null, 'Costs more rollouts a step; absent: only for dapo.'),
    metric: setting(text, 'reward', 'The name of a reward, or `reward` for the weighted sum.'),
    maxRefills: setting(
      wholeFrom(-1),
      10,
      'After this many rounds the step continues with the groups it has, and says so; -1 is no limit.',
    ),
  },
  overlong: {
    enabled: setting(flag, false, 'Off: useful only where replies reach the limit.'),
    bufferTokens: setting(wholeFrom(1), 512, 'The penalty rises over this many tokens before the limit.'),
    penalty: setting(atLeast(0), 1, 'At the limit.'),
    maxTokens: setting(orNull(wholeFrom(1)), null, 'Absent: the tokens a trajectory may have.'),
  },
  critic: {
    clip: setting(atLeast(0), 0.5, 'As in verl; 0 is off.'),
    warmupSteps: setting(wholeFrom(0), 0, 'Steps in which only the critic learns.'),
    learningRate: setting(
      orNull(atLeast(0)),
      null,
      "Absent: the policy's; a value head starts from zeros, so a higher rate helps (verl: ten times).",
    ),
    epochs: setting(
      orNull(wholeFrom(1)),
      null,
      "Passes over a batch; absent: the policy's. A critic that learns too slowly explains nothing.",
    ),
    miniBatches: setting(
      orNull(wholeFrom(1)),
      null,
      "Updates per pass; absent: the policy's. With more, a value head learns sooner at the same cost.",
    ),
    model: setting(orNull(text), null, 'Absent: starts from the policy.'),
    shared: setting(
      flag,
      false,
      "The value head sits on the policy: one model and one pass, but the policy's features must serve both.",
    ),
    coefficient: setting(atLeast(0), 0.5, "Weight of the value loss beside the policy's; for shared."),
  },
};

/** Groups of one algorithm's settings are not known by name here. */
export type DescribedAlgorithm = TreeValues<typeof COMMON> & { readonly [group: string]: unknown };

/** Settings that one algorithm alone has, in a group with its name: `algorithm.sapo.positive`. */
export function ownSettings({ definition: { advantage, loss } }: AnyAlgorithm): Settings {
  const elsewhere = [...Object.keys(SHARED), 'low', 'high', 'dual'];
  const all = Object.entries({ ...advantage.settings, ...loss.settings });
  return Object.fromEntries(all.filter(([name]) => !elsewhere.includes(name)));
}

/** `clip-cov` is `clipCov` in YAML. */
export const groupOf = ({ definition }: AnyAlgorithm) =>
  definition.name.replaceAll(/[^a-z0-9]+([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** Every setting of `algorithm.*`. */
export const ALGORITHM_SETTINGS: typeof COMMON & SettingTree = {
  ...COMMON,
  ...Object.fromEntries(
    ALGORITHMS.map((made) => [groupOf(made), ownSettings(made)] as const).filter(
      ([, settings]) => Object.keys(settings).length > 0,
    ),
  ),
};
