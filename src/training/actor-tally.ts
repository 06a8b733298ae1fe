import type { Metrics } from '../types.ts';
import type { Algorithm } from './algorithm.ts';
import { LOG_RATIO_LIMIT } from './losses/ratio.ts';

/** Sums over all tokens of all updates, from which the metrics are made. */
export function createTally() {
  return {
    loss: 0,
    kl: 0,
    entropyLoss: 0,
    valueLoss: 0,
    clipped: 0,
    clippedLower: 0,
    clampedRatios: 0,
    logRatio: 0,
    entropy: 0,
    valueClipped: 0,
    value: 0,
    /** Tokens that count, and those of them that went through a pass. */
    tokens: 0,
    computed: 0,
    gradNorms: [] as number[],
    updates: 0,
    skipped: 0,
  };
}

export type Tally = ReturnType<typeof createTally>;

/** What was updated: decides which metrics there are. */
interface Updated {
  readonly algorithm: Algorithm;
  readonly klCoefficient: number;
  readonly measureEntropy: boolean;
  /** The value head sits on the policy. */
  readonly values?: unknown;
}

export function actorMetrics(tally: Tally, input: Updated, learningRate: number): Metrics {
  const { algorithm } = input;
  const updates = Math.max(tally.updates, 1);
  const share = (sum: number, of: number) => (of > 0 ? sum / of : 0);
  return {
    'actor/pg_loss': tally.loss / updates,
    'actor/pg_clipfrac': share(tally.clipped, tally.tokens),
    'actor/pg_clipfrac_lower': share(tally.clippedLower, tally.tokens),
    'actor/ppo_kl': 0 - share(tally.logRatio, tally.computed), // no −0
    'actor/grad_norm': tally.gradNorms.length
      ? tally.gradNorms.reduce((sum, norm) => sum + norm, 0) / tally.gradNorms.length
      : 0,
    'actor/lr': learningRate,
    'actor/ratios_clamped': tally.clampedRatios,
    'actor/updates': tally.updates,
    'actor/updates_skipped': tally.skipped,
    'actor/tokens_without_gradient': share(tally.tokens - tally.computed, tally.tokens),
    ...(tally.computed > 0 && (input.measureEntropy || algorithm.entropyBonus !== 0)
      ? { 'actor/entropy': tally.entropy / tally.computed }
      : {}),
    ...(algorithm.entropyBonus !== 0 ? { 'actor/entropy_loss': tally.entropyLoss / updates } : {}),
    ...(algorithm.kl?.as === 'loss'
      ? { 'actor/kl_loss': tally.kl / updates, 'actor/kl_coef': input.klCoefficient }
      : {}),
    ...(input.values
      ? {
          'critic/vf_loss': tally.valueLoss / updates,
          'critic/vf_clipfrac': share(tally.valueClipped, tally.computed),
          'critic/vpred_mean': share(tally.value, tally.computed),
        }
      : {}),
  };
}

export function noticesOf(tally: Tally): string[] {
  const notices: string[] = [];
  if (tally.tokens > 0 && tally.updates === 0) {
    notices.push(
      'no trajectory had an advantage, so the weights did not change: all attempts at each task got the same reward',
    );
  }
  if (tally.clampedRatios > 0) {
    notices.push(
      `${tally.clampedRatios} tokens are e^${LOG_RATIO_LIMIT} times more or less likely than when they were sampled; they are held there without gradient`,
    );
  }
  return notices;
}
