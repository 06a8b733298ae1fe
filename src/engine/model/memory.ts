import { ConfigError } from '../../errors.ts';
import type { ModelConfig } from './config.ts';
import { countParameters } from './weights.ts';

/** Bytes a trainer of this model holds before its first token: values, both packed forms, gradient, two moments. */
export function trainerBytes(config: ModelConfig, trained: 'all' | 'adapter' | 'none'): number {
  const copies = { all: 6, adapter: 3, none: 2 }[trained];
  return 4 * copies * countParameters(config);
}

/** Bytes of activations that a recorded forward keeps for each token. */
export function activationBytes(config: ModelConfig, recompute: boolean): number {
  const { hidden, heads, kvHeads, headSize, intermediate, layers, headNorm } = config;
  const keys = (heads + kvHeads) * headSize;
  const inside = 4 * hidden + keys + kvHeads * headSize + heads * headSize + 3 * intermediate;
  const perLayer = inside + (headNorm ? keys : 0);
  return 4 * (recompute ? layers * hidden + perLayer : layers * perLayer);
}

/** Refuses a model that cannot fit, with the figures. */
export function checkMemory(model: string, needed: number, available: number, where: string): void {
  if (needed <= available) return;
  throw new ConfigError(
    `${model} needs about ${gigabytes(needed)} GB, and ${where} offers ${gigabytes(available)} GB`,
  );
}

const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(bytes < 1e8 ? 3 : 1);
