/** Servers that a run starts itself, one process a replica: restarted when they crash, stopped when the run ends. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, EngineError } from '../errors.ts';
import { type Clock, realClock, sleep } from '../lib/clock.ts';
import { ownProgram } from '../lib/own-program.ts';
import type { LaunchCommand } from './engine.ts';
import { isPortTaken, portOwner } from './port.ts';

export interface Launched {
  readonly url: string;
  /** Ends the process and all that it started. */
  stop(): Promise<void>;
}

export interface StartOptions {
  readonly startSeconds: number;
  ready(url: string): Promise<boolean>;
  /** What servers print goes to files here, `server-PORT.log`. */
  readonly logDirectory: string;
  /** Receives one line when a server has ended and is started again. */
  readonly log: (line: string) => void;
  readonly clock?: Clock;
  readonly signal?: AbortSignal | undefined;
}

const POLL_MS = 250;
const LOG_LINES = 30;
const FIRST_RESTART_MS = 1000;
const LONGEST_RESTART_MS = 60_000;

/** All of them, ready; or none, and an error with the last lines of the one that failed. */
export async function startServers(
  commands: readonly LaunchCommand[],
  options: StartOptions,
): Promise<Launched[]> {
  for (const { url } of commands) await refuseTakenPort(url);
  mkdirSync(options.logDirectory, { recursive: true });
  const started = commands.map((command) => new GuardedServer(command, options));
  try {
    await Promise.all(started.map((server) => server.untilReady()));
    return started;
  } catch (error) {
    await Promise.all(started.map((server) => server.stop()));
    throw error;
  }
}

export async function refuseTakenPort(url: string): Promise<void> {
  const port = Number(new URL(url).port);
  if (!(await isPortTaken(port))) return;
  const owner = await portOwner(port);
  throw new ConfigError(
    `port ${port} is taken${owner ? ` by ${owner}` : ''}; end that, or choose another servers.portStart`,
  );
}

/** A server under bin/guard.js, which ends it when this process is gone, also by SIGKILL. */
class GuardedServer implements Launched {
  readonly url: string;
  readonly #command: LaunchCommand;
  readonly #options: StartOptions;
  readonly #clock: Clock;
  readonly #logFile: string;
  #guard: ChildProcess;
  /** Why it has ended; undefined while it runs. */
  #ended: string | undefined;
  #wasReady = false;
  #stopping = false;
  #restarts = 0;
  #cancelRestart = () => {};

  constructor(command: LaunchCommand, options: StartOptions) {
    this.url = command.url;
    this.#command = command;
    this.#options = options;
    this.#clock = options.clock ?? realClock();
    this.#logFile = join(options.logDirectory, `server-${new URL(command.url).port}.log`);
    this.#guard = this.#start('w');
  }

  async untilReady(): Promise<void> {
    const { startSeconds, ready, signal } = this.#options;
    const began = this.#clock.now();
    while (!(await ready(this.url))) {
      if (this.#ended) throw this.#failure(this.#ended);
      if (this.#clock.now() - began > startSeconds * 1000) {
        throw this.#failure(`it was not ready in ${startSeconds} s (servers.startSeconds)`);
      }
      await sleep(this.#clock, POLL_MS, signal);
    }
    this.#wasReady = true;
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#cancelRestart();
    const guard = this.#guard;
    if (guard.exitCode !== null || guard.signalCode !== null || guard.pid === undefined) return;
    const exited = once(guard, 'exit');
    guard.ref();
    guard.stdin?.end();
    await exited;
  }

  #start(mode: 'w' | 'a'): ChildProcess {
    const { program, arguments: words, environment } = this.#command;
    const file = openSync(this.#logFile, mode);
    const guard = spawn(process.execPath, [ownProgram('guard.js'), program, ...words], {
      env: { ...process.env, ...environment },
      stdio: ['pipe', file, file],
      detached: true, // Ctrl-C is for the run, which then ends its servers in order
    });
    closeSync(file);
    // Neither keeps the run alive.
    guard.unref();
    if (guard.stdin && 'unref' in guard.stdin) (guard.stdin as { unref(): void }).unref();
    guard.stdin?.on('error', () => {}); // the guard has ended
    guard.once('exit', (code, signal) => this.#onExit(`it ended with ${signal ?? `code ${code}`}`));
    return guard;
  }

  #onExit(why: string): void {
    this.#ended = why;
    if (this.#stopping || !this.#wasReady) return;
    const wait = Math.min(FIRST_RESTART_MS * 2 ** this.#restarts++, LONGEST_RESTART_MS);
    this.#options.log(`${this.url}: ${why} (${this.#logFile}); it is started again in ${wait / 1000} s`);
    this.#cancelRestart = this.#clock.timer(wait, () => {
      this.#ended = undefined;
      this.#guard = this.#start('a');
    });
  }

  #failure(why: string): EngineError {
    return new EngineError(`${this.url}: ${why}. Its last lines (${this.#logFile}):\n${this.#lastLines()}`);
  }

  #lastLines(): string {
    const lines = readFileSync(this.#logFile, 'utf8').trimEnd().split('\n');
    return lines.join('') === '' ? '(it printed nothing)' : lines.slice(-LOG_LINES).join('\n');
  }
}
