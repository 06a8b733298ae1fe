/** Servers that a run starts itself, one process a replica, and stops when it ends. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { ConfigError, EngineError } from '../errors.ts';
import { type Clock, realClock, sleep } from '../lib/clock.ts';
import type { Engine, LaunchCommand, LaunchOptions } from './engine.ts';
import { isPortTaken, portOwner } from './port.ts';

/** One command line per replica, with the visible GPUs divided among them where they run on GPUs. */
export function launchCommands(
  { name, launch }: Pick<Engine, 'name' | 'launch'>,
  options: LaunchOptions,
  environment: Readonly<Record<string, string | undefined>>,
): LaunchCommand[] {
  if (!launch) throw new ConfigError(`servers of ${name} cannot be started here; give urls of running ones`);
  const gpusOf = launch.onGpus ? divideGpus(options, environment) : undefined;
  return Array.from({ length: options.replicas }, (_, replica) => {
    const port = options.portStart + replica;
    const command = launch.command(options, port);
    const gpus = gpusOf && { CUDA_VISIBLE_DEVICES: gpusOf(replica) };
    return {
      ...command,
      environment: { ...command.environment, ...gpus },
      url: `http://127.0.0.1:${port}`,
    };
  });
}

function divideGpus(
  { replicas, tensorParallel, gpus }: LaunchOptions,
  environment: Readonly<Record<string, string | undefined>>,
): (replica: number) => string {
  const needed = replicas * tensorParallel;
  const named = environment['CUDA_VISIBLE_DEVICES'];
  const visible =
    gpus ?? named?.split(',').filter(Boolean) ?? Array.from({ length: needed }, (_, gpu) => String(gpu));
  if (visible.length < needed) {
    throw new ConfigError(
      `${replicas} servers of ${tensorParallel} GPUs need ${needed}; visible are ${visible.length} (${visible.join(',') || 'none'})`,
    );
  }
  return (replica) => visible.slice(replica * tensorParallel, (replica + 1) * tensorParallel).join(',');
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
