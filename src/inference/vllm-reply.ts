/** A reply of vLLM's `/inference/v1/generate` or `/v1/completions`. */
import { isListOf, isObject, isSpan, type ReportedSpan } from './http-reply.ts';
import type { Range } from './vllm-images.ts';

interface Choice {
  readonly token_ids?: readonly number[] | null;
  readonly finish_reason?: string | null;
  /** Log-probs as `/inference/v1/generate` and as `/v1/completions` report them. */
  readonly logprobs?: {
    readonly content?: readonly { readonly logprob: number }[];
    readonly token_logprobs?: readonly (number | null)[];
  } | null;
  readonly prompt_logprobs?: PromptLogprobs;
  /** From `/inference/v1/generate` since vLLM 0.32; in the last event of a stream. */
  readonly weight_versions?: readonly ReportedSpan[] | null;
}

export type PromptLogprobs =
  | readonly (Readonly<Record<string, { readonly logprob: number }>> | null)[]
  | null;

export interface Reply {
  readonly choices: readonly Choice[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  } | null;
  readonly prompt_logprobs?: PromptLogprobs;
  /** Where images stand in the expanded prompt, where `return_token_ids` asked for it. */
  readonly mm_placeholders?: { readonly image?: readonly Range[] } | null;
}

/** Whether it has the shape of a reply; its numbers are looked at later. */
export function isReply(value: unknown): value is Reply {
  if (!isObject(value) || !Array.isArray(value.choices) || !value.choices.every(isChoice)) return false;
  const { usage, prompt_logprobs: scored, mm_placeholders: shown } = value;
  if (shown !== undefined && shown !== null && !(isObject(shown) && isListOf(shown.image, isRange)))
    return false;
  if (usage !== undefined && usage !== null) {
    if (!isObject(usage) || typeof usage.prompt_tokens !== 'number') return false;
  }
  return isListOf(scored, isScore);
}

const isRange = (value: unknown) =>
  isObject(value) && Number.isInteger(value.offset) && Number.isInteger(value.length);

const isScore = (value: unknown) => value === null || isObject(value);

function isChoice(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { token_ids: ids, logprobs, prompt_logprobs: scored, weight_versions: spans } = value;
  if (!isListOf(ids, Number.isInteger) || !isListOf(scored, isScore) || !isListOf(spans, isSpan))
    return false;
  if (logprobs === undefined || logprobs === null) return true;
  return (
    isObject(logprobs) &&
    isListOf(logprobs.content, isObject) &&
    isListOf(logprobs.token_logprobs, (one) => one === null || typeof one === 'number')
  );
}

export function logprobsOf(choice: Choice | undefined): readonly (number | null)[] {
  const { content, token_logprobs: flat } = choice?.logprobs ?? {};
  return content?.map(({ logprob }) => logprob) ?? flat ?? [];
}

/** Events of a stream are deltas. */
export function joined(parts: readonly Reply[]): Reply {
  const choices = parts.flatMap((part) => part.choices.slice(0, 1));
  const last = <V>(pick: (part: Reply) => V | null | undefined) =>
    parts.map(pick).findLast((value) => value != null);
  return {
    choices: [
      {
        token_ids: choices.flatMap((choice) => choice.token_ids ?? []),
        logprobs: { token_logprobs: choices.flatMap((choice) => logprobsOf(choice)) },
        finish_reason: choices.findLast((choice) => choice.finish_reason != null)?.finish_reason ?? null,
        weight_versions: choices.findLast((choice) => choice.weight_versions)?.weight_versions ?? null,
      },
    ],
    usage: last((part) => part.usage) ?? null,
    prompt_logprobs: last((part) => part.prompt_logprobs ?? part.choices[0]?.prompt_logprobs) ?? null,
    mm_placeholders: last((part) => part.mm_placeholders) ?? null,
  };
}
