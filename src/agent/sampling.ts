import type { SamplingParams } from '../inference/server.ts';

/** How replies are sampled; `maxTokens`, `stopIds` and `seed` follow from limits, format and coordinates. */
export type Sampling = Omit<SamplingParams, 'maxTokens' | 'stopIds' | 'seed'>;

/** The policy's own distribution, untouched: what policy gradients assume. */
export const DEFAULT_SAMPLING: Sampling = {
  temperature: 1,
  topP: 1,
  topK: -1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  stopStrings: [],
};
