import type { WeightUpdate } from '../inference/server.ts';
import type { ImageRef } from '../types.ts';

/**
 * What a trainer computes at a position i of a row, from the distribution that predicts `ids[i]` given
 * `ids[0..i-1]`: its log-prob of `ids[i]`, its entropy, its Σπ²; `value` is the value head on the same state.
 */
export type Output = 'logprob' | 'entropy' | 'sumSquares' | 'value';

export interface Row {
  readonly ids: Int32Array;
  /** 1 at positions whose outputs are asked for. Position 0 has nothing before it and is never a target. */
  readonly targets: Uint8Array;
  /** The row's first `length` tokens equal those of row number `row` (an earlier one): compute them once. */
  readonly prefix?: { readonly row: number; readonly length: number };
  readonly images?: readonly ImageRef[];
}

/** Per asked output one array per row, of the row's length; 0 where not a target. */
export type Outputs = { readonly [K in Output]?: readonly Float32Array[] };

/** Loss gradients by each output, same shapes as `Outputs`. Summed over rows and calls, never averaged. */
export type Gradients = Outputs;

export interface ScoreOptions {
  /** Engines report log-probs after temperature; a ratio at T ≠ 1 is wrong unless scored at the same T. */
  readonly temperature: number;
  readonly outputs: readonly Output[];
  readonly signal?: AbortSignal;
}

/** A forward pass that still holds its activations. End it with exactly one of `backward` or `discard`. */
export interface Pass {
  readonly outputs: Outputs;
  /** Adds dL/dθ to the accumulated gradient. */
  backward(gradients: Gradients): Promise<void>;
  discard(): Promise<void>;
}

export interface AdamOptions {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
  /** Global-norm clipping; 0 is off. */
  readonly clipNorm: number;
}

/** One per model: policy, reference and critic are three. A trainer knows transformers and no RL. */
export interface Trainer {
  readonly can: ReadonlySet<
    'entropy' | 'value' | 'sumSquares' | 'temperature' | 'images' | 'lora' | 'prefix'
  >;
  /** Outputs alone; keeps nothing. */
  score(rows: readonly Row[], options: ScoreOptions): Promise<Outputs>;
  forward(rows: readonly Row[], options: ScoreOptions): Promise<Pass>;
  /** Applies the accumulated gradient and clears it. A non-finite gradient is cleared, not applied: `skipped`. */
  optimStep(adam: AdamOptions): Promise<{ readonly gradNorm: number; readonly skipped: boolean }>;
  publish(version: number): Promise<WeightUpdate>;
  /** Weights in the Hugging Face layout, and the optimizer's state beside them. */
  save(directory: string): Promise<void>;
  load(directory: string): Promise<void>;
  close(): Promise<void>;
}
