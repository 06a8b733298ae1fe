/** A command as a process of its own, which ends with all that it has started. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { ConfigError } from '../errors.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';

/** Program and arguments, or a line for the shell. */
export type CommandLine = string | readonly string[];

export interface CommandOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A variable of `env` whose value no other process has: what has left the process group is found by it. */
  readonly mark: string;
  readonly cwd?: string | undefined;
  /** Standard input; if not given, it is empty. */
  readonly input?: string | undefined;
  readonly clock: Clock;
  /** Ends the command. */
  readonly signal: AbortSignal;
}

/** How a command ended, and the last part of what it printed. */
export interface CommandResult {
  /** Null if a signal ended it. */
  readonly code: number | null;
  readonly signal: string | null;
  readonly seconds: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The last part of each output is kept; agents can be talkative. */
const KEPT_CHARACTERS = 64 * 1024;
/** From the polite signal to the last one. A trajectory leaves its agent behind two seconds after its end. */
const TERM_MS = 1000;
const isPosix = process.platform !== 'win32';

/** Runs a command to its end. When `signal` aborts, it and all that it started are ended. */
export async function runCommand(command: CommandLine, options: CommandOptions): Promise<CommandResult> {
  const { clock, signal } = options;
  signal.throwIfAborted();
  const began = clock.now();
  const child = await start(command, options);
  const [stdout, stderr] = [lastPart(child.stdout!), lastPart(child.stderr!)];
  child.stdin?.on('error', () => {}); // it does not read its input
  child.stdin?.end(options.input);
  const exited = once(child, 'exit');
  const closed = once(child, 'close');
  const onAbort = () => {
    send(child, 'SIGTERM');
    clock.timer(TERM_MS, () => endAll(child, options));
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    const [code, killedBy] = (await exited) as [number | null, NodeJS.Signals | null];
    endAll(child, options); // what it started does not outlive it
    await Promise.race([closed, sleep(clock, TERM_MS)]);
    return {
      code,
      signal: killedBy,
      seconds: (clock.now() - began) / 1000,
      stdout: stdout(),
      stderr: stderr(),
    };
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

async function start(command: CommandLine, { env, cwd, input }: CommandOptions): Promise<ChildProcess> {
  const settings = {
    env,
    detached: isPosix, // a process group of its own, which one signal ends
    ...(cwd === undefined ? {} : { cwd }),
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'] as ['ignore' | 'pipe', 'pipe', 'pipe'],
  };
  const [program = '', ...words] = typeof command === 'string' ? [] : command;
  const child =
    typeof command === 'string'
      ? spawn(command, { ...settings, shell: true })
      : spawn(program, words, settings);
  try {
    await once(child, 'spawn');
  } catch (error) {
    const shown = typeof command === 'string' ? command : command.join(' ');
    throw new ConfigError(`the agent's command cannot be started: ${shown}: ${messageOf(error)}`);
  }
  return child;
}

function lastPart(stream: NodeJS.ReadableStream): () => string {
  let text = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    text += chunk;
    if (text.length > 2 * KEPT_CHARACTERS) text = text.slice(-KEPT_CHARACTERS);
  });
  return () => text.slice(-KEPT_CHARACTERS);
}

function endAll(child: ChildProcess, { env, mark }: CommandOptions): void {
  send(child, 'SIGKILL');
  for (const pid of markedProcesses(`${mark}=${env[mark]}`)) kill(pid, 'SIGKILL');
}

/** Processes with this variable, where /proc tells. */
function markedProcesses(variable: string): number[] {
  let names: string[] = [];
  try {
    names = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    // no /proc: the process group alone
  }
  return names.flatMap((name) => {
    try {
      return readFileSync(`/proc/${name}/environ`, 'latin1').split('\0').includes(variable)
        ? Number(name)
        : [];
    } catch {
      return []; // it has ended, or belongs to someone else
    }
  });
}

function send({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid !== undefined) kill(isPosix ? -pid : pid, signal);
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // it has ended
  }
}
