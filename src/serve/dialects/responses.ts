/** OpenAI's Responses: `POST /v1/responses`. A response may continue an earlier one by its id. */
import type { Message, ToolCall, ToolSchema } from '../../types.ts';
import { readContent } from './content.ts';
import {
  type Asked,
  type Dialect,
  event,
  type GivenReply,
  type ReadContext,
  secondsNow,
  type WantedSchema,
} from './dialect.ts';
import type { Fields } from './fields.ts';
import { type Item, ResponseItems } from './response-items.ts';
import { argumentsOf, openaiError, plainText, readShape, readToolChoice, toolSchema } from './shared.ts';

export const responses: Dialect = {
  idPrefix: 'resp_',

  async read(body, context): Promise<Asked> {
    const instructions = body.text('instructions');
    const previous = body.text('previous_response_id');
    const { isNone, neededCall } = readToolChoice(body);
    const ignored: string[] = [];
    const tools = readTools(body, ignored);
    const asked = {
      messages: [
        ...(instructions === undefined ? [] : [{ role: 'system' as const, content: instructions }]),
        ...(previous === undefined ? [] : context.previous(previous)),
        ...(await readInput(body, context)),
      ],
      instructions: instructions === undefined ? 0 : 1,
      tools: isNone ? [] : tools,
      neededCall,
      onlyOneCall: body.get('parallel_tool_calls') === false,
      failedCalls: new Set<string>(),
      shape: readShape(body),
      maxTokens: body.number('max_output_tokens'),
      schema: schemaOf(body),
      count: 1,
      stream: body.flag('stream'),
      logprobs: false,
      model: body.text('model') ?? 'policy',
    };
    return { ...asked, ignored: [...ignored, ...body.unread] };
  },

  write: (id, [reply], asked) => {
    const items = new ResponseItems(id);
    items.whole(reply!);
    return response(id, asked, items.done, reply);
  },

  events(id, asked) {
    let sequence = 0;
    const tell = (data: { readonly type: string; readonly [field: string]: unknown }) =>
      event({ ...data, sequence_number: sequence++ }, data.type);
    const items = new ResponseItems(id);
    const begun = () => response(id, asked, []);
    return {
      begin: () =>
        tell({ type: 'response.created', response: begun() }) +
        tell({ type: 'response.in_progress', response: begun() }),
      part: (_, part) => items.part(part).map(tell).join(''),
      end: ([reply]) => {
        const closing = items.end().map(tell).join('');
        const whole = response(id, asked, items.done, reply);
        return closing + tell({ type: `response.${whole.status}`, response: whole });
      },
    };
  },

  error: openaiError,
};

function response(
  id: string,
  { model, tools, onlyOneCall }: Asked,
  output: readonly Item[],
  reply?: GivenReply,
) {
  const isCut = reply?.finish === 'length';
  return {
    id,
    object: 'response',
    created_at: secondsNow(),
    status: reply === undefined ? 'in_progress' : isCut ? 'incomplete' : 'completed',
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    error: null,
    model,
    output,
    tools: tools.map((tool) => ({
      type: 'function',
      ...tool.function,
      strict: tool.function.strict ?? false,
    })),
    tool_choice: 'auto',
    parallel_tool_calls: !onlyOneCall,
    instructions: null,
    metadata: {},
    usage: reply
      ? {
          input_tokens: reply.promptTokens,
          input_tokens_details: { cached_tokens: 0 },
          output_tokens: reply.replyTokens,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: reply.promptTokens + reply.replyTokens,
        }
      : null,
  };
}

/** Only functions can be called; other tools are run by OpenAI. */
function readTools(body: Fields, ignored: string[]): ToolSchema[] {
  return body.objects('tools').flatMap((tool) => {
    const type = tool.need('type', tool.text('type'));
    if (type === 'function') {
      const name = tool.need('name', tool.text('name'));
      return [toolSchema(name, tool.text('description'), tool.get('parameters'), tool.get('strict'))];
    }
    ignored.push(`tools.${type}`);
    return [];
  });
}

async function readInput(body: Fields, context: ReadContext): Promise<Message[]> {
  const input = body.need('input', body.get('input'));
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  const names = new Map<string, string>();
  const messages: Message[] = [];
  for (const [at, item] of body.objects('input').entries()) {
    const path = `input.${at}`;
    switch (item.text('type') ?? 'message') {
      case 'message':
        messages.push(await readMessage(item, path, context));
        break;
      case 'function_call': {
        const id = item.need('call_id', item.text('call_id'));
        const name = item.need('name', item.text('name'));
        names.set(id, name);
        messages.push(
          replyOf({ toolCalls: [{ id, name, arguments: argumentsOf(item.text('arguments') ?? '') }] }),
        );
        break;
      }
      case 'function_call_output': {
        const toolCallId = item.need('call_id', item.text('call_id'));
        const content = await readContent(item.get('output'), `${path}.output`, context);
        messages.push({
          role: 'tool',
          toolCallId,
          content,
          name: names.get(toolCallId) ?? nameIn(messages, toolCallId),
        });
        break;
      }
      case 'reasoning':
        messages.push(replyOf({ reasoning: reasoningOf(item) }));
        break;
      default:
        item.refuse('type', 'use message, function_call, function_call_output or reasoning');
    }
  }
  return merged(messages);
}

/** The call may be in the response that this one continues. */
const nameIn = (messages: readonly Message[], id: string) =>
  messages
    .flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []))
    .find((call) => call.id === id)?.name ?? 'tool';

async function readMessage(item: Fields, path: string, context: ReadContext): Promise<Message> {
  const content = await readContent(item.get('content'), `${path}.content`, context);
  switch (item.text('role')) {
    case 'system':
    case 'developer':
      return { role: 'system', content };
    case 'user':
      return { role: 'user', content };
    case 'assistant':
      return replyOf({ content: plainText(content) });
    default:
      return item.refuse('role', 'use system, developer, user or assistant');
  }
}

function reasoningOf(item: Fields): string {
  const parts = [...item.objects('content'), ...item.objects('summary')];
  return parts.map((part) => part.text('text') ?? '').join('');
}

type AssistantMessage = Extract<Message, { role: 'assistant' }>;

const replyOf = (parts: Partial<AssistantMessage>): AssistantMessage => ({
  role: 'assistant',
  content: '',
  ...parts,
});

/** Reasoning, words and calls of one reply are items of their own; together they are one message. */
function merged(messages: readonly Message[]): Message[] {
  const result: Message[] = [];
  for (const message of messages) {
    const last = result.at(-1);
    if (message.role !== 'assistant' || last?.role !== 'assistant') result.push(message);
    else {
      const toolCalls: readonly ToolCall[] = [...(last.toolCalls ?? []), ...(message.toolCalls ?? [])];
      const reasoning = (last.reasoning ?? '') + (message.reasoning ?? '');
      result[result.length - 1] = {
        role: 'assistant',
        content: last.content + message.content,
        ...(reasoning === '' ? {} : { reasoning }),
        ...(toolCalls.length === 0 ? {} : { toolCalls }),
      };
    }
  }
  return result;
}

function schemaOf(body: Fields): WantedSchema | undefined {
  const format = body.object('text')?.object('format');
  const type = format?.text('type');
  if (type === undefined || type === 'text') return undefined;
  return {
    field: 'text.format',
    schema: (format?.get('schema') ?? { type: 'object' }) as WantedSchema['schema'],
  };
}
