/** Servers that a run starts itself, one process a replica, and stops when it ends. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { ConfigError, EngineError } from '../errors.ts';
import { type Clock, realClock, sleep } from '../lib/clock.ts';
import { isPortTaken, portOwner } from './port.ts';

export interface LaunchOptions {
  /** `rollcall` is `rollcall serve`: the embedded engine, which uses no GPU. */
  readonly engine: 'sglang' | 'vllm' | 'rollcall';
  readonly model: string;
  /** The first server's; each further one takes the next. */
  readonly portStart: number;
  readonly replicas: number;
  /** GPUs of one server. */
  readonly tensorParallel: number;
  /** Of GPU memory. */
  readonly memoryShare: number;
  readonly logLevel: 'debug' | 'info' | 'warning' | 'error';
  /** GPUs that may be used, as in CUDA_VISIBLE_DEVICES; default what that names, else the first ones. */
  readonly gpus?: readonly string[];
}

export interface LaunchCommand {
  readonly program: string;
  readonly arguments: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly url: string;
}

/** One command line per replica, with the visible GPUs divided among them. */
export function launchCommands(
  options: LaunchOptions,
  environment: Readonly<Record<string, string | undefined>>,
): LaunchCommand[] {
  const { replicas, tensorParallel, portStart } = options;
  if (options.engine === 'rollcall') {
    return Array.from({ length: replicas }, (_, replica) => serveCommand(options, portStart + replica));
  }
  const needed = replicas * tensorParallel;
  const named = environment['CUDA_VISIBLE_DEVICES'];
  const visible =
    options.gpus ??
    named?.split(',').filter(Boolean) ??
    Array.from({ length: needed }, (_, gpu) => String(gpu));
  if (visible.length < needed) {
    throw new ConfigError(
      `${replicas} servers of ${tensorParallel} GPUs need ${needed}; visible are ${visible.length} (${visible.join(',') || 'none'})`,
    );
  }
  return Array.from({ length: replicas }, (_, replica) => {
    const port = portStart + replica;
    const gpus = visible.slice(replica * tensorParallel, (replica + 1) * tensorParallel).join(',');
    const command = options.engine === 'sglang' ? sglangCommand(options, port) : vllmCommand(options, port);
    return {
      ...command,
      environment: { ...command.environment, CUDA_VISIBLE_DEVICES: gpus },
      url: `http://127.0.0.1:${port}`,
    };
  });
}

/** The threads of this machine are divided among the replicas. */
function serveCommand({ model, replicas }: LaunchOptions, port: number): LaunchCommand {
  const threads = Math.max(1, Math.floor(availableParallelism() / replicas));
  const flags = ['serve', '--model', model, '--port', String(port), '--threads', String(threads)];
  return {
    program: process.execPath,
    arguments: [ownProgram(), ...flags],
    environment: {},
    url: `http://127.0.0.1:${port}`,
  };
}

/** bin/rollcall.js: two folders above this file in the source, three above it in dist/. */
function ownProgram(): string {
  const near = new URL('../../bin/rollcall.js', import.meta.url);
  return fileURLToPath(existsSync(near) ? near : new URL('../../../bin/rollcall.js', import.meta.url));
}

function sglangCommand({ model, tensorParallel, memoryShare, logLevel }: LaunchOptions, port: number) {
  const flags = ['--model-path', model, '--host', '127.0.0.1', '--port', String(port)];
  const shape = ['--tp', String(tensorParallel), '--mem-fraction-static', String(memoryShare)];
  return {
    program: 'python3',
    arguments: [
      '-m',
      'sglang.launch_server',
      ...flags,
      ...shape,
      '--log-level',
      logLevel,
      '--enable-memory-saver',
    ],
    environment: {},
  };
}

