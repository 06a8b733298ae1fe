/** `rollcall/agents`: ready agents, agents by name and from files, stop conditions, and the words of a dialogue. */

export type { AgentOptions, ChatOptions, Model } from '../agent/agent.ts';
export type { AgentReport } from '../agent/agent-report.ts';
export type { Completion, Endpoint, EndpointOptions } from '../agent/endpoint.ts';
export {
  type FinishedProcess,
  type ProcessAgentOptions,
  type ProcessAttempt,
  processAgent,
} from '../agent/process-agent.ts';
export { type RemoteAgentOptions, remoteAgent } from '../agent/remote-agent.ts';
export type { CommandLine, CommandResult } from '../agent/run-command.ts';

export {
  failedToolCalls,
  isCorrect,
  type LoopProgress,
  repeatedReplies,
  replySays,
  type Stop,
  toolSucceeded,
} from '../agent/stops.ts';
export { singleTurn, type ToolLoopOptions } from '../agent/tool-loop.ts';
export type { ChatReply, OutsideRun, ReplyHandle } from '../chat/chat.ts';
export type { CallPart } from '../chat/format.ts';
export type { ReplyPart } from '../chat/reply-parts.ts';
export type { SampleOptions } from '../chat/reply-sampler.ts';
export type { Content, ContentPart, End, ImageRef, Problem, Span } from '../types.ts';
export { type AgentModuleOptions, loadAgent, loadAgentFile } from '../verl/agent-file.ts';
export {
  type AgentsByNameOptions,
  agentsByName,
  type BuiltInAgentOptions,
  builtInAgents,
} from '../verl/agents-by-name.ts';
export {
  type AgentDescription,
  type DescribedAgentOptions,
  type OpenedAgent,
  openDescribedAgent,
  type ToolsDescription,
} from '../verl/described-agent.ts';
export type { GenerateLoop, LoopData, LoopMessage, LoopServer } from '../verl/generate-loop.ts';
