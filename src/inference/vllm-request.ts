/** Requests to vLLM's `/inference/v1/generate` and, where there is none, `/v1/completions`. */
import { jsonWithIds } from './ids-json.ts';
import type { GenerateRequest, SamplingParams } from './server.ts';
import type { SentPrompt } from './vllm-images.ts';

/** What a body says beside prompt and sampling. */
interface Named {
  readonly id: string;
  /** The model's name, or the adapter's. */
  readonly model: string;
  readonly seeds: boolean;
}

export function tokensBody(
  request: GenerateRequest,
  { ids, fields }: SentPrompt,
  { id, model, seeds }: Named,
) {
  const { sampling, scorePrompt, priority = 0, onTokens } = request;
  const scores = { logprobs: 0, prompt_logprobs: scorePrompt ? 0 : null };
  const sampling_params = { ...samplingOf(sampling, seeds), ...scores, ...idsAlone(sampling) };
  const stream = onTokens !== undefined;
  return jsonWithIds('token_ids', ids, {
    request_id: id,
    model,
    sampling_params,
    priority,
    stream,
    ...fields,
  });
}

/** A prompt of nothing but images, for one token that nobody reads. */
export function shownBody(
  { sampling, priority = 0 }: GenerateRequest,
  { ids, fields }: SentPrompt,
  { id, model, seeds }: Named,
) {
  const one = samplingOf({ ...sampling, maxTokens: 1 }, seeds);
  const sampling_params = { ...one, logprobs: 0, prompt_logprobs: null, ...idsAlone(sampling) };
  const rest = { request_id: `${id}shown.`, model, sampling_params, priority, stream: false };
  return jsonWithIds('token_ids', ids, { ...rest, ...fields });
}

export function completionsBody(request: GenerateRequest, { id, model, seeds }: Named) {
  const { prompt, sampling, scorePrompt, priority = 0, onTokens } = request;
  return jsonWithIds('prompt', prompt, {
    request_id: id,
    model,
    ...samplingOf(sampling, seeds),
    prompt_logprobs: scorePrompt ? 0 : null,
    logprobs: 1,
    return_token_ids: true,
    priority,
    stream: onTokens !== undefined,
  });
}

/** Everything said: what is not comes from the model's generation_config.json. */
function samplingOf(sampling: SamplingParams, seeds: boolean) {
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
function idsAlone({ stopStrings }: SamplingParams) {
  return { detokenize: stopStrings.length > 0, output_kind: FINAL_ONLY };
}
