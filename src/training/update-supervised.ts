import type { Metrics } from '../types.ts';
import type { AdamOptions, Trainer } from './trainer.ts';

export interface Demonstration {
  readonly ids: Int32Array;
  /** 1 on the tokens to be learned. */
  readonly trained: Uint8Array;
  /** Weight of the whole example; 1 without it. */
  readonly weight?: number;
}

export interface SupervisedOptions {
  readonly trainer: Trainer;
  readonly demonstrations: readonly Demonstration[];
  readonly adam: AdamOptions;
  readonly tokensPerMicroBatch: number;
  readonly signal?: AbortSignal;
  onProgress?(progress: { readonly done: number; readonly total: number }): void;
}

/** One optimizer step of cross-entropy over the trained tokens, token-mean. */
export declare function updateSupervised(options: SupervisedOptions): Promise<Metrics>;
