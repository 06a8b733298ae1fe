import type { Metrics } from '../types.ts';
import type { Algorithm } from './algorithm.ts';
import type { Batch } from './batch.ts';
import type { Watched } from './health.ts';
import type { OptimizerOptions } from './optimizer-options.ts';
import type { AdamOptions, Trainer } from './trainer.ts';

/** What must be kept from step to step, and in checkpoints: plain JSON. */
export interface UpdateState {
  readonly klCoefficient?: number;
  /** Running means of what is watched for spikes and collapse. */
  readonly watched: Watched;
  /** Batches in a row of which no update had a finite gradient. */
  readonly brokenBatches?: number;
}

/** What one update of the policy needs: a trainer, a batch and an algorithm; the rest has defaults. */
export interface UpdateOptions {
  readonly trainer: Trainer;
  /** Only scored. Needed with `algorithm.kl`. */
  readonly reference?: Trainer;
  /** Needed with `algorithm.critic`; may be `trainer` itself if that has a value head. */
  readonly critic?: Trainer;
  /** Absent: the policy's, with the learning rate of `algorithm.critic`. */
  readonly criticAdam?: AdamOptions;
  readonly batch: Batch;
  readonly algorithm: Algorithm;
  /** What is absent is as in `train`. */
  readonly optimizer?: Partial<Omit<OptimizerOptions, 'adam'>> & { readonly adam?: Partial<AdamOptions> };
  /** The temperature at which the batch was sampled; default 1. */
  readonly temperature?: number;
  /** The run's limit; Dr. GRPO divides by it unless its divisor is given. */
  readonly tokensPerTrajectory?: number;
  /** For shuffling and clip-cov's choice: a hash of run seed and step; default the batch's step. */
  readonly seed?: number;
  readonly state?: UpdateState;
  /** Prompts to score with the new weights, in the one pass that sees whether the update broke them. */
  readonly prompts?: readonly Int32Array[];
  readonly guard?: GuardOptions;
  readonly signal?: AbortSignal;
  onProgress?(progress: UpdateProgress): void;
}

/** The options with every default filled in. */
export type ResolvedUpdate = Omit<UpdateOptions, 'optimizer' | 'temperature' | 'seed'> & {
  readonly optimizer: OptimizerOptions;
  readonly temperature: number;
  readonly seed: number;
};

export interface GuardOptions {
  /** After a non-finite number: skip the update and continue, or throw. */
  readonly onNonFinite: 'skip' | 'stop';
  /** Where the batch is set aside for `rollcall replay`; nothing is written without it. */
  readonly directory?: string;
  /** Names the run in messages. */
  readonly run?: string;
}

export interface UpdateProgress {
  readonly phase: 'old' | 'reference' | 'values' | 'critic' | 'actor';
  readonly done: number;
  /** Number of rows. */
  readonly total: number;
}

/** What an update knows about one segment; arrays have its length and are 0 outside the trained tokens. */
export interface TokenRecord {
  readonly trajectory: string;
  readonly segment: number;
  readonly advantages: Float32Array;
  /** The trainer's log-probs before the update, where they were computed. */
  readonly logprobs?: Float32Array;
  readonly entropy?: Float32Array;
}

/** What an update measured, and the state that the next one needs. */
export interface UpdateResult {
  readonly metrics: Metrics;
  /** Sentences for the user: spikes, collapse, what was skipped and why. */
  readonly notices: readonly string[];
  readonly state: UpdateState;
  readonly tokens: readonly TokenRecord[];
  /** Log-probs of `prompts` after the update, at temperature 1; absent where no pass was needed. */
  readonly promptLogprobs?: readonly Float32Array[];
  /** Set when something was not finite and the update was left out. */
  readonly skipped?: { readonly reason: string; readonly file?: string; readonly weightsBroken: boolean };
}

const ADAM: AdamOptions = {
  learningRate: 1e-6,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0.01,
  clipNorm: 1,
};

export function resolveUpdate({
  optimizer = {},
  temperature = 1,
  seed,
  ...rest
}: UpdateOptions): ResolvedUpdate {
  const { adam, miniBatches = 1, epochs = 1, tokensPerMicroBatch = 16_384 } = optimizer;
  const { balance = true, shuffle = true } = optimizer;
  const models = [rest.trainer, rest.reference, rest.critic];
  const most = Math.min(...models.map((model) => model?.tokensPerCall ?? Number.POSITIVE_INFINITY));
  const passes = {
    miniBatches,
    epochs,
    tokensPerMicroBatch: Math.min(tokensPerMicroBatch, most),
    balance,
    shuffle,
  };
  return {
    ...rest,
    optimizer: { adam: { ...ADAM, ...adam }, ...passes },
    temperature,
    seed: seed ?? rest.batch.step,
  };
}
