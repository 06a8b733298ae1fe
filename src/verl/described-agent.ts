/**
 * An agent from data: what a run file in YAML, or verl's keys, say about agents and tools. The result runs tasks in
 * verl's columns, each by the agent it names, with the tools it names.
 */

import type { Agent } from '../agent/agent.ts';
import type { ResultLimits } from '../agent/class-tool.ts';
import { isReadyTool } from '../agent/ready-tools.ts';
import {
  failedToolCalls,
  isCorrect,
  repeatedReplies,
  replySays,
  type Stop,
  toolSucceeded,
} from '../agent/stops.ts';
import { checkToolNames, type Keep, type Tool, type ToolBox } from '../agent/tool.ts';
import type { TaskMessage, TaskRow } from '../dataset/task-row.ts';
import { ConfigError } from '../errors.ts';
import type { TrajectoryReward } from '../reward/reward.ts';
import type { ImageBlobs } from '../services/image-blobs.ts';
import type { ContentPart, Message } from '../types.ts';
import { loadAgent, loadAgentFile, refuseArguments } from './agent-file.ts';
import { agentsByName, builtInAgents, findAgent } from './agents-by-name.ts';
import type { PromptOf } from './generate-loop.ts';
import { type Interactions, interactionOf, loadInteractionFile } from './interaction-file.ts';
import { loadToolFile, loadToolModule, toolsFromConfig } from './tool-file.ts';

/** An agent as plain data, as YAML and overrides write it. */
export interface AgentDescription {
  /** For rows without `agent_name`. */
  readonly default: string;
  /** An agent-loop YAML. */
  readonly file: string | null;
  /** `path.ts#export` or the name of a Python loop of verl, for all rows that name none. */
  readonly module: string | null;
  readonly config: Readonly<Record<string, unknown>>;
  readonly stopOnToolSuccess: boolean;
  readonly stopOnCorrect: boolean;
  readonly stopOnText: readonly string[];
  readonly stopOnRepetition: number | null;
  readonly stopOnToolFailures: number | null;
}

/** Tools as plain data: files, names and limits. */
export interface ToolsDescription {
  readonly file: string | null;
  /** A module whose exported tools are all offered. */
  readonly module: string | null;
  /** Names of the tools to use; null: all. */
  readonly names: readonly string[] | null;
  /** Entries as in a tool file. */
  readonly list: readonly unknown[];
  readonly charactersPerResult: number | null;
  /** head, tail or both ends. */
  readonly keep: string;
}

/** What it takes to open an agent that is described as data. */
export interface DescribedAgentOptions {
  readonly agent: AgentDescription;
  readonly tools: ToolsDescription;
  /** Simulated users: an interaction YAML. */
  readonly users?: { readonly file: string | null };
  /** Folder that relative paths start from. */
  readonly directory: string;
  /** Decides for `stopOnCorrect`. */
  readonly correct?: TrajectoryReward<TaskRow>;
  readonly warn?: (message: string) => void;
}

/** An agent made from data, and the tools and users that must be closed after it. */
export interface OpenedAgent {
  readonly agent: Agent<TaskRow>;
  /** Throws a ConfigError for a task that asks for a tool or a simulated user that does not exist. */
  check(task: TaskRow): void;
  /** Loads what the agents of the checked tasks need; rejects where that is not installed. */
  prepare(): Promise<void>;
  /** Ends tool servers. */
  close(): Promise<void>;
}

/** Makes an agent from its description. */
export async function openDescribedAgent(options: DescribedAgentOptions): Promise<OpenedAgent> {
  const { agent, directory, warn } = options;
  const box = await openTools(options.tools, directory);
  try {
    const users: Interactions =
      typeof options.users?.file === 'string' ? await loadInteractionFile(options.users.file) : {};
    const userOf = (row: TaskRow) => interactionOf(users, row.interactionKwargs);
    const promptOf: PromptOf<TaskRow> = ({ prompt }, { image }) =>
      Promise.all(prompt.map((message) => userMessage(message, image)));
    const builtIn = builtInAgents<TaskRow>({
      userOf,
      prompt: promptOf,
      tools: box.tools,
      toolsOf: (row) => row.tools,
      stopWhen: stopsOf(options),
    });
    const loaded =
      agent.file === null ? {} : await loadAgentFile(agent.file, { tools: box.tools, builtIn, promptOf });
    const agents: Record<string, Agent<TaskRow>> = { ...builtIn, ...loaded };
    let fallback = agent.default;
    if (agent.module === null) refuseArguments(agent.config, 'agent.config');
    else {
      fallback = agent.module;
      agents[fallback] = await loadAgent(agent.module, agent.config, {
        directory,
        tools: box.tools,
        builtIn,
        promptOf,
      });
    }
    const chosen = agentsByName<TaskRow>({ agents, default: fallback, ...(warn && { warn }) });
    const used = new Set<Agent<TaskRow>>();
    const check = (task: TaskRow) => {
      userOf(task);
      const name = task.agentName ?? fallback;
      const named = findAgent(agents, name);
      const { tools } = named;
      used.add(named);
      named.check?.(task);
      checkOffered(task, name, tools, box.tools);
      for (const one of tools) if (task.tools?.includes(one.name) ?? true) one.check(task);
    };
    const prepare = async () => {
      for (const one of used) await one.prepare?.();
    };
    return { agent: chosen, check, prepare, close: box.close };
  } catch (error) {
    await box.close();
    throw error;
  }
}

