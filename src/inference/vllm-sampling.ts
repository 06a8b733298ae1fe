import type { SamplingParams } from './server.ts';

/** Everything said: what is not comes from the model's generation_config.json. */
export function samplingOf(sampling: SamplingParams, seeds: boolean) {
  const { constraint } = sampling;
  return {
    max_tokens: sampling.maxTokens,
    min_tokens: 0,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    ...(seeds ? { seed: sampling.seed } : {}),
    n: 1,
    stop: sampling.stopStrings,
    stop_token_ids: sampling.stopIds,
    ignore_eos: false,
    skip_special_tokens: false,
    include_stop_str_in_output: true,
    ...(constraint?.kind === 'jsonSchema' ? { structured_outputs: { json: constraint.schema } } : {}),
    ...(constraint?.kind === 'regex' ? { structured_outputs: { regex: constraint.source } } : {}),
    ...(constraint?.kind === 'grammar' ? { structured_outputs: { grammar: constraint.source } } : {}),
  };
}

/** `RequestOutputKind.FINAL_ONLY` in vLLM. */
const FINAL_ONLY = 2;

/**
 * Text is made only where stop strings are looked for. Without `output_kind` vLLM 0.23 builds the whole reply again after
 * every token, which bounds the server.
 */
export function idsAlone({ stopStrings }: SamplingParams) {
  return { detokenize: stopStrings.length > 0, output_kind: FINAL_ONLY };
}
