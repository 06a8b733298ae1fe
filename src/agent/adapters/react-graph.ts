/** A ReAct agent as a LangGraph graph, whose tools are the run's: the model, its calls, and back, until it asks for nothing. */
import {
  AIMessage,
  type BaseMessage,
  HumanMessage,
  type MessageContent,
  SystemMessage,
  ToolMessage,
} from '@langchain/core/messages';
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import type { ChatReply } from '../../chat/chat.ts';
import type { Message, ToolRun } from '../../types.ts';
import type { AgentContext } from '../agent.ts';
import type { Stop } from '../stops.ts';
import type { Tool } from '../tool.ts';
import { chatModel, recursionLimit } from './langchain.ts';
import { replyOf } from './reply-of.ts';
import { servedChats } from './served-chats.ts';

export interface ReactGraphOptions<T> {
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  readonly stopWhen: readonly Stop<T>[];
}

/** Runs the graph until the model asks for nothing more, a stop condition is met, or the trajectory ends. */
export async function runReactGraph<T>(
  context: AgentContext<T>,
  { messages, tools, stopWhen }: ReactGraphOptions<T>,
): Promise<void> {
  const { model, limits, signal, extra } = context;
  const policy = chatModel(model, { tools, unreadableCalls: 'return' });
  const replies: ChatReply[] = [];
  const isStopped = async (runs?: readonly ToolRun[]) => {
    for (const stop of stopWhen) {
      if (!(await stop.isMet({ context, replies, runs }))) continue;
      extra.stoppedBy = stop.name;
      return true;
    }
    return false;
  };
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('agent', async (state) => ({ messages: [await policy.invoke(state.messages, { signal })] }))
    .addNode('tools', async (state) => ({ messages: await policy.runTools(state.messages.at(-1)!) }))
    .addEdge(START, 'agent')
    .addConditionalEdges(
      'agent',
      async (state) => {
        const reply = servedChats(model).replyAt(replyOf(state.messages.at(-1)!));
        replies.push(reply);
        return reply.final || (await isStopped()) ? END : 'tools';
      },
      ['tools', END],
    )
    .addConditionalEdges('tools', async () => {
      const { runs } = await servedChats(model).runTools(replies.at(-1)!);
      return (await isStopped(runs)) ? END : 'agent';
    }, ['agent', END])
    .compile();
  const config = { recursionLimit: recursionLimit(limits), signal };
  await graph.invoke({ messages: messages.map(langchainMessage) }, config);
}

function langchainMessage(message: Message): BaseMessage {
  const content = message.content as MessageContent;
  switch (message.role) {
    case 'system':
      return new SystemMessage({ content });
    case 'user':
      return new HumanMessage({ content });
    case 'tool':
      return new ToolMessage({ content, tool_call_id: message.toolCallId, name: message.name });
    case 'assistant': {
      const calls = (message.toolCalls ?? []).map(({ id, name, arguments: args }) => ({ id, name, args }));
      const thoughts = message.reasoning === undefined ? {} : { reasoning_content: message.reasoning };
      return new AIMessage({ content, tool_calls: calls, additional_kwargs: thoughts });
    }
  }
}