/** Nothing is silently off: a tool that a row names, or has arguments for, must be offered by the agent that runs it. */
function checkOffered(
  { tools = [], toolsKwargs }: TaskRow,
  agentName: string,
  offered: readonly Tool[],
  known: readonly Tool[],
): void {
  const isAmong = (list: readonly Tool[]) => (name: string) => list.some((one) => one.name === name);
  const wanted = [...new Set([...tools, ...Object.keys(toolsKwargs)])];
  const missing = wanted.filter((name) => !isAmong(known)(name) && !isAmong(offered)(name));
  if (missing.length > 0) {
    const ready = missing.filter(isReadyTool);
    const given = known.map((one) => one.name).join(', ') || 'none';
    const whose = tools.includes(missing[0]!) ? 'the row offers' : 'the row has tools_kwargs for';
    throw new ConfigError(
      `${whose} the tool ${missing.join(', ')}, which the run does not have; it has ${given}. Give tools.file ` +
        '(verl: actor_rollout_ref.rollout.multi_turn.tool_config_path)' +
        (ready.length > 0 ? `, or name ${ready.join(', ')} in tools.names: ready tools` : ''),
    );
  }
  if (wanted.length > 0 && offered.length === 0) {
    throw new ConfigError(
      `the row is meant for the tool ${wanted.join(', ')}, but its agent, ${agentName}, offers no tools; set the ` +
        "row's agent_name to tool_agent, or agent.default (verl: actor_rollout_ref.rollout.multi_turn.enable=true)",
    );
  }
}

function stopsOf({ agent, correct }: DescribedAgentOptions): Stop<TaskRow>[] {
  if (agent.stopOnCorrect && !correct) {
    throw new ConfigError('stopOnCorrect needs a reward that decides what is correct; none is given');
  }
  return [
    ...(agent.stopOnToolSuccess ? [toolSucceeded()] : []),
    ...(agent.stopOnCorrect && correct ? [isCorrect(correct)] : []),
    ...agent.stopOnText.map(replySays),
    ...(agent.stopOnRepetition === null ? [] : [repeatedReplies(agent.stopOnRepetition)]),
    ...(agent.stopOnToolFailures === null ? [] : [failedToolCalls(agent.stopOnToolFailures)]),
  ];
}

async function openTools(described: ToolsDescription, directory: string): Promise<ToolBox> {
  const limits: ResultLimits = {
    keep: keepNamed(described.keep),
    ...(described.charactersPerResult !== null && { charactersPerResult: described.charactersPerResult }),
  };
  const boxes: ToolBox[] = [];
  const close = async () => {
    await Promise.all(boxes.map((box) => box.close()));
  };
  try {
    if (described.file !== null) boxes.push(await loadToolFile(described.file, limits));
    if (described.module !== null)
      boxes.push(await loadToolModule(described.module, directory, 'tools.module'));
    boxes.push(await toolsFromConfig(described.list, { directory, source: 'tools.list', limits }));
    const given = boxes.flatMap((box) => box.tools.map((one) => one.name));
    // One that is only named may be a ready one.
    const ready = (described.names ?? []).filter((name) => !given.includes(name) && isReadyTool(name));
    const entries = ready.map((name) => ({ name }));
    boxes.push(await toolsFromConfig(entries, { directory, source: 'tools.names', limits }));
    const tools = namedTools(
      boxes.flatMap((box) => box.tools),
      described.names,
    );
    checkToolNames(tools);
    return { tools, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function keepNamed(name: string): Keep {
  const keep = KEEP.find((known) => known === name);
  if (keep) return keep;
  throw new ConfigError(`tools.keep is '${name}'; use ${KEEP.join(', ')}`);
}

const KEEP: readonly Keep[] = ['head', 'tail', 'both ends'];

function namedTools(tools: readonly Tool[], names: readonly string[] | null): readonly Tool[] {
  if (names === null) return tools;
  const missing = names.filter((name) => !tools.some((one) => one.name === name));
  if (missing.length > 0) {
    const known = tools.map((one) => one.name).join(', ') || 'none';
    throw new ConfigError(`there is no tool ${missing.join(', ')}; given are ${known}`);
  }
  return tools.filter((one) => names.includes(one.name));
}

/** Images of a row become blobs of the run. */
async function userMessage(message: TaskMessage, keep: ImageBlobs['put']): Promise<Message> {
  if (message.role === 'assistant' || typeof message.content === 'string') return message as Message;
  const parts = message.content.map(
    async (part): Promise<ContentPart> =>
      part.type === 'text' ? part : { type: 'image', image: await keep(part.source) },
  );
  return { ...message, content: await Promise.all(parts) };
}
