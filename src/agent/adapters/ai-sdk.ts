/**
 * `rollcall/ai-sdk`: the policy as a language model of the AI SDK (specification v3), so that an agent written with
 * `generateText`, `streamText`, `ToolLoopAgent` or what builds on them is trained as it is.
 */
import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3GenerateResult,
  LanguageModelV3Prompt,
  LanguageModelV3StreamPart,
  LanguageModelV3ToolResultOutput,
} from '@ai-sdk/provider';
import type { ChatReply } from '../../chat/chat.ts';
import type { ReplyPart } from '../../chat/reply-parts.ts';
import type { SampleOptions } from '../../chat/reply-sampler.ts';
import { ConfigError } from '../../errors.ts';
import type { Message, ToolCall, ToolSchema } from '../../types.ts';
import type { Model } from '../agent.ts';
import { replyMark } from './reply-of.ts';
import { nameIn, problemId, servedChats } from './served-chats.ts';

/** Options of the policy as a language model of the AI SDK. */
export interface LanguageModelOptions {
  /** Sampling options of every reply, unless a call gives others. */
  readonly sampling?: SampleOptions;
}

/** `context.model` of an agent as a language model of the AI SDK. */
export function languageModel(model: Model, { sampling = {} }: LanguageModelOptions = {}): LanguageModelV3 {
  const chats = servedChats(model);
  const ask = async (
    options: LanguageModelV3CallOptions,
    onDelta?: (part: ReplyPart) => void,
  ): Promise<LanguageModelV3GenerateResult> => {
    refuseUnsupported(options);
    const reply = await chats.reply({
      messages: options.prompt.flatMap(readMessage),
      toolSchemas: options.toolChoice?.type === 'none' ? [] : (options.tools ?? []).map(schemaOf),
      sampling: { ...sampling, ...samplingOf(options), signal: options.abortSignal, onDelta },
      failedCalls: failedCallsOf(options.prompt),
    });
    return {
      content: contentOf(reply),
      finishReason: {
        unified: reply.finish === 'length' ? 'length' : reply.final ? 'stop' : 'tool-calls',
        raw: reply.finish,
      },
      usage: usageOf(reply),
      providerMetadata: replyMark(reply),
      warnings:
        options.seed === undefined
          ? []
          : [{ type: 'unsupported', feature: 'seed', details: 'the seed follows from the run' }],
    };
  };
  return {
    specificationVersion: 'v3',
    provider: 'rollcall',
    modelId: 'policy',
    supportedUrls: {},
    doGenerate: (options) => ask(options),
    doStream: async (options) => ({ stream: await streamOf((onDelta) => ask(options, onDelta)) }),
  };
}

function refuseUnsupported({ toolChoice, responseFormat }: LanguageModelV3CallOptions): void {
  if (toolChoice?.type === 'required' || toolChoice?.type === 'tool') {
    throw new ConfigError(
      `toolChoice is ${JSON.stringify(toolChoice)}; the policy must choose freely, so use auto or none`,
    );
  }
  if (responseFormat?.type === 'json') {
    throw new ConfigError('the policy answers in free text; leave out responseFormat, output and schema');
  }
}

function schemaOf(tool: NonNullable<LanguageModelV3CallOptions['tools']>[number]): ToolSchema {
  if (tool.type !== 'function') {
    throw new ConfigError(`tool '${tool.name}' is run by its provider; give the policy function tools`);
  }
  const { $schema: _, ...parameters } = tool.inputSchema;
  return {
    type: 'function',
    function: { name: tool.name, description: tool.description ?? '', parameters },
  };
}

