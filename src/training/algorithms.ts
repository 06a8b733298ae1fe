import type { Algorithm } from './algorithm.ts';
import type { Clip } from './losses/loss.ts';

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
  /** In place of the algorithm's own loss. */
  readonly loss?: Algorithm['loss'];
}

interface NormalizeOption {
  /** Divide by the standard deviation of the group (true). */
  readonly normalizeByStd?: boolean;
}

/**
 * GRPO (DeepSeekMath, Shao et al. 2024): each attempt against its group, PPO's clipped ratio, no critic.
 *   A_i = (R_i − mean_g) / (std_g + 1e-6)
 * Deviations: (1) tokens are averaged over the batch, not first by sequence, as verl does by default; (2) no KL term
 * unless `kl` is given.
 */
export function grpo(options: CommonOptions & NormalizeOption = {}): Algorithm {
  return assemble(options, {
    name: 'GRPO',
    advantage: { kind: 'grpo', normalizeByStd: options.normalizeByStd ?? true },
  });
}

/**
 * Dr. GRPO (Liu et al. 2025): GRPO without its two biases, the division by the group's deviation and by the length.
 *   A_i = R_i − mean_g;  the tokens of a sequence are summed and divided by a constant: `divisor`, or the run's
 *   `tokensPerTrajectory`
 */
export function drGrpo(options: CommonOptions & { readonly divisor?: number } = {}): Algorithm {
  return assemble(options, {
    name: 'Dr. GRPO',
    advantage: { kind: 'grpo', normalizeByStd: false },
    aggregation: {
      kind: 'sequence-mean-token-sum-norm',
      ...(options.divisor === undefined ? {} : { divisor: options.divisor }),
    },
  });
}

/**
 * DAPO (Decoupled Clip and Dynamic sAmpling Policy Optimization, Yu et al. 2025): GRPO with a higher upper clip, groups
 * without spread replaced by new ones, every token equal, no KL, and, with `overlong`, a soft penalty on length.
 */
export function dapo(options: CommonOptions = {}): Algorithm {
  return assemble(
    { dualClip: 10, ...options, dynamicSampling: options.dynamicSampling ?? {} },
    {
      name: 'DAPO',
      advantage: { kind: 'grpo', normalizeByStd: true },
    },
    [0.2, 0.28],
  );
}

/** RLOO (Ahmadian et al. 2024): each attempt against the mean of the others.  A_i = n/(n−1)·(R_i − mean_g) */
export function rloo(options: CommonOptions = {}): Algorithm {
  return assemble(options, { name: 'RLOO', advantage: { kind: 'rloo' } });
}

/**
 * REINFORCE++ (Hu 2025): the return, whitened over the batch; no critic, and one attempt per task is enough.
 * `baseline: 'group'` first takes off the group's mean.
 */
export function reinforcePlusPlus(
  options: CommonOptions & { readonly discount?: number; readonly baseline?: 'none' | 'group' } = {},
): Algorithm {
  return assemble(options, {
    name: 'REINFORCE++',
    advantage:
      options.baseline === 'group'
        ? { kind: 'reinforce++-baseline' }
        : { kind: 'reinforce++', discount: options.discount ?? 1 },
  });
}

/** ReMax (Li et al. 2023): the return against that of one greedy attempt, which the rollout must make. */
export function remax(options: CommonOptions = {}): Algorithm {
  return assemble(options, { name: 'ReMax', advantage: { kind: 'remax' } });
}

/** GPG (Chu et al. 2025): the plain policy gradient with a group mean; no ratio, no clip. */
export function gpg(options: CommonOptions & { readonly norm?: number } = {}): Algorithm {
  return assemble(options, {
    name: 'GPG',
    advantage: { kind: 'gpg', norm: options.norm ?? 1 },
    loss: { kind: 'reinforce' },
  });
}

/** OPO (Hao et al. 2025): a baseline weighted by length. Meant for one update per batch. */
export function opo(options: CommonOptions = {}): Algorithm {
  return assemble(options, { name: 'OPO', advantage: { kind: 'opo' } });
}

