import { flag, type Settings, setting, share, type Values, valuesOf } from '../../lib/setting.ts';
import type { Advantage } from '../advantages/advantage.ts';
import type { Algorithm } from '../algorithm.ts';
import { clip } from '../losses/clip.ts';
import type { Loss } from '../losses/loss.ts';

/** What every algorithm takes beside its own options. */
export interface CommonOptions {
  /** The ratio may go from 1 − low to 1 + high: `0.2`, or `[0.2, 0.28]`. */
  readonly clip?: number | readonly [low: number, high: number];
  /** Upper bound of the clip loss on negative advantages, as a ratio; 0 is off. */
  readonly dualClip?: number;
  readonly aggregation?: Algorithm['aggregation'] | Algorithm['aggregation']['kind'];
  readonly entropyBonus?: number;
  readonly kl?: Partial<NonNullable<Algorithm['kl']>>;
  readonly old?: Algorithm['old'];
  readonly correction?: Algorithm['correction'];
  readonly dynamicSampling?: Partial<NonNullable<Algorithm['dynamicSampling']>>;
  readonly overlong?: Algorithm['overlong'];
  readonly truncated?: Algorithm['truncated'];
  readonly turnRewards?: boolean;
  /** In place of the algorithm's own loss, such as `sapo().loss`. */
  readonly loss?: Algorithm['loss'];
}

/** Settings that several algorithms share: in YAML they are beside the name, not in a group of one algorithm. */
export const SHARED = {
  normalizeByStd: setting(flag, true, 'Divide by the standard deviation of the group, as in the GRPO paper.'),
  discount: setting(share, 1, 'Tokens of a reply are one decision.'),
  lambda: setting(share, 1, 'Of GAE; 1 is the plain return.'),
};

/** verl's words for an algorithm. */
export interface VerlWords {
  /** Values of `algorithm.adv_estimator` that mean this algorithm. */
  readonly estimators?: readonly string[];
  /** Values of `policy_loss.loss_mode` that mean its loss, with the settings that each of them fixes. */
  readonly losses?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Value of `rollout_correction.loss_type` that means its loss, in bypass mode. */
  readonly lossType?: string;
  /** Keys that set its own settings; a setting that is a pair has two. */
  readonly keys?: Readonly<Record<string, string | readonly [string, string]>>;
}

/**
 * An algorithm is one file with one of these, and one line in src/training/algorithms.ts. Checks, options in YAML and
 * on the command line, their page in the docs and verl's keys are read from it.
 */
export interface Definition<A extends Settings, L extends Settings, More extends object> {
  /** The algorithm's name in YAML. */
  readonly name: string;
  /** The algorithm's name in its paper, for logs. */
  readonly title: string;
  readonly advantage: Advantage<A>;
  /** Absent: the clipped ratio. */
  readonly loss?: Loss<L>;
  /** Settings of its parts that cannot be chosen. */
  readonly fixed?: Partial<Values<A & L>>;
  /** Defaults of the common options, where they differ. */
  readonly usual?: CommonOptions;
  /** What follows from options beyond the settings of its parts. */
  more?(options: More): Partial<Algorithm>;
  readonly verl?: VerlWords;
}

/** The function that a program calls, with its definition. */
export interface DefinedAlgorithm<A extends Settings, L extends Settings, More extends object> {
  (options?: CommonOptions & Partial<Values<A> & Omit<Values<L>, ClipSetting>> & More): Algorithm;
  readonly definition: Omit<Definition<A, L, More>, 'loss'> & { readonly loss: Loss };
}

/** Set by `clip` and `dualClip`. */
type ClipSetting = keyof typeof clip.settings;

/** Any of the algorithms, where only what they have in common counts. */
export interface AnyAlgorithm {
  (options?: CommonOptions & Readonly<Record<string, unknown>>): Algorithm;
  readonly definition: AnyDefinition;
}

type AnyDefinition = Omit<Definition<Settings, Settings, object>, 'loss'> & { readonly loss: Loss };

export function algorithm<
  A extends Settings,
  L extends Settings = Record<never, never>,
  More extends object = object,
>(given: Definition<A, L, More>): DefinedAlgorithm<A, L, More> {
  const definition = { loss: clip as Loss, ...given };
  const make = (options: CommonOptions & object = {}) => assemble(definition as AnyDefinition, options);
  return Object.assign(make, { definition });
}

function assemble(definition: AnyDefinition, options: CommonOptions): Algorithm {
  const { title, advantage, loss, fixed, usual = {}, more } = definition;
  const common: CommonOptions = { ...usual, ...given(options) };
  const { kl, dynamicSampling, correction, overlong, aggregation = 'token-mean' } = common;
  const chosen = { ...given({ ...options, ...clipOf(common.clip), dual: common.dualClip ?? 3 }), ...fixed };
  return {
    name: title,
    advantage: { kind: advantage.kind, ...valuesOf(advantage.settings, chosen, `${title}: `) },
    loss: common.loss ?? { kind: loss.kind, ...valuesOf(loss.settings, chosen, `${title}: `) },
    aggregation: typeof aggregation === 'string' ? { kind: aggregation } : aggregation,
    entropyBonus: common.entropyBonus ?? 0,
    old: common.old ?? 'recompute',
    truncated: common.truncated ?? 'train',
    turnRewards: common.turnRewards ?? false,
    ...(kl ? { kl: { as: 'loss', estimator: 'k3', coefficient: 0.001, ...kl } } : {}),
    ...(dynamicSampling ? { dynamicSampling: { metric: 'reward', maxRefills: 10, ...dynamicSampling } } : {}),
    ...(correction ? { correction } : {}),
    ...(overlong ? { overlong } : {}),
    ...more?.(options),
  };
}

function clipOf(clip: CommonOptions['clip']): { low?: number; high?: number } {
  if (clip === undefined) return {};
  const [low, high] = typeof clip === 'number' ? [clip, clip] : clip;
  return { low, high };
}

function given<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;
}
