/**
 * `rollcall/langchain`: the policy as a chat model of LangChain.js, so that an agent written with LangGraph.js is
 * trained as it is. Its tools run in the graph, or are the run's own; tokens stay with the trajectory.
 */
import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager';
import type { BaseLanguageModelInput } from '@langchain/core/language_models/base';
import {
  BaseChatModel,
  type BaseChatModelCallOptions,
  type BaseChatModelParams,
  type BindToolsInput,
} from '@langchain/core/language_models/chat_models';
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
  isAIMessage,
  isToolMessage,
  type MessageContent,
  ToolMessage,
} from '@langchain/core/messages';
import { ChatGenerationChunk, type ChatResult } from '@langchain/core/outputs';
import type { Runnable } from '@langchain/core/runnables';
import { convertToOpenAITool } from '@langchain/core/utils/function_calling';
import type { ChatReply } from '../../chat/chat.ts';
import type { ReplyPart } from '../../chat/reply-parts.ts';
import type { SampleOptions } from '../../chat/reply-sampler.ts';
import { ConfigError } from '../../errors.ts';
import { pushed } from '../../lib/pushed.ts';
import type { Content, ContentPart, ImageRef, Message, ToolSchema } from '../../types.ts';
import type { Model } from '../agent.ts';
import type { Limits } from '../limits.ts';
import type { Tool } from '../tool.ts';
import { outsideId } from './outside-parts.ts';
import { replyMark, replyOf } from './reply-of.ts';
import { nameIn, problemId, type ServedChats, servedChats } from './served-chats.ts';

/** Options of the policy as a chat model of LangChain. */
export interface ChatModelOptions extends BaseChatModelParams {
  /** Sampling options of every reply; replies at a temperature other than the run's are not trained. */
  readonly sampling?: SampleOptions;
  /**
   * What becomes of a reply whose calls cannot be read at all. `answer`, the default: the model is told at once, as `runTools`
   * does, and the graph gets the reply that follows. `return`: the graph gets it, with `invalid_tool_calls`; most graphs end
   * there.
   */
  readonly unreadableCalls?: 'answer' | 'return';
  /** Tools of the run that are offered with every request, beside those bound; `runTools` runs them. */
  readonly tools?: readonly Tool[];
}

interface CallOptions extends BaseChatModelCallOptions {
  readonly toolSchemas?: readonly ToolSchema[];
}

/** `context.model` of an agent as a LangChain chat model. */
export function chatModel(model: Model, options: ChatModelOptions = {}): PolicyChatModel {
  return new PolicyChatModel(model, options);
}

/** Supersteps that leave room for `turns` turns of model and tools; LangGraph's own 25 would end longer ones. */
export function recursionLimit({ turns }: Pick<Limits, 'turns'>): number {
  return Math.max(50, Math.trunc(turns * 2 * 1.5));
}

/** The policy as a chat model of LangChain; made by `chatModel`. */
export class PolicyChatModel extends BaseChatModel<CallOptions> {
  readonly #chats: ServedChats;
  readonly #sampling: SampleOptions;
  readonly #answersUnreadable: boolean;
  readonly #tools: readonly Tool[];

  constructor(model: Model, options: ChatModelOptions) {
    const { sampling = {}, unreadableCalls = 'answer', tools = [], ...params } = options;
    super(params);
    this.#tools = tools;
    this.#answersUnreadable = unreadableCalls === 'answer';
    this.#chats = servedChats(model);
    this.#sampling = sampling;
  }

  override _llmType(): string {
    return 'rollcall';
  }

  override bindTools(
    tools: BindToolsInput[],
    options: Partial<CallOptions> = {},
  ): Runnable<BaseLanguageModelInput, AIMessageChunk, CallOptions> {
    return this.withConfig({ ...options, toolSchemas: tools.map(schemaOf) });
  }

  /**
   * The answers to a message's calls, run by the tools that `chatModel` was given: within the run's limits, and recorded as
   * `chat.runTools` does.
   */
  async runTools(message: BaseMessage): Promise<ToolMessage[]> {
    const { reply, runs } = await this.#chats.runTools(replyOf(message));
    return [
      ...runs.map(
        ({ call, result, problem }) =>
          new ToolMessage({
            content: result as MessageContent,
            tool_call_id: outsideId(reply.turn, call.id),
            name: call.name,
            status: problem ? 'error' : 'success',
          }),
      ),
      ...reply.problems.map((problem, index) => {
        const id = problemId(reply, index);
        return new ToolMessage({ content: problem.message, tool_call_id: id, status: 'error' });
      }),
    ];
  }

  override async _generate(messages: BaseMessage[], options: this['ParsedCallOptions']): Promise<ChatResult> {
    const reply = await this.#ask(messages, options);
    return {
      generations: [{ text: reply.content, message: withUsage(new AIMessage(fieldsOf(reply)), reply) }],
    };
  }

