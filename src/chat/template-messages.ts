import { ConfigError } from '../errors.ts';
import type { Content, ImageRef, Message, ToolCall, ToolSchema } from '../types.ts';
import { pythonJson, type RenderTemplate, type TemplateMessage, TemplateRefusal } from './template.ts';

/** The form in which a template takes values that Python programs may pass in several forms. */
export interface TemplateShape {
  readonly callArguments: 'object' | 'string';
  /** Content of an assistant message that only calls. */
  readonly noContent: '' | null;
  readonly system: boolean;
  readonly callIds: 'any' | 'nine';
  /** Whether it writes calls at all; some leave them to the content of a message. */
  readonly writesCalls: boolean;
}

/** Calls as text of a message. */
export type WriteCalls = (calls: readonly ToolCall[]) => string;

/** Guards the text of one message; the identity where the dataset is trusted. */
export type Guard = (text: string) => string;

export function templateMessage(
  message: Message,
  shape: TemplateShape,
  guard: Guard,
  write?: WriteCalls,
): TemplateMessage {
  switch (message.role) {
    case 'system':
    case 'user':
      return { role: message.role, content: templateContent(message.content, guard) };
    case 'tool':
      return {
        role: 'tool',
        content: templateContent(message.content, guard),
        tool_call_id: callId(message.toolCallId, shape),
        name: guard(message.name),
      };
    case 'assistant': {
      const made = message.toolCalls ?? [];
      const calls = write ? [] : made;
      const content =
        guard(message.content) + (write && made.length > 0 ? write(guardedCalls(made, guard)) : '');
      return {
        role: 'assistant',
        content: content === '' && calls.length > 0 ? shape.noContent : content,
        ...(message.reasoning && { reasoning_content: guard(message.reasoning) }),
        // gpt-oss refuses it beside words and a call.
        ...(message.reasoning &&
          (content === '' || calls.length === 0) && { thinking: guard(message.reasoning) }),
        ...(calls.length > 0 && {
          tool_calls: calls.map((call) => ({
            id: callId(call.id, shape),
            type: 'function',
            function: { name: guard(call.name), arguments: callArguments(call.arguments, shape, guard) },
          })),
        }),
      };
    }
  }
}

const guardedCalls = (calls: readonly ToolCall[], guard: Guard): ToolCall[] =>
  calls.map((call) => ({
    ...call,
    name: guard(call.name),
    arguments: guardAll(call.arguments, guard) as ToolCall['arguments'],
  }));

export function templateTools(tools: readonly ToolSchema[], guard: Guard): unknown[] {
  return tools.map((tool) => guardAll(tool, guard));
}

/** Images in the order in which their placeholders will stand. */
export function imagesOf(messages: readonly Message[]): ImageRef[] {
  return messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((part) => (part.type === 'image' ? [part.image] : [])),
  );
}

function templateContent(content: Content, guard: Guard): TemplateMessage['content'] {
  if (typeof content === 'string') return guard(content);
  if (content.every((part) => part.type === 'text')) {
    return guard(content.map((part) => (part.type === 'text' ? part.text : '')).join(''));
  }
  return content.map((part) =>
    part.type === 'text' ? { type: 'text', text: guard(part.text) } : { type: 'image' },
  );
}

function callArguments(
  given: Readonly<Record<string, unknown>>,
  shape: TemplateShape,
  guard: Guard,
): unknown {
  const guarded = guardAll(given, guard);
  return shape.callArguments === 'object' ? guarded : pythonJson(guarded);
}

/** Mistral's templates demand ids of nine letters and digits. */
function callId(id: string, { callIds }: TemplateShape): string {
  if (callIds === 'any' || /^[a-zA-Z0-9]{9}$/.test(id)) return id;
  return id
    .replace(/[^a-zA-Z0-9]/g, '')
    .slice(-9)
    .padStart(9, '0');
}

function guardAll(value: unknown, guard: Guard): unknown {
  if (typeof value === 'string') return guard(value);
  if (Array.isArray(value)) return value.map((item) => guardAll(item, guard));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [guard(key), guardAll(item, guard)]));
}

/** Finds, by trying, which form of messages the template takes. */
export function probeShape(render: RenderTemplate): TemplateShape {
  const system = accepts(render, [{ role: 'system', content: 'S' }, USER]);
  if (!system && !accepts(render, [USER])) {
    const refusal = refusalOf(render, [USER]);
    throw new ConfigError(`the chat template does not take a single user message: ${refusal}`);
  }
  const callIds = 'any';
  for (const nine of [callIds, 'nine'] as const) {
    for (const noContent of ['', null] as const) {
      for (const callArguments of ['object', 'string'] as const) {
        const shape: TemplateShape = { system, callArguments, noContent, callIds: nine, writesCalls: true };
        if (writesCalls(render, shape)) return shape;
      }
    }
  }
  return { system, callArguments: 'object', noContent: '', callIds, writesCalls: false };
}

const USER: TemplateMessage = { role: 'user', content: 'U' };

function writesCalls(render: RenderTemplate, shape: TemplateShape): boolean {
  const call = { id: 'call_0', name: 'probe_tool', arguments: { probe_key: 'probe value' } };
  const message = templateMessage(
    { role: 'assistant', content: '', toolCalls: [call] },
    shape,
    (text) => text,
  );
  const answer = { role: 'tool', content: 'T', tool_call_id: callId('call_0', shape), name: 'probe_tool' };
  try {
    const text = render({ messages: [USER, message, answer], tools: [], addGenerationPrompt: false });
    return /probe_tool.*probe_key[^a-z\\]{1,16}.{0,16}probe value/s.test(text);
  } catch (error) {
    if (error instanceof TemplateRefusal) return false;
    throw error;
  }
}

function accepts(render: RenderTemplate, messages: readonly TemplateMessage[]): boolean {
  return refusalOf(render, messages) === undefined;
}

function refusalOf(render: RenderTemplate, messages: readonly TemplateMessage[]): string | undefined {
  try {
    render({ messages, tools: [], addGenerationPrompt: true });
    return undefined;
  } catch (error) {
    if (error instanceof TemplateRefusal) return error.message;
    throw error;
  }
}
