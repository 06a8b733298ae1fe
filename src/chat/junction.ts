import type { Message, ToolCall } from '../types.ts';

/**
 * Where a sampled reply meets what follows it. A template writes each reply as
 *
 *   generation prompt | reply | tail          ChatML: `<|im_start|>assistant\n` | … | `<|im_end|>\n`
 *
 * An engine stops at a stop token, so the reply's last id is already part of the tail, or is not:
 *
 * | family                  | tail                    | reply stopped at      | inserted            |
 * | ChatML, Qwen, MiniMind  | `<|im_end|>` `\n`       | `<|im_end|>`          | `\n`                |
 * | Llama 3                 | `<|eot_id|>`            | `<|eot_id|>`, `<|eom_id|>` | nothing        |
 * | Gemma                   | `<end_of_turn>` `\n`    | `<end_of_turn>`       | `\n`                |
 * | Mistral                 | `</s>`                  | `</s>`                | nothing             |
 * | DeepSeek                | `<｜end▁of▁sentence｜>` | the same              | nothing             |
 * | gpt-oss                 | `<|end|>`, `<|return|>` | `<|return|>`, `<|call|>` | nothing          |
 * | GLM                     | nothing                 | `<|user|>`, `<|observation|>`, which open the next message |
 * | any, cut by its length  |                         | no stop token         | the whole tail      |
 *
 * The tail is read off the template, so a family that is not listed follows the same rule; the self-test proves it.
 */
export interface Junction {
  readonly tail: Int32Array;
  /** Stop ids which the template writes with the next message only (GLM, Apriel), and how many ids are in front of them. */
  readonly openers: ReadonlyMap<number, number>;
  readonly stopIds: ReadonlySet<number>;
}

/** What to insert after a reply, how much of the next message the reply has sampled already, what to drop. */
export function join(
  { tail, openers, stopIds }: Junction,
  reply: Int32Array,
  next: Int32Array,
): { readonly ids: Int32Array; readonly drop: number } {
  const last = reply.at(-1);
  if (last === undefined || !stopIds.has(last)) return { ids: concat(tail, next), drop: 0 };
  const lead = tail.includes(last) ? undefined : openers.get(last);
  if (lead !== undefined)
    return next[lead] === last ? { ids: next.slice(lead + 1), drop: 0 } : { ids: next, drop: 1 };
  return { ids: concat(afterClose(tail, last, stopIds), next), drop: 0 };
}

function afterClose(tail: Int32Array, last: number, stopIds: ReadonlySet<number>): Int32Array {
  const same = tail.indexOf(last);
  const close = same >= 0 ? same : tail.findIndex((id) => stopIds.has(id));
  return close < 0 ? tail : tail.slice(close + 1);
}

export function concat(...parts: readonly Int32Array[]): Int32Array {
  const joined = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** Stands for a reply in renderings of which only the surroundings matter. Plain letters: no template alters it. */
export const REPLY = 'rollcallreplyplaceholder';

/**
 * The dialogues under which new messages are rendered, the most telling first. Tool results get the calls
 * they answer; some templates take one call only, some no system message.
 */
export function syntheticPrefixes(
  newMessages: readonly Message[],
  takesSystem: boolean,
  made: readonly ToolCall[],
): Message[][] {
  const calls: ToolCall[] = newMessages.flatMap((message) =>
    message.role === 'tool'
      ? [
          made.find(({ id }) => id === message.toolCallId) ?? {
            id: message.toolCallId,
            name: message.name,
            arguments: {},
          },
        ]
      : [],
  );
  const opening: Message[] = [
    ...(takesSystem ? [{ role: 'system', content: 'You are helpful.' } as const] : []),
    { role: 'user', content: 'Hello.' },
  ];
  const replies: Message[] = [
    { role: 'assistant', content: REPLY, ...(calls.length > 0 && { toolCalls: calls }) },
    ...(calls.length > 0 ? [{ role: 'assistant', content: '', toolCalls: calls } as const] : []),
    ...(calls.length > 1
      ? [{ role: 'assistant', content: REPLY, toolCalls: calls.slice(0, 1) } as const]
      : []),
    ...(calls.length > 1 ? [{ role: 'assistant', content: '', toolCalls: calls.slice(0, 1) } as const] : []),
  ];
  return replies.map((reply) => [...opening, reply]);
}

/**
 * The text that a template adds for new messages after a reply: `before` ends with the reply, `after` goes on.
 * Undefined where the template writes the end of the reply differently once more follows.
 */
export function addedText(before: string, after: string): string | undefined {
  const [inBefore, inAfter] = [before.split(REPLY), after.split(REPLY)];
  // What stands in front of the reply may change (Qwen3 drops an old `<think>`); what was sampled does not.
  const isMarked = inBefore.length === 2 && inAfter.length === 2;
  const [end, whole] = isMarked ? [inBefore[1]!, inAfter[1]!] : [before, after];
  return whole.startsWith(end) ? whole.slice(end.length) : undefined;
}
