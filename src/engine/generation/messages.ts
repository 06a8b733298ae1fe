/** What the embedded server and its thread say to one another. */
import type { ServerInfo, WeightUpdate } from '../../inference/server.ts';
import type { ServedAs } from '../arithmetic.ts';
import type { KernelOptions } from '../kernels/kernels.ts';
import type { GenerationStatistics, StepNews } from './generator.ts';
import type { PlainRequest } from './request.ts';

/** The thread's `workerData`. */
export interface ServerSetup {
  readonly model: string;
  readonly version: number;
  readonly weights: ServedAs;
  readonly cacheMegabytes: number;
  readonly maxBatch: number;
  readonly kernels: Omit<KernelOptions, 'log'>;
}

export type Ask =
  | { readonly kind: 'pause'; readonly mode: 'abort' | 'wait' | 'keep' }
  | { readonly kind: 'resume' }
  | { readonly kind: 'update'; readonly weights: WeightUpdate }
  | { readonly kind: 'statistics' }
  | { readonly kind: 'flush' }
  | { readonly kind: 'close' };

export type ToEngine =
  | { readonly kind: 'generate'; readonly key: number; readonly request: PlainRequest }
  | { readonly kind: 'abort'; readonly key: number }
  | { readonly kind: 'ask'; readonly call: number; readonly ask: Ask };

export type FromEngine =
  | { readonly kind: 'log'; readonly line: string }
  | { readonly kind: 'ready'; readonly info: ServerInfo; readonly description: string }
  | { readonly kind: 'broken'; readonly message: string; readonly config: boolean }
  | { readonly kind: 'news'; readonly news: StepNews }
  | { readonly kind: 'answer'; readonly call: number; readonly value?: GenerationStatistics | undefined }
  | { readonly kind: 'refused'; readonly call: number; readonly message: string };
