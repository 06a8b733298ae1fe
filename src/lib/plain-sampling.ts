/** A model's own distribution, untouched by penalties or truncation: what policy gradients and scoring assume. */
export const PLAIN_SAMPLING = {
  temperature: 1,
  topP: 1,
  topK: -1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  stopStrings: [] as readonly string[],
} as const;
