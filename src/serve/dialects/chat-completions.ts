/** OpenAI's Chat Completions: `POST /v1/chat/completions`. */
import type { Message, ToolCall, ToolSchema } from '../../types.ts';
import { readContent } from './content.ts';
import {
  type Asked,
  type Dialect,
  event,
  type GivenPart,
  type GivenReply,
  type GivenToken,
  type ReadContext,
  secondsNow,
  type WantedSchema,
} from './dialect.ts';
import type { Fields } from './fields.ts';
import {
  argumentsOf,
  openaiError,
  plainText,
  readShape,
  readStops,
  readToolChoice,
  toolSchema,
} from './shared.ts';

export const chatCompletions: Dialect = {
  idPrefix: 'chatcmpl-',

  async read(body, context): Promise<Asked> {
    const { isNone, neededCall } = readToolChoice(body);
    const tools = readTools(body);
    const asked = {
      messages: await readMessages(body, context),
      tools: isNone ? [] : tools,
      neededCall,
      onlyOneCall: body.get('parallel_tool_calls') === false,
      failedCalls: new Set<string>(),
      shape: readShape(body),
      maxTokens: body.number('max_completion_tokens') ?? body.number('max_tokens'),
      stopStrings: readStops(body.get('stop')),
      schema: schemaOf(body),
      count: body.number('n') ?? 1,
      stream: body.flag('stream'),
      streamUsage: body.object('stream_options')?.flag('include_usage'),
      logprobs: body.flag('logprobs'),
      model: body.text('model') ?? 'policy',
    };
    return { ...asked, ignored: body.unread };
  },

  write: (id, replies, { model }) => ({
    id,
    object: 'chat.completion',
    created: secondsNow(),
    model,
    choices: replies.map((reply, index) => ({
      index,
      message: messageOf(reply),
      finish_reason: FINISH[reply.finish],
      logprobs: logprobsOf(reply.tokens),
      ...idsOf(reply),
    })),
    usage: usageOf(replies),
    ...(replies[0]?.promptIds ? { prompt_token_ids: replies[0].promptIds } : {}),
  }),

  events(id, { model, count, streamUsage }) {
    const head = { id, object: 'chat.completion.chunk', created: secondsNow(), model };
    const chunk = (index: number, delta: object, rest: object = { finish_reason: null }) =>
      event({ ...head, choices: [{ index, delta, ...rest }] });
    return {
      begin: () =>
        Array.from({ length: count }, (_, index) => chunk(index, { role: 'assistant', content: '' })).join(
          '',
        ),
      part: (index, part) => {
        const delta = deltaOf(part);
        const ids = idsOf(part);
        // A token may complete no character yet.
        if (Object.keys({ ...delta, ...ids }).length === 0 && !part.tokens) return '';
        return chunk(index, delta, { finish_reason: null, logprobs: logprobsOf(part.tokens), ...ids });
      },
      end: (replies) => {
        const finish = replies.map((reply, index) =>
          chunk(index, {}, { finish_reason: FINISH[reply.finish] }),
        );
        const usage = streamUsage ? event({ ...head, choices: [], usage: usageOf(replies) }) : '';
        return `${finish.join('')}${usage}data: [DONE]\n\n`;
      },
    };
  },

  error: openaiError,
};

const FINISH = { stop: 'stop', length: 'length', calls: 'tool_calls' } as const;

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

/** The first piece of a call has its id and name. */
function deltaOf({ content, reasoning, toolCalls }: GivenPart) {
  return {
    ...(content === '' ? {} : { content }),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0
      ? {}
      : {
          tool_calls: toolCalls.map(({ index, id, name, arguments: text, isFirst }) => ({
            index,
            ...(isFirst ? { id, type: 'function' } : {}),
            function: { ...(isFirst ? { name } : {}), arguments: text },
          })),
        }),
  };
}

function logprobsOf(tokens: readonly GivenToken[] | undefined) {
  if (!tokens) return null;
  const content = tokens.map(({ text, logprob }) => ({
    token: text,
    logprob,
    bytes: [...Buffer.from(text)],
    top_logprobs: [],
  }));
  return { content, refusal: null };
}

const idsOf = ({ ids }: Pick<GivenReply, 'ids'>) => (ids ? { token_ids: ids } : {});

function usageOf(replies: readonly GivenReply[]) {
  const prompt = replies[0]!.promptTokens;
  const completion = replies.reduce((sum, { replyTokens }) => sum + replyTokens, 0);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: replies[0]!.cachedTokens ?? 0 },
  };
}

function schemaOf(body: Fields): WantedSchema | undefined {
  const format = body.object('response_format');
  const type = format?.text('type');
  if (type === undefined || type === 'text') return undefined;
  const given = format?.object('json_schema')?.get('schema');
  return { field: 'response_format', schema: (given ?? { type: 'object' }) as WantedSchema['schema'] };
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
