/**
 * Agents chosen per task by name, as verl's `agent_name` column does: `single_turn_agent`, `tool_agent` (also
 * `tool_agent_loop`), `react_agent` (a graph of LangGraph), and those of an agent-loop file. A batch may mix them.
 */

import { type Agent, agent } from '../agent/agent.ts';
import { reactAgent } from '../agent/react-agent.ts';
import type { Stop } from '../agent/stops.ts';
import type { Tool } from '../agent/tool.ts';
import { singleTurn, type ToolLoopOptions, toolLoop } from '../agent/tool-loop.ts';
import { ConfigError } from '../errors.ts';
import { nearest } from '../lib/nearest.ts';
import type { Task } from '../types.ts';

/** What the built-in agents share: tools, users, stop conditions. */
export interface BuiltInAgentOptions<T> {
  readonly prompt: ToolLoopOptions<T>['prompt'];
  readonly tools: readonly Tool[];
  readonly toolsOf?: (task: T) => readonly string[] | undefined;
  readonly stopWhen?: readonly Stop<T>[];
  readonly userOf?: NonNullable<ToolLoopOptions<T>['userOf']>;
}

/** The names that verl registers. `react_agent` needs LangGraph, once a task names it. */
export function builtInAgents<T = Task>(options: BuiltInAgentOptions<T>): Record<string, Agent<T>> {
  const { prompt } = options;
  return {
    single_turn_agent: singleTurn<T>({ prompt, name: 'single_turn_agent' }),
    tool_agent: toolLoop<T>({ ...options, name: 'tool_agent' }),
    tool_agent_loop: toolLoop<T>({ ...options, name: 'tool_agent_loop' }),
    react_agent: reactAgent<T>({ ...options, name: 'react_agent' }),
  };
}

/** The agents, and how a task names one of them. */
export interface AgentsByNameOptions<T> {
  readonly agents: Readonly<Record<string, Agent<T>>>;
  /** For tasks that name none. */
  readonly default: string;
  readonly nameOf?: (task: T) => string | undefined;
  /** Reported once: tools are given, but a task runs an agent that offers none. */
  readonly warn?: (message: string) => void;
}

/** One agent that passes each task to the agent that the task names. */
export function agentsByName<T = Task>(options: AgentsByNameOptions<T>): Agent<T> {
  const { agents, nameOf = agentNameOf, warn } = options;
  findAgent(agents, options.default);
  const tools = [...new Set(Object.values(agents).flatMap((one) => one.tools))];
  let warned = false;
  return agent<T>(
    async (context) => {
      const name = nameOf(context.task) ?? options.default;
      const chosen = findAgent(agents, name);
      if (!warned && tools.length > 0 && chosen.tools.length === 0) {
        warned = true;
        warn?.(
          `task ${context.taskIndex} runs ${name}, which offers no tools, although ${tools.length} are given ` +
            `(${tools.map((one) => one.name).join(', ')}); set agent_name to tool_agent to use them`,
        );
      }
      context.extra.agent = name;
      await chosen.run({ ...context, tools: chosen.tools });
    },
    { name: 'agents by name', tools },
  );
}

/** The agent of a name; throws a ConfigError that lists those there are. */
export function findAgent<T>(agents: Readonly<Record<string, Agent<T>>>, name: string): Agent<T> {
  if (Object.hasOwn(agents, name)) return agents[name]!;
  const known = Object.keys(agents);
  throw new ConfigError(
    `there is no agent '${name}'; did you mean ${nearest(name, known)}? Registered: ${known.join(', ')}`,
  );
}

function agentNameOf(task: unknown): string | undefined {
  const { agentName, agent_name: column } = task as Readonly<Record<string, unknown>>;
  const name = agentName ?? column;
  return typeof name === 'string' ? name : undefined;
}
