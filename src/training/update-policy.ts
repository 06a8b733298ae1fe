import type { Metrics } from '../types.ts';
import type { Algorithm } from './algorithm.ts';
import type { Batch } from './batch.ts';
import type { AdamOptions, Trainer } from './trainer.ts';

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

/** What must be kept from step to step, and in checkpoints: plain JSON. */
export interface UpdateState {
  readonly klCoefficient?: number;
  /** Running means and deviations of what is watched for spikes and collapse. */
  readonly watched: Readonly<
    Record<string, { readonly mean: number; readonly deviation: number; readonly count: number }>
  >;
}

export interface UpdateOptions {
  readonly trainer: Trainer;
  /** Only scored. Needed with `algorithm.kl`. */
  readonly reference?: Trainer;
  /** Needed with `algorithm.critic`; may be `trainer` itself if that has a value head. */
  readonly critic?: Trainer;
  readonly criticAdam?: AdamOptions;
  readonly batch: Batch;
  readonly algorithm: Algorithm;
  readonly optimizer: OptimizerOptions;
  /** At which the batch was sampled. */
  readonly temperature: number;
  /** The run's limit; Dr. GRPO divides by it unless its divisor is given. */
  readonly tokensPerTrajectory?: number;
  /** For shuffling and clip-cov's choice; a hash of (run seed, step). */
  readonly seed: number;
  readonly state?: UpdateState;
  readonly guard?: GuardOptions;
  readonly signal?: AbortSignal;
  onProgress?(progress: UpdateProgress): void;
}

export interface GuardOptions {
  /** After a non-finite number: leave the update out and go on, or throw. */
  readonly onNonFinite: 'skip' | 'stop';
  /** Where the batch is set aside for `rollcall replay`; nothing is written without it. */
  readonly directory?: string;
  /** Names the run in messages. */
  readonly run?: string;
}

export interface UpdateProgress {
  readonly phase: 'old' | 'reference' | 'values' | 'critic' | 'actor';
  readonly done: number;
  /** In rows. */
  readonly total: number;
}

/** Of one segment; arrays have its length and are 0 off the trained tokens. */
export interface TokenRecord {
  readonly trajectory: string;
  readonly segment: number;
  readonly advantages: Float32Array;
  /** By the trainer, before the update, where it was computed. */
  readonly logprobs?: Float32Array;
  readonly entropy?: Float32Array;
}

export interface UpdateResult {
  readonly metrics: Metrics;
  /** Sentences for the user: spikes, collapse, what was skipped and why. */
  readonly notices: readonly string[];
  readonly state: UpdateState;
  readonly tokens: readonly TokenRecord[];
  /** Set when something was not finite and the update was left out. */
  readonly skipped?: { readonly reason: string; readonly file?: string; readonly weightsBroken: boolean };
}

export declare function updatePolicy(options: UpdateOptions): Promise<UpdateResult>;
