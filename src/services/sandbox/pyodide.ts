/**
 * Python in Pyodide, CPython compiled to wasm, in a separate process. Walls from the inside out: the doors to JavaScript
 * and C are closed in Python; its memory is a wasm memory of bounded size, its disk is in memory; the JavaScript around it is a realm
 * without modules, network or `eval`; the process has an empty environment and Node's permissions, and is killed if it does
 * not answer in time. Each program has a new memory and a new realm.
 */
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { ConfigError, ToolError } from '../../errors.ts';
import { interpreterPool } from './interpreter-pool.ts';
import { folderOf, startPlainNode } from './node-box.ts';
import type { Sandbox, SandboxLimits } from './sandbox.ts';

/** Each takes about 250 MB. */
const PROCESSES = Math.max(2, availableParallelism());
const SNAPSHOT_MS = 120_000;

export interface PyodideOptions {
  readonly limits: SandboxLimits;
  readonly sessions: number;
  readonly description: string;
}

export async function openPyodide({ limits, sessions, description }: PyodideOptions): Promise<Sandbox> {
  const memory = await snapshot();
  const sandbox = interpreterPool({
    ...{ language: 'python', boundary: 'interpreter', description, limits, sessions },
    processes: PROCESSES,
    start: () => {
      const child = startProcess(limits);
      child.stdin!.write(`${memory.length}\n`);
      child.stdin!.write(memory);
      return child;
    },
  });
  const probe = await sandbox.run('print(6 * 7)').catch((cause: Error) => ({
    ...{ status: 'error', stdout: '', stderr: cause.message },
  }));
  if (probe.status === 'ok' && probe.stdout === '42\n') return sandbox;
  await sandbox.close();
  throw new ConfigError(
    `Pyodide, the sandbox for Python, does not work here (${probe.stderr.trim() || probe.status})`,
  );
}

const startProcess = (limits: SandboxLimits, ...words: readonly string[]) =>
  startPlainNode({
    module: './pyodide-process',
    callerUrl: import.meta.url,
    packages: ['pyodide'],
    memoryMiB: limits.memoryMiB,
    words: [JSON.stringify(limits), folderOf('pyodide'), ...words],
    flags: ['--max-old-space-size=192'],
  });

let made: Promise<Buffer> | undefined;

/** A memory in which Python has started: made once, before any program has run, and given to every process. */
function snapshot(): Promise<Buffer> {
  made ??= makeSnapshot().catch((error: unknown) => {
    made = undefined;
    throw error;
  });
  return made;
}

async function makeSnapshot(): Promise<Buffer> {
  const child = startProcess({} as SandboxLimits, 'snapshot');
  const timer = setTimeout(() => child.kill('SIGKILL'), SNAPSHOT_MS);
  const parts: Buffer[] = [];
  let errors = '';
  child.stdout!.on('data', (part: Buffer) => parts.push(part));
  child.stderr!.on('data', (part: Buffer) => {
    errors = (errors + part.toString()).slice(-2000);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  clearTimeout(timer);
  if (code === 0 && parts.length > 0) return Buffer.concat(parts);
  throw new ToolError(`the sandbox for Python did not start: ${errors.trim() || `exit code ${code}`}`);
}
