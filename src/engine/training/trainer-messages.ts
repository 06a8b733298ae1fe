/** What trainer and trainer thread say to each other: one request, one reply, in order. */
import type {
  AdamOptions,
  AdapterWeights,
  Gradients,
  Outputs,
  Row,
  ScoreOptions,
} from '../../training/trainer.ts';
import type { ImageBytes } from '../vision/image-patches.ts';
import type { TrainingOptions } from './training-options.ts';

export interface TrainerSetup {
  readonly training: TrainingOptions;
  readonly threads: number | undefined;
  readonly kernels: 'native' | 'wasm' | undefined;
}

type RunRequest = {
  readonly rows: readonly Row[];
  readonly options: Omit<ScoreOptions, 'signal'>;
  /** What the rows show, each image once. */
  readonly images: readonly ImageBytes[];
  /** [0] becomes 1 when the caller gives up. */
  readonly abandoned: Int32Array;
};

export interface TrainerCalls {
  score: { request: RunRequest; reply: Outputs };
  forward: { request: RunRequest; reply: { readonly pass: number; readonly outputs: Outputs } };
  backward: { request: { readonly pass: number; readonly gradients: Gradients }; reply: undefined };
  discard: { request: { readonly pass: number }; reply: undefined };
  optimStep: { request: AdamOptions; reply: { readonly gradNorm: number; readonly skipped: boolean } };
  publish: {
    request: undefined;
    reply: ReadonlyMap<string, { readonly shape: readonly number[]; readonly data: Float32Array }>;
  };
  adapter: { request: undefined; reply: AdapterWeights };
  save: { request: { readonly directory: string }; reply: undefined };
  load: { request: { readonly directory: string }; reply: undefined };
  memory: { request: undefined; reply: { readonly peakBytes: number } };
  close: { request: undefined; reply: undefined };
}

export type CallName = keyof TrainerCalls;

export type ToTrainer = {
  [K in CallName]: { readonly id: number; readonly call: K; readonly request: TrainerCalls[K]['request'] };
}[CallName];

export type FromTrainer =
  | {
      readonly kind: 'ready';
      readonly description: string;
      readonly parameters: number;
      /** Whether the model reads images. */
      readonly sees: boolean;
    }
  | { readonly kind: 'log'; readonly line: string }
  | { readonly kind: 'broken'; readonly error: ErrorMessage }
  | { readonly kind: 'reply'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'failed'; readonly id: number; readonly error: ErrorMessage };

export interface ErrorMessage {
  readonly name: string;
  readonly message: string;
}