function samplingOf(options: LanguageModelV3CallOptions): SampleOptions {
  const { maxOutputTokens, temperature, topP, topK, presencePenalty, frequencyPenalty, stopSequences } =
    options;
  const given = {
    maxTokens: maxOutputTokens,
    temperature,
    topP,
    topK,
    presencePenalty,
    frequencyPenalty,
    stopStrings: stopSequences,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

type PromptMessage = LanguageModelV3Prompt[number];

function readMessage(message: PromptMessage): Message[] {
  switch (message.role) {
    case 'system':
      return [{ role: 'system', content: message.content }];
    case 'user':
      return [{ role: 'user', content: message.content.map(textOf).join('') }];
    case 'assistant':
      return [readReply(message.content)];
    case 'tool':
      return message.content.flatMap((part): Message[] => {
        if (part.type !== 'tool-result') return []; // an approval: its result is beside it
        const { toolCallId, toolName, output } = part;
        return [{ role: 'tool', toolCallId, name: toolName, content: outputText(output) }];
      });
  }
}

function readReply(parts: Extract<PromptMessage, { role: 'assistant' }>['content']): Message {
  let [content, reasoning] = ['', ''];
  const toolCalls: ToolCall[] = [];
  for (const part of parts) {
    if (part.type === 'reasoning') reasoning += part.text;
    else if (part.type !== 'tool-call') content += textOf(part);
    else if (!part.toolCallId.startsWith('problem_')) {
      const { toolCallId: id, toolName: name, input } = part;
      toolCalls.push({ id, name, arguments: input as ToolCall['arguments'] });
    }
  }
  return {
    role: 'assistant',
    content,
    ...(reasoning === '' ? {} : { reasoning }),
    ...(toolCalls.length === 0 ? {} : { toolCalls }),
  };
}

function textOf(part: { readonly type: string; readonly text?: unknown }): string {
  if (part.type === 'text' && typeof part.text === 'string') return part.text;
  throw new ConfigError(`a message has a part of type '${part.type}'; this adapter reads text only`);
}

function outputText(output: LanguageModelV3ToolResultOutput): string {
  switch (output.type) {
    case 'text':
    case 'error-text':
      return output.value;
    case 'json':
    case 'error-json':
      return JSON.stringify(output.value);
    case 'execution-denied':
      return output.reason ?? 'The call was denied.';
    case 'content':
      return output.value.map(textOf).join('');
  }
}

function failedCallsOf(prompt: LanguageModelV3Prompt): ReadonlySet<string> {
  const results = prompt.flatMap((message) => (message.role === 'tool' ? message.content : []));
  return new Set(
    results.flatMap((part) =>
      part.type === 'tool-result' && part.output.type.startsWith('error-') ? part.toolCallId : [],
    ),
  );
}

/** A call that could not be read is a call whose input does not parse: the SDK answers it with an error. */
function contentOf(reply: ChatReply): LanguageModelV3Content[] {
  const { content, reasoning, toolCalls, problems } = reply;
  return [
    ...(reasoning === '' ? [] : [{ type: 'reasoning' as const, text: reasoning }]),
    ...(content === '' ? [] : [{ type: 'text' as const, text: content }]),
    ...toolCalls.map(({ id, name, arguments: input }) => ({
      type: 'tool-call' as const,
      toolCallId: id,
      toolName: name,
      input: JSON.stringify(input),
    })),
    ...problems.map((problem, index) => ({
      type: 'tool-call' as const,
      toolCallId: problemId(reply, index),
      toolName: nameIn(problem) ?? 'unreadable',
      input: problem.source,
    })),
  ];
}

function usageOf({ ids, promptTokens }: ChatReply): LanguageModelV3GenerateResult['usage'] {
  return {
    inputTokens: { total: promptTokens, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: ids.length, text: undefined, reasoning: undefined },
  };
}

/** Words, reasoning and input of tools as they are sampled, then the calls. What fails before the first word fails the request. */
async function streamOf(
  ask: (onDelta: (part: ReplyPart) => void) => Promise<LanguageModelV3GenerateResult>,
): Promise<ReadableStream<LanguageModelV3StreamPart>> {
  const { readable, writable } = new TransformStream<LanguageModelV3StreamPart>(undefined, undefined, {
    highWaterMark: Number.POSITIVE_INFINITY,
  });
  const writer = writable.getWriter();
  const write = (part: LanguageModelV3StreamPart) => void writer.write(part).catch(() => {}); // nobody reads it
  const texts = openTexts(write);
  write({ type: 'stream-start', warnings: [] });
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const asked = ask((part) => {
    texts.write('reasoning', part.reasoning);
    texts.write('text', part.content);
    for (const { id, name, isFirst, isLast, arguments: delta } of part.toolCalls) {
      if (isFirst) texts.end();
      if (isFirst) write({ type: 'tool-input-start', id, toolName: name });
      if (delta !== '') write({ type: 'tool-input-delta', id, delta });
      if (isLast) write({ type: 'tool-input-end', id });
    }
    begin();
  });
  await Promise.race([begun, asked]);
  void asked
    .then(({ content, finishReason, usage, providerMetadata }) => {
      texts.end();
      for (const part of content) if (part.type === 'tool-call') write(part);
      write({ type: 'finish', finishReason, usage, ...(providerMetadata ? { providerMetadata } : {}) });
    })
    .catch((error: unknown) => write({ type: 'error', error }))
    .finally(() => writer.close().catch(() => {}));
  return readable;
}

/** Blocks of text and of reasoning, one open at a time. */
function openTexts(write: (part: LanguageModelV3StreamPart) => void) {
  let open: 'text' | 'reasoning' | undefined;
  let blocks = 0;
  const end = () => {
    if (open) write({ type: `${open}-end`, id: String(blocks) });
    open = undefined;
  };
  return {
    end,
    write: (kind: 'text' | 'reasoning', delta: string) => {
      if (delta === '') return;
      if (open !== kind) {
        end();
        open = kind;
        write({ type: `${kind}-start`, id: String(++blocks) });
      }
      write({ type: `${kind}-delta`, id: String(blocks), delta });
    },
  };
}
