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
  const doGenerate = async (options: LanguageModelV3CallOptions): Promise<LanguageModelV3GenerateResult> => {
    refuseUnsupported(options);
    const reply = await chats.reply({
      messages: options.prompt.flatMap(readMessage),
      toolSchemas: options.toolChoice?.type === 'none' ? [] : (options.tools ?? []).map(schemaOf),
      sampling: { ...sampling, ...samplingOf(options), signal: options.abortSignal },
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
    doGenerate,
    doStream: async (options) => ({ stream: streamOf(await doGenerate(options)) }),
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

/** The whole reply at once: training needs complete replies, and nobody watches them being typed. */
function streamOf(result: LanguageModelV3GenerateResult): ReadableStream<LanguageModelV3StreamPart> {
  const { content, finishReason, usage, providerMetadata, warnings } = result;
  const parts: LanguageModelV3StreamPart[] = [{ type: 'stream-start', warnings }];
  content.forEach((part, index) => {
    const id = String(index);
    if (part.type === 'text' || part.type === 'reasoning') {
      parts.push({ type: `${part.type}-start`, id }, { type: `${part.type}-delta`, id, delta: part.text });
      parts.push({ type: `${part.type}-end`, id });
    } else parts.push(part);
  });
  parts.push({ type: 'finish', finishReason, usage, ...(providerMetadata ? { providerMetadata } : {}) });
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}
