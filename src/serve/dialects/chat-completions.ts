/** OpenAI's Chat Completions: `POST /v1/chat/completions`. */
import type { Message, ToolCall, ToolSchema } from '../../types.ts';
import { readContent } from './content.ts';
import type { Asked, Dialect, GivenReply, ReadContext } from './dialect.ts';
import type { Fields } from './fields.ts';

export const chatCompletions: Dialect = {
  idPrefix: 'chatcmpl-',

  async read(body, context): Promise<Asked> {
    const choice = body.get('tool_choice');
    const maxTokens = body.number('max_tokens');
    const tools = readTools(body);
    const format = body.object('response_format');
    const ignored: string[] = [];
    if (choice !== undefined && choice !== 'auto' && choice !== 'none') ignored.push('tool_choice');
    if (format && format.text('type') !== 'text') ignored.push('response_format');
    const asked = {
      messages: await readMessages(body, context),
      tools: choice === 'none' ? [] : tools,
      failedCalls: new Set<string>(),
      shape: readShape(body),
      maxTokens: body.number('max_completion_tokens') ?? maxTokens,
      stopStrings: readStops(body.get('stop')),
      count: body.number('n') ?? 1,
      stream: body.flag('stream'),
      logprobs: body.flag('logprobs'),
      model: body.text('model') ?? 'policy',
    };
    return { ...asked, ignored: [...ignored, ...body.unread] };
  },

  write: (replies, asked) => ({
    id: replies[0]!.id,
    object: 'chat.completion',
    created: seconds(),
    model: asked.model,
    choices: replies.map((reply, index) => ({
      index,
      message: messageOf(reply),
      finish_reason: FINISH[reply.finish],
      logprobs: reply.tokens ? { content: reply.tokens.map(tokenOf), refusal: null } : null,
    })),
    usage: usageOf(replies),
  }),

  error: (status, code, message) => ({
    error: { message, type: ERROR_TYPES[status] ?? 'server_error', param: null, code },
  }),
};

const FINISH = { stop: 'stop', length: 'length', calls: 'tool_calls' } as const;

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  404: 'invalid_request_error',
  409: 'conflict_error',
  413: 'invalid_request_error',
  429: 'rate_limit_error',
};

export const seconds = () => Math.floor(Date.now() / 1000);

function messageOf({ content, reasoning, calls }: GivenReply) {
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    refusal: null,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map(({ id, name, arguments: text }) => ({
            id,
            type: 'function',
            function: { name, arguments: text },
          })),
        }),
  };
}

const tokenOf = ({ text, logprob }: { readonly text: string; readonly logprob: number }) => ({
  token: text,
  logprob,
  bytes: [...Buffer.from(text)],
  top_logprobs: [],
});

function usageOf(replies: readonly GivenReply[]) {
  const prompt = replies[0]!.promptTokens;
  const completion = replies.reduce((sum, { replyTokens }) => sum + replyTokens, 0);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

async function readMessages(body: Fields, context: ReadContext): Promise<Message[]> {
  body.need('messages', body.list('messages'));
  const names = new Map<string, string>();
  const messages: Message[] = [];
  for (const [at, message] of body.objects('messages').entries()) {
    const content = await readContent(message.get('content'), `messages.${at}.content`, context);
    switch (message.text('role')) {
      case 'system':
      case 'developer':
        messages.push({ role: 'system', content });
        break;
      case 'user':
        messages.push({ role: 'user', content });
        break;
      case 'tool': {
        const toolCallId = message.need('tool_call_id', message.text('tool_call_id'));
        messages.push({ role: 'tool', content, toolCallId, name: names.get(toolCallId) ?? 'tool' });
        break;
      }
      case 'assistant':
        messages.push(readReply(message, content, names));
        break;
      default:
        message.refuse('role', 'use system, developer, user, assistant or tool');
    }
  }
  return messages;
}

function readReply(message: Fields, content: Message['content'], names: Map<string, string>): Message {
  const reasoning = message.text('reasoning_content') ?? message.text('reasoning');
  const toolCalls = message.objects('tool_calls').map((call): ToolCall => {
    const id = call.need('id', call.text('id'));
    const called = call.need('function', call.object('function'));
    const name = called.need('name', called.text('name'));
    names.set(id, name);
    return { id, name, arguments: argumentsOf(called.text('arguments') ?? '') };
  });
  return {
    role: 'assistant',
    content: plainText(content),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(toolCalls.length === 0 ? {} : { toolCalls }),
  };
}

/** A reply has no images. */
export function plainText(content: Message['content']): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** The arguments of a call in a history. Text that is no JSON object is kept as text: the history is only shown to the model. */
export function argumentsOf(text: string): ToolCall['arguments'] {
  try {
    const value: unknown = text === '' ? {} : JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>;
    }
  } catch {
    // below
  }
  return { text };
}

function readTools(body: Fields): ToolSchema[] {
  return body.objects('tools').map((tool) => {
    if (tool.text('type') !== 'function') tool.refuse('type', 'use "function"');
    const given = tool.need('function', tool.object('function'));
    return toolSchema(
      given.need('name', given.text('name')),
      given.text('description'),
      given.get('parameters'),
      given.get('strict'),
    );
  });
}

/** `$schema` names a language, and tells the model nothing. */
export function toolSchema(
  name: string,
  description = '',
  schema: unknown = undefined,
  strict: unknown = undefined,
): ToolSchema {
  const { $schema: _, ...parameters } = (schema ?? { type: 'object', properties: {} }) as Record<
    string,
    unknown
  >;
  return {
    type: 'function',
    function: { name, description, parameters, ...(typeof strict === 'boolean' ? { strict } : {}) },
  };
}

export function readShape(body: Fields): Asked['shape'] {
  return {
    temperature: body.number('temperature'),
    topP: body.number('top_p'),
    topK: body.number('top_k'),
    minP: body.number('min_p'),
    presencePenalty: body.number('presence_penalty'),
    frequencyPenalty: body.number('frequency_penalty'),
    repetitionPenalty: body.number('repetition_penalty'),
  };
}

export function readStops(stop: unknown): readonly string[] | undefined {
  if (stop === undefined) return undefined;
  return [stop].flat().filter((text): text is string => typeof text === 'string' && text !== '');
}