/** Pass@k GRPO: only the best attempt of a group is pushed, by its lead over the second. */
export function passAtK(options: CommonOptions & NormalizeOption = {}): Algorithm {
  return assemble(options, {
    name: 'pass@k GRPO',
    advantage: { kind: 'pass@k', normalizeByStd: options.normalizeByStd ?? true },
  });
}

/** GDPO (2026): named rewards are standardised one by one, so that none drowns another, then weighted and added. */
export function gdpo(
  options: CommonOptions & { readonly weights: Readonly<Record<string, number>> },
): Algorithm {
  return assemble(options, { name: 'GDPO', advantage: { kind: 'gdpo', weights: options.weights } });
}

/** The optimal token baseline on GRPO's groups: least variance of the gradient at every position. */
export function optimalTokenBaseline(options: CommonOptions = {}): Algorithm {
  return assemble(options, {
    name: 'optimal token baseline',
    advantage: { kind: 'optimal-token-baseline' },
  });
}

/**
 * GRPO by turn: each turn is credited with the discounted rewards from it on. `compare: 'turn'` compares attempts at
 * the same turn, `'group'` (unbiased where the policy decides when to stop) with all turns of the group.
 */
export function turnGrpo(
  options: CommonOptions &
    NormalizeOption & { readonly discount?: number; readonly compare?: 'turn' | 'group' } = {},
): Algorithm {
  return assemble(
    { turnRewards: true, ...options },
    {
      name: 'turn GRPO',
      advantage: {
        kind: 'turn-grpo',
        discount: options.discount ?? 1,
        normalizeByStd: options.normalizeByStd ?? true,
        compare: options.compare ?? 'group',
      },
    },
  );
}

/** GRPO with process supervision (DeepSeekMath §4.1.3), a turn being a step. */
export function processGrpo(options: CommonOptions & NormalizeOption = {}): Algorithm {
  return assemble(
    { turnRewards: true, ...options },
    {
      name: 'process GRPO',
      advantage: { kind: 'process-grpo', normalizeByStd: options.normalizeByStd ?? true },
    },
  );
}

/** GSPO (Zheng et al. 2025): GRPO with one clipped ratio per sequence; bounds of the paper. */
export function gspo(options: CommonOptions & NormalizeOption = {}): Algorithm {
  return {
    ...grpo({ aggregation: 'sequence-mean-token-mean', ...options }),
    name: 'GSPO',
    loss: options.loss ?? { kind: 'gspo', ...clipOf(options.clip, [0.0003, 0.0004]) },
  };
}

/** GMPO (Zhao et al. 2025): GRPO with the geometric mean of clipped ratios; bounds e^±0.4 as in the paper. */
export function gmpo(options: CommonOptions & NormalizeOption = {}): Algorithm {
  return {
    ...grpo({ aggregation: 'sequence-mean-token-mean', ...options }),
    name: 'GMPO',
    loss: options.loss ?? { kind: 'gmpo', ...clipOf(options.clip, [0.4, 0.4]) },
  };
}

/** CISPO (MiniMax-M1, 2025): GRPO's advantage; importance weights are clipped, tokens never lose their gradient. */
export function cispo(options: CommonOptions & NormalizeOption = {}): Algorithm {
  return {
    ...grpo(options),
    name: 'CISPO',
    loss: options.loss ?? { kind: 'cispo', ...clipOf(options.clip, [0.2, 0.28]) },
  };
}

/** SAPO (Gao et al. 2025): GRPO's advantage; a soft gate in place of the clip. */
export function sapo(
  options: CommonOptions & NormalizeOption & { readonly positive?: number; readonly negative?: number } = {},
): Algorithm {
  return {
    ...grpo({ aggregation: 'sequence-mean-token-mean', ...options }),
    name: 'SAPO',
    loss: options.loss ?? {
      kind: 'sapo',
      positive: options.positive ?? 1,
      negative: options.negative ?? 1.05,
    },
  };
}

/** DPPO (2026): GRPO's advantage; a token is dropped by the divergence of the policies, not by its ratio. */
export function dppo(
  options: CommonOptions &
    NormalizeOption & { readonly divergence?: 'tv' | 'kl'; readonly cap?: number } = {},
): Algorithm {
  return {
    ...grpo(options),
    name: 'DPPO',
    loss: options.loss ?? {
      kind: 'dppo',
      divergence: options.divergence ?? 'tv',
      cap: options.cap ?? 20,
      ...clipOf(options.clip, [0.2, 0.2]),
    },
  };
}

