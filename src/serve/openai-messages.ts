/** Messages and tools in OpenAI's form, read into ours. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Message, ToolCall, ToolSchema } from '../types.ts';
import { BadRequest } from './bad-request.ts';

const CONTENT = z.union([z.string(), z.array(z.strictObject({ type: z.literal('text'), text: z.string() }))]);

export const MESSAGE = z.discriminatedUnion('role', [
  z.object({ role: z.literal('system'), content: CONTENT }),
  z.object({ role: z.literal('developer'), content: CONTENT }),
  z.object({ role: z.literal('user'), content: CONTENT }),
  z.object({
    role: z.literal('assistant'),
    content: CONTENT.nullable().optional(),
    reasoning_content: z.string().nullable().optional(),
    tool_calls: z
      .array(
        z.object({
          id: z.string(),
          type: z.literal('function').default('function'),
          function: z.object({ name: z.string(), arguments: z.string() }),
        }),
      )
      .optional(),
  }),
  z.object({ role: z.literal('tool'), content: CONTENT, tool_call_id: z.string() }),
]);

export const TOOL = z.object({
  type: z.literal('function'),
  function: z.object({
    name: z.string(),
    description: z.string().default(''),
    parameters: z.record(z.string(), z.unknown()).default({ type: 'object', properties: {} }),
    strict: z.boolean().nullable().optional(),
  }),
});

const textOf = (content: z.infer<typeof CONTENT> | null | undefined) =>
  typeof content === 'string' ? content : (content ?? []).map(({ text }) => text).join('');

export function readMessages(given: readonly z.infer<typeof MESSAGE>[]): Message[] {
  const names = new Map<string, string>();
  return given.map((message): Message => {
    switch (message.role) {
      case 'system':
      case 'developer':
        return { role: 'system', content: textOf(message.content) };
      case 'user':
        return { role: 'user', content: textOf(message.content) };
      case 'tool': {
        const name = names.get(message.tool_call_id);
        if (name === undefined) throw new BadRequest(`no call has the id ${message.tool_call_id}`);
        return { role: 'tool', content: textOf(message.content), toolCallId: message.tool_call_id, name };
      }
      case 'assistant': {
        const toolCalls = (message.tool_calls ?? []).map((call): ToolCall => {
          names.set(call.id, call.function.name);
          return { id: call.id, name: call.function.name, arguments: argumentsOf(call.function.arguments) };
        });
        return {
          role: 'assistant',
          content: textOf(message.content),
          ...(message.reasoning_content ? { reasoning: message.reasoning_content } : {}),
          ...(toolCalls.length > 0 ? { toolCalls } : {}),
        };
      }
      default:
        throw new BadRequest(`role ${JSON.stringify(message)} is unknown`);
    }
  });
}

function argumentsOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = text === '' ? {} : JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>;
    }
  } catch {
    // told below
  }
  throw new BadRequest(`arguments of a call are ${JSON.stringify(text)}; a JSON object is needed`);
}

export function readTools(given: readonly z.infer<typeof TOOL>[]): ToolSchema[] {
  return given.map(({ type, function: { strict, ...tool } }) => ({
    type,
    function: { ...tool, ...(strict == null ? {} : { strict }) },
  }));
}

export function writeToolCalls(calls: readonly ToolCall[], from = 0) {
  return calls.map((call, at) => ({
    index: from + at,
    // Clients take ids for unique in the whole dialogue, of which this server sees one reply.
    id: `call_${randomUUID().replaceAll('-', '')}`,
    type: 'function',
    function: { name: call.name, arguments: JSON.stringify(call.arguments) },
  }));
}
