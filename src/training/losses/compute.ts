import type { Random } from '../../lib/random.ts';
import { clipLoss } from './clip.ts';
import { clipCovLoss, klCovLoss, pickForClipCov, pickForKlCov } from './covariance.ts';
import type { LossInput, LossOptions, LossOutput } from './loss.ts';
import { gmpoLoss, gspoLoss } from './sequence-ratio.ts';
import { droLoss, sapoLoss } from './smooth.ts';
import { cispoLoss, dppoLoss, reinforceLoss } from './weighted-likelihood.ts';

export function computeLoss(input: LossInput, options: LossOptions): LossOutput {
  switch (options.kind) {
    case 'clip':
      return clipLoss(input, options);
    case 'gspo':
      return gspoLoss(input, options);
    case 'gmpo':
      return gmpoLoss(input, options);
    case 'cispo':
      return cispoLoss(input, options);
    case 'sapo':
      return sapoLoss(input, options);
    case 'reinforce':
      return reinforceLoss(input);
    case 'dro':
      return droLoss(input, options);
    case 'clip-cov':
      return clipCovLoss(input, options);
    case 'kl-cov':
      return klCovLoss(input, options);
    case 'dppo':
      return dppoLoss(input, options);
    case 'custom':
      return options.compute(input);
  }
}

/** Tokens that a loss picks from the whole mini-batch before any gradient; undefined for losses that do not. */
export function pickTokens(
  options: LossOptions,
): ((inputs: readonly LossInput[], random: Random) => Uint8Array[]) | undefined {
  if (options.kind === 'clip-cov') return (inputs, random) => pickForClipCov(inputs, options, random);
  if (options.kind === 'kl-cov') return (inputs) => pickForKlCov(inputs, options);
  return undefined;
}

/** Whether a sequence of zero advantages has no gradient, so that its forward pass can be left out. */
export function isSilentWithoutAdvantage({ kind }: LossOptions): boolean {
  return kind !== 'dro' && kind !== 'kl-cov' && kind !== 'custom';
}
