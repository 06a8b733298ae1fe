/** Anthropic's Messages: `POST /v1/messages`. */
import type { ContentPart, Message, ToolCall, ToolSchema } from '../../types.ts';
import { readContent } from './content.ts';
import { type Asked, type Dialect, event, type GivenReply, type ReadContext } from './dialect.ts';
import type { Fields } from './fields.ts';
import { MessageBlocks } from './message-blocks.ts';
import { plainText, readShape, readStops, toolSchema } from './shared.ts';

export const messages: Dialect = {
  idPrefix: 'msg_',

  async read(body, context): Promise<Asked> {
    const given = body.object('tool_choice');
    const choice = given?.text('type');
    const ignored: string[] = [];
    const tools = readTools(body, ignored);
    const failedCalls = new Set<string>();
    const asked = {
      messages: [...readSystem(body), ...(await readMessages(body, failedCalls, context))],
      tools: choice === 'none' ? [] : tools,
      neededCall: choice === 'any' || (choice === 'tool' && (given?.text('name') ?? true)),
      onlyOneCall: given?.flag('disable_parallel_tool_use') ?? false,
      failedCalls,
      shape: readShape(body),
      maxTokens: body.number('max_tokens'),
      stopStrings: readStops(body.get('stop_sequences')),
      count: 1,
      stream: body.flag('stream'),
      logprobs: false,
      model: body.text('model') ?? 'policy',
    };
    return { ...asked, ignored: [...ignored, ...body.unread] };
  },

  write: (id, [reply], { model }) => {
    const blocks = new MessageBlocks();
    blocks.whole(reply!);
    return { ...head(id, model), content: blocks.done, ...ending(reply!), usage: usageOf(reply!) };
  },

  events(id, { model }) {
    const blocks = new MessageBlocks();
    const tell = (data: { readonly type: string }) => event(data, data.type);
    return {
      begin: () =>
        tell({
          type: 'message_start',
          ...{
            message: { ...head(id, model), content: [], stop_reason: null, stop_sequence: null, usage: NONE },
          },
        }),
      part: (_, part) => blocks.part(part).map(tell).join(''),
      end: ([reply]) =>
        blocks.end().map(tell).join('') +
        tell({ type: 'message_delta', ...{ delta: ending(reply!), usage: usageOf(reply!) } }) +
        tell({ type: 'message_stop' }),
    };
  },

  error: (status, code, message) => ({
    type: 'error',
    error: { type: ERROR_TYPES[status] ?? code, message },
  }),
};

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  500: 'api_error',
};

const head = (id: string, model: string) => ({ id, type: 'message', role: 'assistant', model });

const STOPS = { stop: 'end_turn', length: 'max_tokens', calls: 'tool_use' } as const;

const ending = ({ finish }: GivenReply) => ({ stop_reason: STOPS[finish], stop_sequence: null });

const usageOf = ({ promptTokens, replyTokens }: GivenReply) => ({
  input_tokens: promptTokens,
  output_tokens: replyTokens,
});

/** How long the prompt is, the last event says. */
const NONE = { input_tokens: 0, output_tokens: 0 };

function readSystem(body: Fields): Message[] {
  const system = body.get('system');
  if (system === undefined) return [];
  if (typeof system === 'string') return [{ role: 'system', content: system }];
  const blocks = body.objects('system').map((block) => block.text('text') ?? '');
  return blocks.length === 0 ? [] : [{ role: 'system', content: blocks.join('\n\n') }];
}

/** Tools with a type of their own are run by Anthropic. */
function readTools(body: Fields, ignored: string[]): ToolSchema[] {
  return body.objects('tools').flatMap((tool) => {
    const type = tool.text('type') ?? 'custom';
    if (type === 'custom') {
      return [
        toolSchema(tool.need('name', tool.text('name')), tool.text('description'), tool.get('input_schema')),
      ];
    }
    ignored.push(`tools.${type}`);
    return [];
  });
}

async function readMessages(body: Fields, failed: Set<string>, context: ReadContext): Promise<Message[]> {
  body.need('messages', body.list('messages'));
  const names = new Map<string, string>();
  const read: Message[] = [];
  for (const [at, message] of body.objects('messages').entries()) {
    const path = `messages.${at}.content`;
    const content = message.get('content');
    const blocks = typeof content === 'string' ? undefined : message.objects('content');
    switch (message.text('role')) {
      case 'assistant':
        read.push(blocks ? readReply(blocks, names) : { role: 'assistant', content: content as string });
        break;
      case 'user':
        if (blocks) read.push(...(await readAnswers(blocks, { path, names, failed, context })));
        else read.push({ role: 'user', content: content as string });
        break;
      case 'system':
        read.push({ role: 'system', content: await readContent(content, path, context) });
        break;
      default:
        message.refuse('role', 'use user or assistant');
    }
  }
  return read;
}

function readReply(blocks: readonly Fields[], names: Map<string, string>): Message {
  let [content, reasoning] = ['', ''];
  const toolCalls: ToolCall[] = [];
  for (const block of blocks) {
    switch (block.text('type')) {
      case 'text':
        content += block.text('text') ?? '';
        break;
      case 'thinking':
        reasoning += block.text('thinking') ?? '';
        break;
      case 'redacted_thinking':
        break;
      case 'tool_use': {
        const [id, name] = [block.need('id', block.text('id')), block.need('name', block.text('name'))];
        names.set(id, name);
        toolCalls.push({ id, name, arguments: (block.get('input') ?? {}) as ToolCall['arguments'] });
        break;
      }
      default:
        block.refuse('type', 'use text, thinking or tool_use');
    }
  }
  return {
    role: 'assistant',
    content,
    ...(reasoning === '' ? {} : { reasoning }),
    ...(toolCalls.length === 0 ? {} : { toolCalls }),
  };
}

interface Answers {
  readonly path: string;
  readonly names: ReadonlyMap<string, string>;
  readonly failed: Set<string>;
  readonly context: ReadContext;
}

/** Results of tools are messages of their own here; what the user says beside them is one more. */
async function readAnswers(
  blocks: readonly Fields[],
  { path, names, failed, context }: Answers,
): Promise<Message[]> {
  const results: Message[] = [];
  const said: ContentPart[] = [];
  for (const [at, block] of blocks.entries()) {
    if (block.text('type') === 'tool_result') {
      const toolCallId = block.need('tool_use_id', block.text('tool_use_id'));
      const content = await readContent(block.get('content'), `${path}.${at}.content`, context);
      if (block.flag('is_error')) failed.add(toolCallId);
      results.push({ role: 'tool', toolCallId, content, name: names.get(toolCallId) ?? 'tool' });
    } else {
      const content = await readContent([block.value], `${path}.${at}`, context);
      said.push(...(typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content));
    }
  }
  if (said.length === 0) return results;
  const isText = said.every(({ type }) => type === 'text');
  return [...results, { role: 'user', content: isText ? plainText(said) : said }];
}
