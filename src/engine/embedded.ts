import { type EmbeddedServer, openServer } from './server.ts';
import type { LoraOptions } from './training/lora.ts';
import { type EmbeddedTrainer, openTrainer } from './training/trainer.ts';

export interface EmbeddedOptions {
  /** Threads that compute, for the trainer and for each server; default the machine's parallelism. */
  readonly threads?: number;
  /** Forces one build of the kernels; default native where it can be built. */
  readonly kernels?: 'native' | 'wasm';
  /** Servers, each a thread of its own with its own cache. More than one is for testing what many do. */
  readonly servers?: number;
  /** Memory for cached K/V, per server. */
  readonly cacheMegabytes?: number;
  /** Most requests a server runs at once. */
  readonly maxBatch?: number;
  /** Trains low-rank adapters and freezes the model. */
  readonly lora?: LoraOptions;
  /** Computes activations again in the backward: less memory, a third more time. */
  readonly recompute?: boolean;
  /** Receives one line when kernels are built or cannot be. */
  readonly log?: (line: string) => void;
}

/** Both ports in this process, on the CPU: no GPU, no Python, nothing to start. */
export function embedded(options: EmbeddedOptions = {}) {
  const { servers = 1, lora, recompute, cacheMegabytes, maxBatch, ...common } = options;
  return {
    name: 'embedded',
    openServers: (model: string): Promise<EmbeddedServer[]> =>
      Promise.all(
        Array.from({ length: servers }, () =>
          openServer({
            model,
            ...common,
            ...(cacheMegabytes === undefined ? {} : { cacheMegabytes }),
            ...(maxBatch === undefined ? {} : { maxBatch }),
          }),
        ),
      ),
    openTrainer: (
      role: 'policy' | 'reference' | 'critic',
      model: string,
      { valueHead = false }: { readonly valueHead?: boolean } = {},
    ): Promise<EmbeddedTrainer> =>
      openTrainer({
        model,
        ...common,
        trainable: role !== 'reference',
        valueHead: valueHead || role === 'critic',
        ...(lora && role === 'policy' ? { lora } : {}),
        ...(recompute === undefined ? {} : { recompute }),
      }),
  };
}
