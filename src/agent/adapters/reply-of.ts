import type { ChatReply, ReplyHandle } from '../../chat/chat.ts';
import { ConfigError } from '../../errors.ts';

/** What an adapter hands to its framework beside a reply, under the key `rollcall`. */
export const replyMark = ({ turn, ids }: ChatReply) => ({ rollcall: { turn, ids: [...ids] } });

/** Where the frameworks keep what a model adds to its reply: AI SDK, LangChain, OpenAI Agents. */
const FIELDS = ['providerMetadata', 'response_metadata', 'providerData'] as const;

/**
 * The handle of a reply for `context.reward(reply, value)` and `context.exclude(reply)`: of a step of the AI SDK, a message
 * of LangChain, or a raw response of OpenAI Agents.
 */
export function replyOf(step: { readonly [K in (typeof FIELDS)[number]]?: unknown }): ReplyHandle {
  for (const field of FIELDS) {
    const mark = (step[field] as { readonly rollcall?: { readonly turn?: unknown } } | null | undefined)
      ?.rollcall;
    if (typeof mark?.turn === 'number') return { turn: mark.turn };
  }
  throw new ConfigError(
    `this is not a reply of the policy: none of ${FIELDS.join(', ')} has \`rollcall\`; pass a step, message or raw response`,
  );
}
