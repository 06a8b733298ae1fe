/**
 * An agent that is a program: a command per attempt, in any language, that knows the model by a base URL and a key in its
 * environment. It may be a script of ten lines or a coding agent from a registry.
 */
import { availableParallelism } from 'node:os';
import { ConfigError } from '../errors.ts';
import { semaphore } from '../lib/semaphore.ts';
import type { Task } from '../types.ts';
import { type Agent, type AgentContext, agent } from './agent.ts';
import { type AgentReport, obeyReport, readReport } from './agent-report.ts';
import type { Completion, Endpoint } from './endpoint.ts';
import { type CommandLine, type CommandResult, runCommand } from './run-command.ts';

/** What a process is started for: its task, which attempt it is, and the model's endpoint. */
export interface ProcessAttempt<T = Task> {
  readonly task: T;
  readonly taskIndex: number;
  readonly attempt: number;
  readonly endpoint: Endpoint;
}

/** A process that has ended with code 0, and its attempt. */
export interface FinishedProcess<T = Task> extends ProcessAttempt<T>, CommandResult {}

/** Options of `processAgent`: the command, and what is read from its end. */
export interface ProcessAgentOptions<T = Task> {
  /** Program and arguments, or a line for the shell; of the attempt, or the same for all. */
  readonly command: CommandLine | ((attempt: ProcessAttempt<T>) => CommandLine);
  /** Variables beside those of this process and ours; `undefined` removes one. */
  readonly env?: (attempt: ProcessAttempt<T>) => Readonly<Record<string, string | undefined>>;
  /** Where it runs; by default where this process does. A function may prepare a folder. */
  readonly cwd?: string | ((attempt: ProcessAttempt<T>) => string | Promise<string>);
  /** What it reads from standard input; by default nothing. */
  readonly input?: (attempt: ProcessAttempt<T>) => string;
  /** Processes at once; by default as many as there are cores. */
  readonly atOnce?: number;
  /**
   * What the attempt was worth, if reward functions do not decide: a function of the finished process, or `last line`, which
   * is a number or a report in JSON. The process may also post to `$ROLLCALL_URL/reward`.
   */
  readonly reward?:
    | 'last line'
    | ((
        finished: FinishedProcess<T>,
      ) => number | AgentReport | undefined | Promise<number | AgentReport | undefined>);
  readonly name?: string;
}

/** Longer variables cannot be passed to a process on Linux. */
const MOST_TASK_BYTES = 128 * 1024 - 32;
const SHOWN_LINES = 5;

/**
 * An agent from a command. Each attempt is one process with OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL,
 * ANTHROPIC_API_KEY, ROLLCALL_URL, ROLLCALL_API_KEY, ROLLCALL_TASK (JSON), ROLLCALL_TASK_INDEX and ROLLCALL_ATTEMPT in its
 * environment. An exit code other than 0 is a failed attempt. What it printed is in `trajectory.extra.process`.
 */
export function processAgent<T = Task>(options: ProcessAgentOptions<T>): Agent<T> {
  const { atOnce = availableParallelism(), name = 'process' } = options;
  // Training and evaluation may overlap, each with as many attempts as `atOnce` allows.
  const processes = semaphore(atOnce);
  return agent<T>((context) => processes.run(() => runProcess(context, options), context.signal), {
    name,
    atOnce,
  });
}

async function runProcess<T>(context: AgentContext<T>, options: ProcessAgentOptions<T>): Promise<void> {
  const { task, taskIndex, attempt: number, signal, clock, extra } = context;
  const endpoint = await context.endpoint();
  const attempt: ProcessAttempt<T> = { task, taskIndex, attempt: number, endpoint };
  let completion: Completion = {};
  endpoint.completed.then((told) => {
    completion = told;
  });
  const { command, cwd, input, env } = options;
  const folder = typeof cwd === 'function' ? await cwd(attempt) : cwd;
  const line = typeof command === 'function' ? command(attempt) : command;
  const result = await runCommand(line, {
    env: {
      ...process.env,
      ...(folder === undefined ? {} : { PWD: folder }), // some programs take it for where they are
      ...environmentOf(attempt, input !== undefined),
      ...env?.(attempt),
    },
    mark: 'ROLLCALL_URL',
    cwd: folder,
    input: input?.(attempt),
    clock,
    signal,
  });
  extra.process = { command: line, ...result };
  signal.throwIfAborted();
  if (result.code !== 0) throw new Error(`the agent's process ended with ${howEnded(result)}`);
  const finished: FinishedProcess<T> = { ...attempt, ...result };
  await obeyReport((await reportOf(finished, options)) ?? completion, { context, endpoint });
}

function environmentOf(
  { task, taskIndex, attempt, endpoint }: ProcessAttempt<unknown>,
  hasInput: boolean,
): Record<string, string | undefined> {
  const { openai, anthropic, apiKey, url } = endpoint;
  const text = JSON.stringify(task);
  const fits = Buffer.byteLength(text) <= MOST_TASK_BYTES;
  if (!fits && !hasInput) {
    throw new ConfigError(
      `task ${taskIndex} is ${text.length} characters of JSON, too long for the variable ROLLCALL_TASK; pass it with \`input\``,
    );
  }
  return {
    OPENAI_BASE_URL: openai,
    OPENAI_API_BASE: openai,
    OPENAI_API_KEY: apiKey,
    ANTHROPIC_BASE_URL: anthropic,
    ANTHROPIC_API_KEY: apiKey,
    ANTHROPIC_AUTH_TOKEN: undefined, // clients prefer it to the key
    ROLLCALL_URL: url,
    ROLLCALL_API_KEY: apiKey,
    ROLLCALL_TASK: fits ? text : undefined,
    ROLLCALL_TASK_INDEX: String(taskIndex),
    ROLLCALL_ATTEMPT: String(attempt),
    NO_PROXY: withoutProxy(new URL(url).hostname, process.env['NO_PROXY'] ?? process.env['no_proxy']),
    no_proxy: withoutProxy(new URL(url).hostname, process.env['no_proxy'] ?? process.env['NO_PROXY']),
  };
}

/** Requests to this host must not go through a proxy. */
const withoutProxy = (host: string, others: string | undefined) => (others ? `${others},${host}` : host);

async function reportOf<T>(
  finished: FinishedProcess<T>,
  { reward }: ProcessAgentOptions<T>,
): Promise<AgentReport | undefined> {
  if (reward === undefined) return undefined;
  if (reward === 'last line') return readLastLine(finished.stdout);
  const given = await reward(finished);
  return typeof given === 'number' ? { reward: given } : given;
}

function readLastLine(stdout: string): AgentReport {
  const line = stdout.trimEnd().split('\n').at(-1) ?? '';
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new ConfigError(
      `the last line of the agent's output is ${JSON.stringify(line.slice(0, 200))}; with reward: 'last line' it must be a ` +
        'number or a report in JSON, such as {"reward": 1}',
    );
  }
  return readReport(value, "the last line of the agent's output");
}

function howEnded({ code, signal, stdout, stderr }: CommandResult): string {
  const printed = (stderr.trim() === '' ? stdout : stderr).trimEnd().split('\n').slice(-SHOWN_LINES);
  const told = printed.join('\n').trim() === '' ? ', and it printed nothing' : `:\n${printed.join('\n')}`;
  return `${signal === null ? `code ${code}` : signal}${told}`;
}
