import type { Algorithm } from './algorithm.ts';
import type { Clip } from './losses/loss.ts';

/** What every algorithm takes beside its own options. */
export interface CommonOptions {
  /** The ratio may go from 1 − low to 1 + high: `0.2`, or `[0.2, 0.28]`. */
  readonly clip?: number | readonly [low: number, high: number];
  /** Upper bound of the loss on negative advantages, as a ratio; 0 is off. */
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
  readonly loss?: Algorithm['loss'];
}

/**
 * GRPO (DeepSeekMath, Shao et al. 2024): each attempt against its group, PPO's clipped ratio, no critic.
 *   A_i = (R_i − mean_g) / (std_g + 1e-6)
 */
export function grpo(options: CommonOptions & { readonly normalizeByStd?: boolean } = {}): Algorithm {
  return assemble(options, {
    name: 'GRPO',
    advantage: { kind: 'grpo', normalizeByStd: options.normalizeByStd ?? true },
  });
}

const clipOf = (clip: CommonOptions['clip'], low: number, high: number): Clip =>
  clip === undefined
    ? { low, high }
    : typeof clip === 'number'
      ? { low: clip, high: clip }
      : { low: clip[0], high: clip[1] };

function assemble(
  options: CommonOptions,
  own: Pick<Algorithm, 'name' | 'advantage'> & Partial<Algorithm>,
): Algorithm {
  const dual = options.dualClip ?? 3;
  const aggregation = options.aggregation ?? own.aggregation ?? 'token-mean';
  return {
    loss: { kind: 'clip', ...clipOf(options.clip, 0.2, 0.2), ...(dual > 0 ? { dual } : {}) },
    entropyBonus: options.entropyBonus ?? 0,
    old: options.old ?? 'recompute',
    truncated: options.truncated ?? 'train',
    turnRewards: options.turnRewards ?? false,
    ...own,
    ...(options.loss ? { loss: options.loss } : {}),
    aggregation: typeof aggregation === 'string' ? { kind: aggregation } : aggregation,
    ...(options.kl
      ? { kl: { as: 'loss', estimator: 'k3', coefficient: 0.001, ...options.kl } }
      : own.kl
        ? { kl: own.kl }
        : {}),
    ...(options.correction ? { correction: options.correction } : {}),
    ...(options.dynamicSampling
      ? { dynamicSampling: { metric: 'reward', maxRefills: 10, ...options.dynamicSampling } }
      : {}),
    ...(options.overlong ? { overlong: options.overlong } : {}),
  };
}
