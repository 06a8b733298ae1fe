/** What a loss sees of one segment: its trained tokens, in order. */
export interface LossInput {
  readonly logprobs: Float64Array;
  /** Log-probs of the policy that the ratio compares to. */
  readonly old: Float64Array;
  readonly advantages: Float64Array;
  /** Tokens that a loss with a view of the whole mini-batch picked out (clip-cov, KL-cov). */
  readonly picked?: Uint8Array;
}

/** Per token: the loss, its gradient by the log-prob, and what was clipped. Weights are applied by the caller. */
export interface LossOutput {
  readonly loss: Float64Array;
  readonly gradient: Float64Array;
  readonly clipped: Uint8Array;
  /** Dual clip: a negative advantage whose ratio ran away. */
  readonly clippedLower: Uint8Array;
}

export type PolicyLoss = (input: LossInput) => LossOutput;

/** A ratio may go from 1 − low to 1 + high. */
export interface Clip {
  readonly low: number;
  readonly high: number;
}

export type LossOptions =
  | ({ readonly kind: 'clip'; readonly dual?: number } & Clip)
  | ({ readonly kind: 'gspo' } & Clip)
  | ({ readonly kind: 'gmpo' } & Clip)
  | ({ readonly kind: 'cispo' } & Clip)
  | { readonly kind: 'sapo'; readonly positive: number; readonly negative: number }
  | { readonly kind: 'reinforce' }
  | { readonly kind: 'dro'; readonly beta: number }
  | ({
      readonly kind: 'clip-cov';
      readonly fraction: number;
      readonly covariance: readonly [number, number];
    } & Clip)
  | { readonly kind: 'kl-cov'; readonly fraction: number; readonly coefficient: number }
  | ({ readonly kind: 'dppo'; readonly divergence: 'tv' | 'kl'; readonly cap: number } & Clip)
  | { readonly kind: 'custom'; readonly name: string; readonly compute: PolicyLoss };

export function createOutput({ logprobs: { length } }: LossInput): LossOutput {
  return {
    loss: new Float64Array(length),
    gradient: new Float64Array(length),
    clipped: new Uint8Array(length),
    clippedLower: new Uint8Array(length),
  };
}
