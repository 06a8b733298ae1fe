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

/** What a core of a common server does in these kernels (docs/benchmarks.md). */
const FLOPS_PER_CORE = 80e9;

/** Seconds that forward and backward of 1000 tokens take on a number of cores: six operations a parameter and token. */
export function secondsPerThousandTokens(config: ModelConfig, cores: number): number {
  return (6 * countParameters(config) * 1000) / (FLOPS_PER_CORE * cores);
}

/** Refuses to train a model that cannot fit, with the figures. */
export function checkMemory(
  model: string,
  {
    needed,
    available,
    where,
    seconds,
  }: { needed: number; available: number; where: string; seconds: number },
): void {
  if (needed <= available) return;
  throw new ConfigError(
    `training ${model} on the CPU needs about ${gigabytes(needed)} GB, and ${where} offers ${gigabytes(available)} GB; ` +
      `1000 tokens would take about ${seconds.toPrecision(2)} s. Use a smaller model, lora, or the PyTorch trainer on GPUs: ` +
      'trainer.name=torch (docs/torch.md)',
  );
}

const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(bytes < 1e8 ? 3 : 1);
