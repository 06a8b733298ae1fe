import type { Content, Message } from '../../types.ts';

type Part =
  | { readonly type: 'text' | 'reasoning'; readonly content: string }
  | { readonly type: 'tool_call'; readonly id: string; readonly name: string; readonly arguments: unknown }
  | { readonly type: 'tool_call_response'; readonly id: string; readonly response: string };

/** Messages in the form of OpenTelemetry's GenAI conventions. */
export function genAiMessages(messages: readonly Message[]): { role: string; parts: Part[] }[] {
  return messages.map((message) => ({ role: message.role, parts: partsOf(message) }));
}

function partsOf(message: Message): Part[] {
  switch (message.role) {
    case 'assistant':
      return [
        ...(message.reasoning ? [{ type: 'reasoning' as const, content: message.reasoning }] : []),
        ...(message.content === '' ? [] : [{ type: 'text' as const, content: message.content }]),
        ...(message.toolCalls ?? []).map(({ id, name, arguments: given }) => ({
          type: 'tool_call' as const,
          id,
          name,
          arguments: given,
        })),
      ];
    case 'tool':
      return [{ type: 'tool_call_response', id: message.toolCallId, response: textOf(message.content) }];
    default:
      return [{ type: 'text', content: textOf(message.content) }];
  }
}

/** An image is named by its hash; its bytes are in the run directory. */
function textOf(content: Content): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : `[image ${part.image.blob}]`)).join('');
}
