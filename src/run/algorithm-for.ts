import { ConfigError } from '../errors.ts';
import { isOffPolicy, takesFirst } from '../modes/mode.ts';
import type { ResolvedOptions } from '../options.ts';
import type { Algorithm } from '../training/algorithm.ts';
import { corrections } from '../training/correction.ts';
import { openAdvantage, openLoss } from '../training/parts.ts';

/**
 * The algorithm as a mode needs it, and a line for the user where that is not what was asked for. Tokens of older
 * weights are compared to what sampled them: by the ratio (`old: 'behaviour'`), which held best in the sweep of
 * docs/algorithms.md, or by importance weights where the loss takes no ratio.
 */
export function algorithmFor<T>(
  algorithm: Algorithm,
  { mode, rewards }: Pick<ResolvedOptions<T>, 'mode' | 'rewards'>,
): { algorithm: Algorithm; notice?: string } {
  const { name, old, correction } = algorithm;
  if (mode.kind === 'partial' && openAdvantage(algorithm.advantage).needs.greedyAttempt) {
    throw new ConfigError(
      `the mode partial pauses the servers while a step is trained, but ${name} then needs a greedy attempt; use another mode, or rloo()`,
    );
  }
  if (takesFirst(mode) && algorithm.dynamicSampling && rewards.some(({ kind }) => kind === 'batch')) {
    throw new ConfigError(
      `the mode ${mode.kind} leaves out groups one by one, but a reward sees whole batches; use the mode synchronous or one-step-off, or no dynamicSampling`,
    );
  }
  const { takesRatio } = openLoss(algorithm.loss);
  if (!isOffPolicy(mode) || (takesRatio && old === 'behaviour') || correction) return { algorithm };
  const [compared, how]: [Partial<Algorithm>, string] = takesRatio
    ? [{ old: 'behaviour' }, `${name} takes its ratios to what sampled them (old: 'behaviour')`]
    : [
        { correction: corrections.sequenceTruncated(2) },
        `importance weights by sequence, cut at 2, are added to ${name}`,
      ];
  return {
    algorithm: { ...algorithm, ...compared },
    notice: `The mode ${mode.kind} trains on tokens of older weights, so ${how}. Give a correction to choose yourself.`,
  };
}
