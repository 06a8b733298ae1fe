import { ConfigError } from '../../errors.ts';
import type { HeldAs } from '../arithmetic.ts';
import type { ModelConfig } from './config.ts';
import { countParameters, rowElements, weightElements, weightSpecs } from './weights.ts';

interface Held {
  readonly weights?: HeldAs;
  /** Of the adapter that is trained; 0: none. */
  readonly rank?: number;
}

/** Bytes a trainer of this model holds before its first token: values, both packed forms, gradient, two moments. */
export function trainerBytes(
  config: ModelConfig,
  trained: 'all' | 'adapter' | 'none',
  { weights = 'float32', rank = 0 }: Held = {},
): number {
  if (trained === 'all') return (weights === 'bfloat16' ? 20 : 24) * countParameters(config);
  const forms = trained === 'adapter' ? 2 : 1;
  return forms * packedBytes(config, weights) + plainBytes(config, weights) + 24 * adapterSize(config, rank);
}

/** Bytes a server holds: packed weights, embedding rows, K/V, and the adapters of two versions. */
export function serverBytes(
  config: ModelConfig,
  { weights = 'float32', rank = 0, cacheMegabytes = 256 }: Held & { readonly cacheMegabytes?: number } = {},
): number {
  const rows = 4 * config.vocabulary * config.hidden;
  return packedBytes(config, weights) + rows + 2 ** 20 * cacheMegabytes + 8 * adapterSize(config, rank);
}

/** The process itself, its threads, tokenizer, trajectories and buffers of a step: measured at 135M. */
const PROCESS_BYTES = 0.4e9;

/** Bytes of a run that trains an adapter in this process, with recomputed activations: what must fit into memory. */
export function adapterRunBytes(
  config: ModelConfig,
  {
    tokensPerMicroBatch = 1024,
    ...held
  }: Held & { readonly cacheMegabytes?: number; readonly tokensPerMicroBatch?: number },
): number {
  const activations = tokensPerMicroBatch * activationBytes(config, true);
  return trainerBytes(config, 'adapter', held) + serverBytes(config, held) + activations + PROCESS_BYTES;
}

/** Of all that is multiplied by: linear layers, and the output layer, which a tied model shares with its embedding. */
function packedBytes(config: ModelConfig, weights: HeldAs): number {
  const multiplied = countParameters(config) - (config.tied ? 0 : config.vocabulary * config.hidden);
  return (weights === 'bfloat16' ? 2 : 4) * multiplied;
}

/** Values in float32: all of them, or the rows of the embedding alone. */
function plainBytes(config: ModelConfig, weights: HeldAs): number {
  return 4 * (weights === 'bfloat16' ? config.vocabulary * config.hidden : countParameters(config));
}

/** Numbers of an adapter of all linear layers of the decoder. */
function adapterSize(config: ModelConfig, rank: number): number {
  return weightSpecs(config)
    .filter(({ kind, name }) => kind === 'linear' && name.startsWith('model.'))
    .reduce((sum, spec) => sum + rank * (weightElements(spec) / rowElements(spec) + rowElements(spec)), 0);
}

/** Bytes of activations that a recorded forward keeps for each token. */
export function activationBytes(config: ModelConfig, recompute: boolean): number {
  const { hidden, heads, kvHeads, headSize, intermediate, layers, headNorm, postNorms } = config;
  const keys = (heads + kvHeads) * headSize;
  const inside = 4 * hidden + keys + kvHeads * headSize + heads * headSize + 3 * intermediate;
  const perLayer = inside + (headNorm ? keys : 0) + (postNorms ? 2 * hidden : 0);
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
      `1000 tokens would take about ${Number(seconds.toPrecision(2))} s. Use a smaller model, lora, or the PyTorch trainer on GPUs: ` +
      'trainer.name=torch (docs/torch.md)',
  );
}

const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(bytes < 1e8 ? 3 : 1);
