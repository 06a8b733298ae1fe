import type { SamplingParams } from '../inference/server.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';

/** How replies are sampled; `maxTokens`, `stopIds` and `seed` follow from limits, format and coordinates. */
export type Sampling = Omit<SamplingParams, 'maxTokens' | 'stopIds' | 'seed'>;

export const DEFAULT_SAMPLING: Sampling = PLAIN_SAMPLING;
