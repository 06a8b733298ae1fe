import type { AdamOptions } from './trainer.ts';

/** How a batch is used up: Adam, mini-batches and passes. */
export interface OptimizerOptions {
  readonly adam: AdamOptions;
  /** Updates per pass over the batch; whole groups stay together. */
  readonly miniBatches: number;
  /** Passes over the batch. */
  readonly epochs: number;
  /** At most this many tokens in one forward, unless a single segment is longer. */
  readonly tokensPerMicroBatch: number;
  /** Micro-batches of even length (true), or in order (false). */
  readonly balance: boolean;
  /** Groups are dealt to mini-batches in a random order. */
  readonly shuffle: boolean;
}
