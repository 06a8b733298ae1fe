import type { TrainerRole } from '../training/trainer.ts';
import type { ImageRef } from '../types.ts';
import { heldIn, type ServedAs } from './arithmetic.ts';
import { type EmbeddedServer, openServer } from './server.ts';
import type { LoraOptions } from './training/lora.ts';
import { type EmbeddedTrainer, openTrainer } from './training/trainer.ts';

/** How the embedded engine computes: threads, kernels, memory, low-rank adapters. */
export interface EmbeddedOptions {
  /** Threads that compute, for the trainer and for each server; default the machine's parallelism. */
  readonly threads?: number;
  /** Forces one build of the kernels; default native where it can be built. */
  readonly kernels?: 'native' | 'wasm';
  /** How many servers, each a thread with its own cache. More than one is for testing what many do. */
  readonly replicas?: number;
  /** Memory for cached K/V, per server. */
  readonly cacheMegabytes?: number;
  /** Most requests a server runs at once. */
  readonly maxBatch?: number;
  /** Trains low-rank adapters and freezes the model; `alpha` is the rank unless given. */
  readonly lora?: Omit<LoraOptions, 'alpha'> & Partial<Pick<LoraOptions, 'alpha'>>;
  /** What the servers get of a trainer with `lora`: its matrices, or the whole weights with them added; default `adapter`. */
  readonly send?: 'weights' | 'adapter';
  /**
   * What matrices are multiplied in, by trainer and servers; default `float32`, servers as the trainer. With `bfloat16` weights
   * that are not trained, and keys and values, take half the memory; what is trained stays float32. `int8` is for servers alone.
   */
  readonly weights?: ServedAs;
  /** Computes activations again in the backward: less memory, a third more time. */
  readonly recompute?: boolean;
  /** Receives one line when kernels are built or cannot be. */
  readonly log?: (line: string) => void;
}

/** How the bytes of an image are read; for models that see. */
interface ImageReading {
  readonly readImage?: ((image: ImageRef) => Promise<Uint8Array>) | undefined;
}

/**
 * Both ports in this process, on the CPU: no GPU, no Python, nothing to start. What it returns are the two options of
 * a run, `train({ ...embedded({ threads: 4 }) })`; either may be used alone.
 */
export function embedded(options: EmbeddedOptions = {}) {
  const { replicas = 1, lora, send, weights, recompute, cacheMegabytes, maxBatch, ...common } = options;
  const servers = {
    name: 'embedded',
    decodesImages: true,
    ...(send === undefined ? {} : { disk: { send } }),
    open: (
      model: string,
      { readImage, arithmetic }: ImageReading & { readonly arithmetic?: string | undefined } = {},
    ): Promise<EmbeddedServer[]> =>
      Promise.all(
        Array.from({ length: replicas }, () =>
          openServer({
            model,
            ...common,
            readImage,
            weights: weights ?? heldIn(arithmetic),
            ...(cacheMegabytes === undefined ? {} : { cacheMegabytes }),
            ...(maxBatch === undefined ? {} : { maxBatch }),
          }),
        ),
      ),
  };
  const trainer = {
    name: 'embedded',
    decodesImages: true,
    open: (
      role: TrainerRole,
      model: string,
      { valueHead = false, readImage }: ImageReading & { readonly valueHead?: boolean } = {},
    ): Promise<EmbeddedTrainer> =>
      openTrainer({
        model,
        ...common,
        readImage,
        trainable: role !== 'reference',
        valueHead: valueHead || role === 'critic',
        ...(weights === undefined || weights === 'int8' ? {} : { weights }),
        ...(lora && role === 'policy' ? { lora: { alpha: lora.rank, ...lora } } : {}),
        ...(recompute === undefined ? {} : { recompute }),
      }),
  };
  return { servers, trainer };
}
