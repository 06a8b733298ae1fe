/**
 * `rollcall/openai-agents`: the policy as a model provider of the OpenAI Agents SDK, so that its agents, with their tools and
 * handoffs, are trained as they are:
 *
 *   const runner = new Runner({ modelProvider: modelProvider(model), tracingDisabled: true });
 *   await runner.run(solver, task.question, { maxTurns: limits.turns, signal });
 */
import {
  type AgentInputItem,
  type Model as AgentsModel,
  type ModelProvider,
  type ModelRequest,
  type ModelResponse,
  type ModelSettings,
  type protocol,
  type StreamEvent,
  Usage,
} from '@openai/agents-core';
import type { ChatReply } from '../../chat/chat.ts';
import type { ReplyPart } from '../../chat/reply-parts.ts';
import type { SampleOptions } from '../../chat/reply-sampler.ts';
import { ConfigError } from '../../errors.ts';
import { pushed } from '../../lib/pushed.ts';
import type { Message, ToolCall, ToolSchema } from '../../types.ts';
import type { Model } from '../agent.ts';
import { replyMark } from './reply-of.ts';
import { servedChats } from './served-chats.ts';

/** Options of the policy as a model provider of OpenAI Agents. */
export interface ModelProviderOptions {
  /** Sampling options of every reply, unless an agent's `modelSettings` give others. */
  readonly sampling?: SampleOptions;
}

/** `context.model` of an agent as a model provider of OpenAI Agents; every model name means the policy. */
export function modelProvider(model: Model, { sampling = {} }: ModelProviderOptions = {}): ModelProvider {
  const policy = agentsModel(model, sampling);
  return { getModel: () => policy };
}

function agentsModel(model: Model, sampling: SampleOptions): AgentsModel {
  const chats = servedChats(model);
  const ask = async (request: ModelRequest, onDelta?: (part: ReplyPart) => void): Promise<ChatReply> => {
    const { systemInstructions: system, modelSettings, input, signal } = request;
    refuseUnsupported(request);
    return chats.reply({
      messages: [
        ...(system ? [{ role: 'system' as const, content: system }] : []),
        ...(typeof input === 'string' ? [{ role: 'user' as const, content: input }] : readItems(input)),
      ],
      toolSchemas: modelSettings.toolChoice === 'none' ? [] : schemasOf(request),
      sampling: { ...sampling, ...samplingOf(modelSettings), signal, onDelta },
      tellsWholeCalls: true,
      failedCalls: new Set(), // the SDK does not say which results are errors
      // The SDK ends the run where a call names a tool that does not exist.
      answersUnreadable: true,
      answersUnknown: true,
    });
  };
  const getResponse = async (request: ModelRequest): Promise<ModelResponse> => {
    const reply = await ask(request);
    return { ...responseOf(reply), responseId: idOf(reply), usage: usageOf(reply) };
  };
  async function* getStreamedResponse(request: ModelRequest): AsyncGenerator<StreamEvent> {
    yield { type: 'response_started' };
    const parts = pushed((onDelta: (part: ReplyPart) => void) => ask(request, onDelta));
    let next = await parts.next();
    for (; !next.done; next = await parts.next()) {
      if (next.value.content !== '') yield { type: 'output_text_delta', delta: next.value.content };
    }
    const reply = next.value;
    const { inputTokens, outputTokens, totalTokens } = usageOf(reply);
    const usage = { inputTokens, outputTokens, totalTokens };
    yield { type: 'response_done', response: { ...responseOf(reply), id: idOf(reply), usage } };
  }
  return { getResponse, getStreamedResponse };
}

function refuseUnsupported({ modelSettings: { toolChoice = 'auto' }, outputType, prompt }: ModelRequest) {
  if (toolChoice !== 'auto' && toolChoice !== 'none') {
    throw new ConfigError(
      `toolChoice is ${JSON.stringify(toolChoice)}; the policy must choose freely, so use auto or none`,
    );
  }
  if (outputType !== 'text') {
    throw new ConfigError('the policy answers in free text; leave out outputType');
  }
  if (prompt) throw new ConfigError('a prompt template is stored at OpenAI; give the agent instructions');
}

