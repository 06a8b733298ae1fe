import { ConfigError } from '../errors.ts';
import type { Message } from '../types.ts';
import type { ChatFormat, Tools } from './format.ts';

/** A dialogue as tokens to imitate. */
export interface DemonstrationTokens {
  readonly ids: Int32Array;
  /** 1 on the assistant's replies, the token that ends each included. */
  readonly trained: Uint8Array;
}

/**
 * A dialogue in the very layout a rollout would give it: prompts as the engine sees them, replies up to the token
 * that stops sampling. Where the template rewrites what came before (a model that drops old reasoning), the
 * dialogue becomes several sequences, and each reply is trained in exactly one.
 */
export function demonstrationTokens(
  format: ChatFormat,
  messages: readonly Message[],
  tools: Tools,
): DemonstrationTokens[] {
  const stops = new Set(format.stopIds);
  const sequences: { ids: number[]; trained: number[] }[] = [];
  for (const [at, message] of messages.entries()) {
    if (message.role !== 'assistant') continue;
    if (at === 0)
      throw new ConfigError('a demonstration begins with an assistant message; something must ask first');
    const prompt = format.renderPrompt(messages.slice(0, at), tools).ids;
    const answered = format.renderPrompt(messages.slice(0, at + 1), tools).ids;
    if (!startsWith(answered, prompt)) {
      throw new ConfigError(
        `the chat template writes another prompt once message ${at} has answered it, so its reply cannot be found`,
      );
    }
    const end = answered.findIndex((id, position) => position >= prompt.length && stops.has(id)) + 1;
    const reply = answered.subarray(prompt.length, end > 0 ? end : answered.length);
    let sequence = sequences.at(-1);
    if (!sequence || !startsWith(prompt, sequence.ids)) {
      sequence = { ids: [], trained: [] };
      sequences.push(sequence);
    }
    for (let position = sequence.ids.length; position < prompt.length; position++) {
      sequence.ids.push(prompt[position]!);
      sequence.trained.push(0);
    }
    for (const id of reply) {
      sequence.ids.push(id);
      sequence.trained.push(1);
    }
  }
  return sequences.map(({ ids, trained }) => ({
    ids: Int32Array.from(ids),
    trained: Uint8Array.from(trained),
  }));
}

function startsWith(whole: ArrayLike<number>, start: ArrayLike<number>): boolean {
  if (start.length > whole.length) return false;
  for (let at = 0; at < start.length; at++) if (whole[at] !== start[at]) return false;
  return true;
}