  /** Words as they are sampled; the last chunk has the calls, and what a whole message has beside its words. */
  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const parts = pushed((onDelta: (part: ReplyPart) => void) => this.#ask(messages, options, onDelta));
    let next = await parts.next();
    let told = '';
    for (; !next.done; next = await parts.next()) {
      const { content } = next.value;
      // LangChain forgets invalid calls when it joins chunks, so a graph that wants them gets a single one.
      if (content === '' || !this.#answersUnreadable) continue;
      told += content;
      yield new ChatGenerationChunk({ text: content, message: new AIMessageChunk({ content }) });
      await runManager?.handleLLMNewToken(content);
    }
    const reply = next.value;
    const rest = reply.content.slice(told.length);
    const last = withUsage(new AIMessageChunk(fieldsOf(reply, rest)), reply);
    yield new ChatGenerationChunk({ text: rest, message: last });
  }

  async #ask(
    messages: BaseMessage[],
    options: this['ParsedCallOptions'],
    onDelta?: (part: ReplyPart) => void,
  ): Promise<ChatReply> {
    const { tool_choice: choice = 'auto', toolSchemas = [], stop, signal } = options;
    if (choice !== 'auto' && choice !== 'none') {
      throw new ConfigError(
        `tool_choice is ${JSON.stringify(choice)}; the policy must choose freely, so use 'auto' or 'none'`,
      );
    }
    const failed = messages.filter((message) => isToolMessage(message) && message.status === 'error');
    return this.#chats.reply({
      messages: readMessages(messages),
      ...(choice === 'none'
        ? { toolSchemas: [] }
        : { toolSchemas: [...this.#tools.map(({ schema }) => schema), ...toolSchemas], tools: this.#tools }),
      sampling: { ...this.#sampling, ...(stop ? { stopStrings: stop } : {}), signal, onDelta },
      tellsWholeCalls: true,
      failedCalls: new Set(failed.flatMap((message) => (isToolMessage(message) ? message.tool_call_id : []))),
      answersUnreadable: this.#answersUnreadable,
    });
  }
}

/** A whole message, or what its last chunk has. */
function fieldsOf(reply: ChatReply, content = reply.content) {
  const { reasoning, toolCalls, problems, finish } = reply;
  return {
    content,
    tool_calls: toolCalls.map(({ id, name, arguments: args }) => ({
      type: 'tool_call' as const,
      id,
      name,
      args,
    })),
    invalid_tool_calls: problems.map((problem, index) => {
      const name = nameIn(problem);
      return {
        type: 'invalid_tool_call' as const,
        id: problemId(reply, index),
        args: problem.source,
        error: problem.message,
        ...(name === undefined ? {} : { name }),
      };
    }),
    ...(reasoning === '' ? {} : { additional_kwargs: { reasoning_content: reasoning } }),
    response_metadata: { finish_reason: finish, ...replyMark(reply) },
  };
}

function withUsage<M extends AIMessage | AIMessageChunk>(message: M, { promptTokens, ids }: ChatReply): M {
  const total = promptTokens + ids.length;
  return Object.assign(message, {
    usage_metadata: { input_tokens: promptTokens, output_tokens: ids.length, total_tokens: total },
  });
}

function schemaOf(tool: BindToolsInput): ToolSchema {
  const { name, description = '', parameters = {} } = convertToOpenAITool(tool).function;
  const { $schema: _, ...schema } = parameters as Record<string, unknown>;
  return { type: 'function', function: { name, description, parameters: schema } };
}

function readMessages(messages: readonly BaseMessage[]): Message[] {
  const names = new Map<string, string>();
  return messages.map((message): Message => {
    if (isAIMessage(message)) {
      const content = textOf(message);
      const calls = (message.tool_calls ?? []).map(({ id = '', name, args }) => {
        names.set(id, name);
        return { id, name, arguments: args };
      });
      const reasoning = message.additional_kwargs.reasoning_content;
      return {
        role: 'assistant',
        content,
        ...(typeof reasoning === 'string' ? { reasoning } : {}),
        ...(calls.length > 0 ? { toolCalls: calls } : {}),
      };
    }
    if (isToolMessage(message)) {
      const toolCallId = message.tool_call_id;
      const name = names.get(toolCallId) ?? message.name ?? 'tool';
      return { role: 'tool', content: contentOf(message), toolCallId, name };
    }
    const type = message.getType();
    if (type === 'human') return { role: 'user', content: contentOf(message) };
    if (type === 'system') return { role: 'system', content: contentOf(message) };
    throw new ConfigError(`a message is of type '${type}'; use human, ai, system or tool messages`);
  });
}

function textOf(message: BaseMessage): string {
  const content = contentOf(message);
  if (typeof content === 'string') return content;
  throw new ConfigError("a message of type 'ai' has an image; the policy writes text");
}

/** Text, or parts where there are images among them. */
function contentOf({ content }: BaseMessage): Content {
  if (typeof content === 'string') return content;
  const parts = content.flatMap((block): ContentPart[] => {
    if (block.type === 'text' && typeof block.text === 'string') return [{ type: 'text', text: block.text }];
    if (block.type === 'tool_call' || block.type === 'reasoning') return []; // read from the message's own fields
    if (block.type === 'image' && 'image' in block)
      return [{ type: 'image', image: block.image as ImageRef }];
    throw new ConfigError(
      `a message has content of type '${block.type}'; this adapter reads text, and images that context.image() ` +
        "has stored: { type: 'image', image: await context.image(source) }",
    );
  });
  const isText = parts.every((part) => part.type === 'text');
  return isText ? parts.map((part) => part.text).join('') : parts;
}
