import type { ServerFactory } from '../gateway/server-factory.ts';
import type { WeightTensor, WeightUpdate } from '../inference/server.ts';
import type { ImageRef } from '../types.ts';

/**
 * What a trainer computes at a position i of a row, from the distribution that predicts `ids[i]` given
 * `ids[0..i-1]`: its log-prob of `ids[i]`, its entropy, its Σπ²; `value` is the value head on the same state.
 */
export type Output = 'logprob' | 'entropy' | 'sumSquares' | 'value';

/** One sequence as a trainer sees it: ids, and which of them are targets. */
export interface Row {
  readonly ids: Int32Array;
  /** 1 at positions whose outputs are computed. Position 0 has nothing before it and is never a target. */
  readonly targets: Uint8Array;
  /** The row's first `length` tokens equal those of row number `row` (an earlier one): compute them once. */
  readonly prefix?: { readonly row: number; readonly length: number };
  /** `at` is the position of an image's placeholder in `ids`. */
  readonly images?: readonly { readonly at: number; readonly image: ImageRef }[];
}

/** For each requested output, one array per row, of the row's length; 0 where not a target. */
export type Outputs = { readonly [K in Output]?: readonly Float32Array[] };

/** Loss gradients by each output, same shapes as `Outputs`. Summed over rows and calls, never averaged. */
export type Gradients = Outputs;

/** What a forward computes for each target. */
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

/** The settings of one AdamW step. */
export interface AdamOptions {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
  /** Global-norm clipping; 0 is off. */
  readonly clipNorm: number;
}

/** One per model: policy, reference and critic are three. A trainer knows transformers but nothing of RL. */
export interface Trainer {
  readonly can: ReadonlySet<
    'entropy' | 'value' | 'sumSquares' | 'temperature' | 'images' | 'lora' | 'prefix'
  >;
  /**
   * Kind of the updates that `publish` returns. With `pushed` it moves the weights to its own servers before it
   * returns; requests in flight are paused meanwhile.
   */
  readonly publishes: WeightUpdate['kind'];
  /** Name of the arithmetic behind the log-probs; a server of the same arithmetic must agree to 1e-4. */
  readonly arithmetic?: string;
  /** Whether a step clips the gradient's norm (`clipNorm`); undefined is yes. */
  readonly clips?: boolean;
  /** Most tokens of the rows in one call of `score` or `forward`; a longer row comes alone. Undefined: no limit. */
  readonly tokensPerCall?: number;
  /** Computes outputs only; keeps no activations. */
  score(rows: readonly Row[], options: ScoreOptions): Promise<Outputs>;
  forward(rows: readonly Row[], options: ScoreOptions): Promise<Pass>;
  /** Applies the accumulated gradient and clears it. A non-finite gradient is cleared, not applied: `skipped`. */
  optimStep(adam: AdamOptions): Promise<{ readonly gradNorm: number; readonly skipped: boolean }>;
  publish(version: number): Promise<WeightUpdate>;
  /** The adapter that is trained; where the trainer can `lora`. */
  adapter?(): Promise<AdapterWeights>;
  /** A model folder in the Hugging Face layout (or an adapter in PEFT's), the optimizer's state in a folder below. */
  save(directory: string): Promise<void>;
  /**
   * As `save`, but resolves when the state is taken: it is written while training goes on. `written` says whether all of
   * it was; false where the state was lost meanwhile. Without this method, `save` is waited for.
   */
  startSave?(directory: string): Promise<{ readonly written: Promise<boolean> }>;
  load(directory: string): Promise<void>;
  /** Gives back memory that only passes need: whoever shares the device takes it now, or has given up some of its own. */
  rest?(): Promise<void>;
  /** Beside a step's own metrics: what the trainer has to tell, such as what a service was asked for. */
  metrics?(): Readonly<Record<string, number>>;
  /** May be called twice. */
  close(): Promise<void>;
}

/** Low-rank matrices in PEFT's layout. */
export interface AdapterWeights {
  /** What `adapter_config.json` holds. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: ReadonlyMap<string, WeightTensor>;
}

/** What trains: opens a trainer for each model of a run. */
export interface TrainerFactory {
  readonly name: string;
  /** As of servers: what it could not decode is refused when it is stored, also where servers could show it. */
  readonly decodesImages?: boolean;
  open(role: TrainerRole, model: string, options?: OpenTrainerOptions): Promise<Trainer>;
  /** Where its weights are sampled, for a trainer whose service does that too: a run's servers unless others are given. */
  readonly servers?: ServerFactory;
}

/** Which of a run's models a trainer holds. */
export type TrainerRole = 'policy' | 'reference' | 'critic';

/** What a run asks of a trainer when it opens it. */
export interface OpenTrainerOptions {
  /** Also on a policy, which is then its own critic; a critic always has one. */
  readonly valueHead?: boolean;
  /** The bytes of an image that a row names. */
  readonly readImage?: (image: ImageRef) => Promise<Uint8Array>;
}
