import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface Call {
  readonly name: string;
  readonly body: Record<string, unknown> | undefined;
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface StartedServer {
  readonly url: string;
  readonly process: ChildProcess;
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** Starts a program that prints `listening PORT`, or ends with what it printed instead. */
export async function startProcess(
  command: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<StartedServer> {
  const child = spawn(process.execPath, [...command], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (text) => {
    errors += text;
  });
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    await once(child, 'exit');
  };
  for await (const line of createInterface(child.stdout)) {
    const port = /listening (?:\S*:)?(\d+)/.exec(line)?.[1];
    if (port === undefined) continue;
    child.stdout.resume();
    return { url: `http://127.0.0.1:${port}`, process: child, stop };
  }
  throw new Error(`${command.join(' ')} ended before it listened: ${errors}`);
}

export async function startStandIn(
  engine: 'sglang' | 'vllm',
  settings: Readonly<Record<string, unknown>> = {},
  /** Any that is free. */
  port = 0,
): Promise<StartedServer & { calls(name?: string): Promise<Call[]> }> {
  const script = fileURLToPath(new URL(`./${engine}.mjs`, import.meta.url));
  const started = await startProcess([script, JSON.stringify(settings)], { PORT: String(port) });
  return {
    ...started,
    calls: async (name) => {
      const all = (await (await fetch(`${started.url}/stand-in/calls`)).json()) as Call[];
      return name === undefined ? all : all.filter((call) => call.name === name);
    },
  };
}
