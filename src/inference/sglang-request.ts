import type { CallOptions } from './http/client.ts';
import { jsonWithIds } from './ids-json.ts';
import type { GenerateRequest, SamplingParams } from './server.ts';

/** `/generate` of SGLang. */
export function generateCall(
  request: GenerateRequest,
  rid: string,
  adapter: string | undefined,
  imageData: readonly string[] | undefined,
  seeds: boolean,
): CallOptions {
  const { trajectory, prompt, sampling, scorePrompt = false, priority } = request;
  const headers = { 'x-smg-routing-key': encodeURI(trajectory) };
  const body = jsonWithIds('input_ids', prompt, {
    rid,
    sampling_params: samplingOf(sampling, seeds),
    return_logprob: true,
    logprob_start_len: scorePrompt ? 0 : -1,
    stream: request.onTokens !== undefined,
    session_id: trajectory,
    ...(imageData ? { image_data: imageData } : {}),
    ...(adapter === undefined ? {} : { lora_path: adapter }),
    ...(priority === undefined ? {} : { priority }),
  });
  return { body, headers };
}

/** Everything said, so that nothing of the server's or the model's own defaults is left. */
function samplingOf(sampling: SamplingParams, seeds: boolean) {
  const { constraint } = sampling;
  return {
    max_new_tokens: sampling.maxTokens,
    min_new_tokens: 0,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    stop: sampling.stopStrings,
    stop_token_ids: sampling.stopIds,
    ...(seeds ? { sampling_seed: sampling.seed } : {}),
    n: 1,
    ignore_eos: false,
    skip_special_tokens: false,
    no_stop_trim: true,
    ...(constraint?.kind === 'jsonSchema' ? { json_schema: JSON.stringify(constraint.schema) } : {}),
    ...(constraint?.kind === 'regex' ? { regex: constraint.source } : {}),
    ...(constraint?.kind === 'grammar' ? { ebnf: constraint.source } : {}),
  };
}