function schemasOf({ tools, handoffs }: ModelRequest): ToolSchema[] {
  const schema = (
    name: string,
    description: string,
    { $schema: _, ...parameters }: object & { $schema?: unknown },
  ) => ({ type: 'function', function: { name, description, parameters } }) as const;
  return [
    ...tools.map((tool) => {
      if (tool.type !== 'function') {
        throw new ConfigError(`tool '${tool.name}' is run by its provider; give the policy function tools`);
      }
      return schema(tool.name, tool.description, tool.parameters);
    }),
    ...handoffs.map((one) => schema(one.toolName, one.toolDescription, one.inputJsonSchema)),
  ];
}

function samplingOf(settings: ModelSettings): SampleOptions {
  const { maxTokens, temperature, topP, presencePenalty, frequencyPenalty } = settings;
  const given = { maxTokens, temperature, topP, presencePenalty, frequencyPenalty };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** Items of one reply stand side by side: its reasoning, its text, its calls. They become one message. */
function readItems(items: readonly AgentInputItem[]): Message[] {
  const messages: Message[] = [];
  let reply: { reasoning: string; content: string; toolCalls: ToolCall[] } | undefined;
  const endReply = () => {
    if (!reply) return;
    const { content, reasoning, toolCalls } = reply;
    messages.push({
      role: 'assistant',
      content,
      ...(reasoning === '' ? {} : { reasoning }),
      ...(toolCalls.length === 0 ? {} : { toolCalls }),
    });
    reply = undefined;
  };
  const ofReply = () => (reply ??= { reasoning: '', content: '', toolCalls: [] });
  for (const item of items) {
    if (item.type === 'reasoning') ofReply().reasoning += textOf(item.rawContent ?? item.content);
    else if (item.type === 'function_call') ofReply().toolCalls.push(readCall(item));
    else if (item.type === 'function_call_result') {
      endReply();
      const { callId: toolCallId, name, output } = item;
      const parts = typeof output === 'string' || Array.isArray(output) ? output : [output];
      messages.push({ role: 'tool', toolCallId, name, content: textOf(parts) });
    } else if (item.type === undefined || item.type === 'message') {
      if (item.role === 'assistant') ofReply().content += textOf(item.content);
      else {
        endReply();
        messages.push({ role: item.role, content: textOf(item.content) });
      }
    } else
      throw new ConfigError(`the input has an item of type '${item.type}', which the policy cannot read`);
  }
  endReply();
  return messages;
}

function readCall({
  callId: id,
  name,
  arguments: text,
}: {
  callId: string;
  name: string;
  arguments: string;
}) {
  try {
    return { id, name, arguments: JSON.parse(text) as ToolCall['arguments'] };
  } catch {
    throw new ConfigError(`call ${id} of '${name}' in the input has arguments that are not JSON: ${text}`);
  }
}

function textOf(content: string | readonly { readonly type: string; readonly text?: unknown }[]): string {
  if (typeof content === 'string') return content;
  return content
    .map((part) => {
      if (typeof part.text === 'string') return part.text;
      throw new ConfigError(`an item has content of type '${part.type}'; this adapter reads text only`);
    })
    .join('');
}

const idOf = ({ turn }: ChatReply) => `reply_${turn}`;

const responseOf = (reply: ChatReply) => ({ output: outputOf(reply), providerData: replyMark(reply) });

function outputOf(reply: ChatReply): protocol.OutputModelItem[] {
  const { content, reasoning, toolCalls, finish } = reply;
  const output: protocol.OutputModelItem[] = [];
  if (reasoning !== '') {
    output.push({
      type: 'reasoning',
      content: [],
      rawContent: [{ type: 'reasoning_text', text: reasoning }],
    });
  }
  if (content !== '' || toolCalls.length === 0) {
    const status = finish === 'length' ? 'incomplete' : 'completed';
    const text = { type: 'output_text', text: content } as const;
    output.push({ type: 'message', role: 'assistant', status, content: [text] });
  }
  for (const { id, name, arguments: input } of toolCalls) {
    output.push({ type: 'function_call', callId: id, name, arguments: JSON.stringify(input) });
  }
  return output;
}

function usageOf({ ids, promptTokens }: ChatReply): Usage {
  const [inputTokens, outputTokens] = [promptTokens, ids.length];
  return new Usage({ requests: 1, inputTokens, outputTokens, totalTokens: inputTokens + outputTokens });
}
