/**
 * Agents from an agent-loop YAML, and by module:
 *
 *   - name: my_agent
 *     _target_: agents.ts#MyAgent # an agent, a function of the other keys, or a class with run or generate
 *     max_rounds: 3                   # everything else is its argument
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { type Agent, type AgentContext, agent } from '../agent/agent.ts';
import type { Tool } from '../agent/tool.ts';
import { ConfigError } from '../errors.ts';
import { loadExport } from '../lib/load-export.ts';
import type { Message, Task } from '../types.ts';
import { type GenerateLoop, generateLoop, type PromptOf } from './generate-loop.ts';

const entries = z.array(z.looseObject({ name: z.string(), _target_: z.string() }));

/** Python loops of verl and its examples, by the last part of their path, and the built-in agent of each. */
const PYTHON_LOOPS: Readonly<Record<string, string>> = {
  SingleTurnAgentLoop: 'single_turn_agent',
  ToolAgentLoop: 'tool_agent',
  ReactAgentLoop: 'react_agent',
  RectAgentLoop: 'react_agent', // a spelling that examples use
  GSM8KToolAgentLoop: 'tool_agent',
};

/** Whether a name without a file, `package.module.Class`, is a loop that has a counterpart here. */
export const isKnownLoop = (target: string) => target.split('.').at(-1)! in PYTHON_LOOPS;

/** What the agents of a file may refer to: its folder, tools, and the built-in agents. */
export interface AgentModuleOptions<T> {
  readonly directory: string;
  readonly tools: readonly Tool[];
  readonly builtIn: Readonly<Record<string, Agent<T>>>;
  /** The first dialogue of a task, for a class with `generate`; default its `prompt`. */
  readonly promptOf?: PromptOf<T>;
}

/** The agents that a YAML file in verl's form names. */
export async function loadAgentFile<T = Task>(
  path: string,
  options: Omit<AgentModuleOptions<T>, 'directory'>,
): Promise<Record<string, Agent<T>>> {
  const file = resolve(path);
  if (!existsSync(file)) throw new ConfigError(`Agent loop configuration file not found: ${file}`);
  const result = entries.safeParse(parse(await readFile(file, 'utf8')));
  if (!result.success) {
    const why = z.prettifyError(result.error).replace(/\s+/g, ' ');
    throw new ConfigError(`${path} is not a list of agents {name, _target_, …}: ${why}`);
  }
  const agents: Record<string, Agent<T>> = {};
  for (const { name, _target_: target, ...config } of result.data) {
    agents[name] = await loadAgent(target, config, { ...options, directory: dirname(file) });
  }
  return agents;
}

/** The agent that `path.ts#Export` or the name of a Python loop of verl means. */
export async function loadAgent<T = Task>(
  target: string,
  config: Readonly<Record<string, unknown>>,
  { directory, tools, builtIn, promptOf = promptColumn }: AgentModuleOptions<T>,
): Promise<Agent<T>> {
  const where = `agent '${target}'`;
  if (!target.includes('#')) {
    const loop = PYTHON_LOOPS[target.split('.').at(-1)!];
    if (loop !== undefined && builtIn[loop]) {
      refuseArguments(config, where);
      return builtIn[loop];
    }
    throw new ConfigError(
      `${where} is a Python class that has no counterpart here. Write the agent in TypeScript and name it ` +
        `\`path.ts#Export\`, the path relative to ${directory}; known loops are ${Object.keys(PYTHON_LOOPS).join(', ')}`,
    );
  }
  const exported = await loadExport(target, directory, where);
  if (isAgent<T>(exported)) {
    refuseArguments(config, where);
    return exported;
  }
  if (isClass<T>(exported)) {
    // A fresh instance for each trajectory, as verl makes one.
    const make = () => new exported(config);
    if ('generate' in exported.prototype) return generateLoop<T>(make, { name: target, tools, promptOf });
    return agent<T>((context) => make().run(context), { name: target, tools });
  }
  if (typeof exported === 'function') {
    const made: unknown = await exported({ ...config, tools });
    if (isAgent<T>(made)) return made;
  }
  throw new ConfigError(
    `${where}: the export is neither an agent, a class with run(context) or generate(llm_server, data), nor a function of its arguments that gives one`,
  );
}

/** Only a class, or a function that makes an agent, takes arguments. */
export function refuseArguments(config: Readonly<Record<string, unknown>>, where: string): void {
  const names = Object.keys(config);
  if (names.length === 0) return;
  throw new ConfigError(
    `${where}: nothing reads ${names.join(', ')}; the built-in agents follow limits.* and agent.stopOn…, and arguments ` +
      'are for a class or function of yours (agent.module: path.ts#Export)',
  );
}

const isAgent = <T>(value: unknown): value is Agent<T> => (value as Agent<T> | undefined)?.kind === 'agent';

type AgentClass<T> = new (
  config: Readonly<Record<string, unknown>>,
) => GenerateLoop & { run(context: AgentContext<T>): Promise<void> };

function isClass<T>(value: unknown): value is AgentClass<T> {
  return typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value));
}

function promptColumn(task: unknown): readonly Message[] {
  const { prompt } = Object(task) as { prompt?: unknown };
  return typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : (prompt as readonly Message[]);
}
