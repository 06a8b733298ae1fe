import type { Random } from '../../lib/random.ts';
import type { Settings, Values } from '../../lib/setting.ts';
import type { AlgorithmSetting } from '../algorithm-setting.ts';

/** What a loss sees of one segment: its trained tokens, in order. */
export interface LossInput {
  readonly logprobs: Float64Array;
  /** Log-probs of the policy that the ratio compares to. */
  readonly old: Float64Array;
  readonly advantages: Float64Array;
  /** Tokens that a loss with a view of the whole mini-batch picked out (`Loss.pick`). */
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

/** A loss as an algorithm's file defines it. `LossOptions` is the same as data: its kind and its settings. */
export interface Loss<S extends Settings = Settings> {
  readonly kind: string;
  readonly settings: S;
  /** Whether it compares the policy to the old one. Without a ratio, older tokens need importance weights. */
  readonly takesRatio: boolean;
  /** One ratio for all tokens: importance weights are joined to their geometric mean too. */
  readonly weighsWhole?: boolean;
  /** Whether zero advantages give no gradient, so that the forward pass of such a sequence can be left out. */
  readonly silentWithoutAdvantage: boolean;
  compute(input: LossInput, settings: Values<S>): LossOutput;
  /** Tokens picked from the whole mini-batch before any gradient, as `LossInput.picked`. */
  pick?(inputs: readonly LossInput[], settings: Values<S>, random: Random): Uint8Array[];
  /** What is wrong with settings that are right one by one, or undefined. */
  check?(settings: Values<S>, run: AlgorithmSetting): string | undefined;
}

/** A custom loss. It is code, so a batch trained with it is replayed from a program only. */
export interface CustomLoss {
  readonly kind: 'custom';
  readonly name: string;
  readonly compute: PolicyLoss;
}

/** A loss as data: `{ kind: 'clip', low: 0.2, high: 0.28, dual: 3 }`, or a custom one. */
export type LossOptions = { readonly kind: string; readonly [setting: string]: unknown } | CustomLoss;

export function createOutput({ logprobs: { length } }: LossInput): LossOutput {
  return {
    loss: new Float64Array(length),
    gradient: new Float64Array(length),
    clipped: new Uint8Array(length),
    clippedLower: new Uint8Array(length),
  };
}