/** DRO (Richemond et al. 2024), with GRPO's advantage: a quadratic tie to the old policy. */
export function dro(options: CommonOptions & NormalizeOption & { readonly beta?: number } = {}): Algorithm {
  return {
    ...grpo(options),
    name: 'DRO',
    loss: options.loss ?? { kind: 'dro', beta: options.beta ?? 0.1 },
  };
}

/** Clip-Cov (Cui et al. 2025): GRPO; a few of the tokens that cost most entropy lose their gradient. */
export function clipCov(
  options: CommonOptions &
    NormalizeOption & { readonly fraction?: number; readonly covariance?: readonly [number, number] } = {},
): Algorithm {
  return {
    ...grpo(options),
    name: 'Clip-Cov',
    loss: options.loss ?? {
      kind: 'clip-cov',
      fraction: options.fraction ?? 0.0002,
      covariance: options.covariance ?? [1, 5],
      ...clipOf(options.clip, [0.2, 0.2]),
    },
  };
}

/** KL-Cov (Cui et al. 2025): GRPO; the tokens that cost most entropy are tied to the old policy. */
export function klCov(
  options: CommonOptions &
    NormalizeOption & { readonly fraction?: number; readonly coefficient?: number } = {},
): Algorithm {
  return {
    ...grpo(options),
    name: 'KL-Cov',
    loss: options.loss ?? {
      kind: 'kl-cov',
      fraction: options.fraction ?? 0.0002,
      coefficient: options.coefficient ?? 0.1,
    },
  };
}

/**
 * PPO (Schulman et al. 2017): GAE from a critic. The run brings the critic: a model of its own, or with
 * `critic: { shared: true }` a value head on the policy. With `filtration` it is PF-PPO (filtration.ts).
 */
export function ppo(
  options: CommonOptions & {
    readonly discount?: number;
    readonly lambda?: number;
    readonly critic?: Partial<NonNullable<Algorithm['critic']>>;
    readonly filtration?: Partial<NonNullable<Algorithm['filtration']>>;
  } = {},
): Algorithm {
  return assemble(options, {
    name: 'PPO',
    advantage: { kind: 'gae', discount: options.discount ?? 1, lambda: options.lambda ?? 1 },
    critic: { clip: 0.5, warmupSteps: 0, shared: false, coefficient: 0.5, ...options.critic },
    ...(options.filtration ? { filtration: { method: 'power', power: 2, ...options.filtration } } : {}),
  });
}

type ClipBounds = readonly [low: number, high: number];

function clipOf(clip: CommonOptions['clip'], usual: ClipBounds): Clip {
  const [low, high] = clip === undefined ? usual : typeof clip === 'number' ? [clip, clip] : clip;
  return { low, high };
}

function assemble(
  options: CommonOptions,
  own: Pick<Algorithm, 'name' | 'advantage'> & Partial<Algorithm>,
  usualClip: ClipBounds = [0.2, 0.2],
): Algorithm {
  const { dualClip: dual = 3, kl, dynamicSampling, correction, overlong } = options;
  const aggregation = options.aggregation ?? own.aggregation ?? 'token-mean';
  return {
    ...own,
    loss: options.loss ??
      own.loss ?? { kind: 'clip', ...clipOf(options.clip, usualClip), ...(dual > 0 ? { dual } : {}) },
    aggregation: typeof aggregation === 'string' ? { kind: aggregation } : aggregation,
    entropyBonus: options.entropyBonus ?? 0,
    old: options.old ?? 'recompute',
    truncated: options.truncated ?? 'train',
    turnRewards: options.turnRewards ?? false,
    ...(kl ? { kl: { as: 'loss', estimator: 'k3', coefficient: 0.001, ...kl } } : {}),
    ...(dynamicSampling ? { dynamicSampling: { metric: 'reward', maxRefills: 10, ...dynamicSampling } } : {}),
    ...(correction ? { correction } : {}),
    ...(overlong ? { overlong } : {}),
  };
}
