import type { CommonOptions } from './define.ts';
import { algorithm } from './define.ts';
import { grpo } from './grpo.ts';

/**
 * Dr. GRPO (Liu et al. 2025): GRPO without its two biases, the division by the group's deviation and by the length.
 *   A_i = R_i − mean_g;  the tokens of a sequence are summed and divided by a constant: `divisor`, or the run's
 *   `tokensPerTrajectory`
 */
export const drGrpo = algorithm({
  name: 'dr-grpo',
  title: 'Dr. GRPO',
  advantage: grpo.definition.advantage,
  fixed: { normalizeByStd: false },
  more: ({ aggregation, divisor }: Pick<CommonOptions, 'aggregation'> & { readonly divisor?: number }) =>
    aggregation === undefined
      ? {
          aggregation: {
            kind: 'sequence-mean-token-sum-norm',
            ...(divisor === undefined ? {} : { divisor }),
          },
        }
      : {},
});