/** Log-probs after temperature, no sampling defaults of the model's own, and the endpoints that a run needs. */
function vllmCommand({ model, tensorParallel, memoryShare, logLevel }: LaunchOptions, port: number) {
  const flags = ['serve', model, '--host', '127.0.0.1', '--port', String(port)];
  const shape = [
    '--tensor-parallel-size',
    String(tensorParallel),
    '--gpu-memory-utilization',
    String(memoryShare),
  ];
  const exact = [
    '--logprobs-mode',
    'processed_logprobs',
    '--generation-config',
    'vllm',
    '--enable-sleep-mode',
  ];
  return {
    program: 'vllm',
    arguments: [...flags, ...shape, ...exact, '--uvicorn-log-level', logLevel],
    environment: {
      VLLM_SERVER_DEV_MODE: '1',
      VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1',
      VLLM_LOGGING_LEVEL: logLevel.toUpperCase(),
    },
  };
}

export interface Launched {
  readonly url: string;
  /** Ends the process and its children. */
  stop(): Promise<void>;
}

export interface StartOptions {
  readonly startSeconds: number;
  ready(url: string): Promise<boolean>;
  readonly clock?: Clock;
  readonly signal?: AbortSignal | undefined;
}

const POLL_MS = 250;
const LOG_LINES = 30;
const STOP_MS = 10_000;

/** All of them, ready; or none, and an error with the last lines of the one that failed. */
export async function startServers(
  commands: readonly LaunchCommand[],
  options: StartOptions,
): Promise<Launched[]> {
  for (const { url } of commands) await refuseTakenPort(url);
  const started = commands.map(startProcess);
  try {
    await Promise.all(started.map((server) => untilReady(server, options)));
    return started;
  } catch (error) {
    await Promise.all(started.map((server) => server.stop()));
    throw error;
  }
}

async function refuseTakenPort(url: string): Promise<void> {
  const port = Number(new URL(url).port);
  if (!(await isPortTaken(port))) return;
  const owner = await portOwner(port);
  throw new ConfigError(
    `port ${port} is taken${owner ? ` by ${owner}` : ''}; end that, or choose another servers.portStart`,
  );
}

interface Started extends Launched {
  /** Why it is no more, with its last lines; undefined while it runs. */
  failure(): string | undefined;
  lastLines(): string;
}

function startProcess({ program, arguments: flags, environment, url }: LaunchCommand): Started {
  const child = spawn(program, [...flags], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true, // a group of its own, so that its children end with it
  });
  const lines: string[] = [];
  let failed: string | undefined;
  for (const out of [child.stdout, child.stderr]) {
    createInterface(out).on('line', (line) => {
      lines.push(line);
      if (lines.length > LOG_LINES) lines.shift();
    });
  }
  child.on('error', (error) => {
    failed = `${program} could not be started: ${error.message}`;
  });
  child.on('exit', (code, signal) => {
    failed ??= `${program} ended with ${signal ?? `code ${code}`}`;
  });
  const endWithParent = () => killGroup(child, 'SIGKILL');
  process.once('exit', endWithParent);
  const lastLines = () => (lines.length === 0 ? '(it printed nothing)' : lines.join('\n'));
  return {
    url,
    failure: () => failed,
    lastLines,
    stop: async () => {
      process.off('exit', endWithParent);
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      killGroup(child, 'SIGTERM');
      const hard = setTimeout(() => killGroup(child, 'SIGKILL'), STOP_MS);
      await exited;
      clearTimeout(hard);
    },
  };
}

function killGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // it has ended
  }
}

async function untilReady(
  server: Started,
  { startSeconds, ready, clock = realClock(), signal }: StartOptions,
) {
  const began = clock.now();
  while (!(await ready(server.url))) {
    const failure = server.failure();
    if (failure) throw new EngineError(`${server.url}: ${failure}. Its last lines:\n${server.lastLines()}`);
    if (clock.now() - began > startSeconds * 1000) {
      throw new EngineError(
        `${server.url} was not ready in ${startSeconds} s (servers.startSeconds). Its last lines:\n${server.lastLines()}`,
      );
    }
    await sleep(clock, POLL_MS, signal);
  }
}
