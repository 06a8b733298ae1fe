/**
 * JavaScript in QuickJS, compiled to wasm, in a separate process. Walls from the inside out: the interpreter knows no
 * host objects; its memory is a wasm memory; the process lives in bubblewrap where Linux has it, and is killed if it
 * does not answer in time. What the process says is read as if the program inside had taken it over.
 */
import type { ChildProcess } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { z } from 'zod';
import { ConfigError, ToolError } from '../../errors.ts';
import { semaphore } from '../../lib/semaphore.ts';
import { findBoxPrograms } from './bubblewrap.ts';
import { startBoxedNode, startPlainNode } from './node-box.ts';
import type { Boundary, Sandbox, SandboxLimits, SandboxResult, SandboxRunOptions } from './sandbox.ts';

/** A process that has not started within this long is taken for dead. */
const START_MS = 30_000;
/** Hundreds of trajectories may call at the same moment: they share these. */
const PROCESSES = Math.max(8, 2 * availableParallelism());
const PACKAGES = [
  'quickjs-emscripten-core',
  '@jitl/quickjs-ng-wasmfile-release-sync',
  '@jitl/quickjs-ffi-types',
];

export async function openQuickJs(limits: SandboxLimits, boundary?: Boundary): Promise<Sandbox> {
  // Only Linux has a boundary of the system that is used here; where it should be, it is not done without.
  const wanted = boundary ?? (process.platform === 'linux' ? 'system' : 'interpreter');
  const sandbox = makeSandbox(limits, wanted);
  const probe = await sandbox.run('console.log(6 * 7)').catch((cause: Error) => ({
    status: 'error',
    stdout: '',
    stderr: cause.message,
  }));
  if (probe.status === 'ok' && probe.stdout === '42\n') return sandbox;
  await sandbox.close();
  const why = probe.stderr.trim() || probe.status;
  throw new ConfigError(
    wanted === 'interpreter'
      ? `the sandbox for JavaScript does not work here (${why})`
      : `JavaScript is contained by bubblewrap here, and that does not work (${why}). It needs user namespaces; ` +
          "boundary: 'interpreter' trusts the walls of QuickJS and its process alone",
  );
}

function starter(limits: SandboxLimits, boundary: Boundary): () => ChildProcess {
  const program = {
    module: './quickjs-process',
    callerUrl: import.meta.url,
    packages: PACKAGES,
    memoryMiB: limits.memoryMiB,
    words: [JSON.stringify(limits)],
  };
  if (boundary === 'interpreter') return () => startPlainNode(program);
  const programs = findBoxPrograms();
  if (!('missing' in programs)) return () => startBoxedNode(programs, program);
  throw new ConfigError(
    `JavaScript is contained by the system's own boundary, which needs ${programs.missing.join(', ')}. ` +
      "boundary: 'interpreter' trusts the walls of QuickJS and its process alone",
  );
}

function makeSandbox(limits: SandboxLimits, boundary: Boundary): Sandbox {
  const start = starter(limits, boundary);
  const slots = semaphore(PROCESSES);
  const idle: Interpreter[] = [];
  const all = new Set<Interpreter>();

  async function take(signal: AbortSignal | undefined): Promise<Interpreter> {
    const known = idle.pop();
    if (known) return known;
    const fresh = interpreter(start(), limits);
    all.add(fresh);
    const first = await fresh.answer(START_MS, signal).catch((reason: unknown) => {
      drop(fresh);
      throw reason;
    });
    if (first.kind === 'said' && first.line === 'ready') return fresh;
    drop(fresh);
    throw new ToolError(`the sandbox for JavaScript did not start: ${fresh.errors() || first.kind}`);
  }

  function drop(one: Interpreter): void {
    all.delete(one);
    one.kill();
  }

  return {
    language: 'javascript',
    boundary,
    run: (code: string, { stdin = '', signal }: SandboxRunOptions = {}) =>
      slots.run(async () => {
        const one = await take(signal);
        const began = performance.now();
        one.ask(JSON.stringify({ code, stdin }));
        // The interpreter looks at its own clock; the process is killed for what the interpreter cannot interrupt.
        const answer = await one.answer(limits.milliseconds + 500, signal).catch((reason: unknown) => {
          drop(one);
          throw reason;
        });
        const milliseconds = performance.now() - began;
        const result = answer.kind === 'said' ? readResult(answer.line) : undefined;
        if (result?.status === 'ok' || result?.status === 'error') idle.push(one);
        else drop(one); // a run that met a limit may have left the interpreter's heap in any state
        const ended = { late: 'timeout', flooded: 'output', gone: 'memory', said: 'error' } as const;
        return { ...(result ?? { status: ended[answer.kind], stdout: '', stderr: '' }), milliseconds };
      }, signal),
    close: async () => {
      for (const one of all) drop(one);
    },
  };
}

const resultSchema = z.object({
  status: z.enum(['ok', 'error', 'timeout', 'memory', 'output']),
  stdout: z.string(),
  stderr: z.string(),
});

function readResult(line: string): Omit<SandboxResult, 'milliseconds'> | undefined {
  try {
    return resultSchema.parse(JSON.parse(line));
  } catch {
    return undefined;
  }
}

type Answer =
  | { readonly kind: 'said'; readonly line: string }
  | { readonly kind: 'late' | 'flooded' | 'gone' };

interface Interpreter {
  ask(line: string): void;
  /** The next line. While none is awaited the process keeps no program alive. */
  answer(milliseconds: number, signal: AbortSignal | undefined): Promise<Answer>;
  errors(): string;
  kill(): void;
}

function interpreter(child: ChildProcess, { outputBytes }: SandboxLimits): Interpreter {
  const [stdin, stdout, stderr] = [child.stdin!, child.stdout!, child.stderr!];
  const handles = [child, ...([stdin, stdout, stderr] as unknown as { ref(): void; unref(): void }[])];
  // A character of output is at most six of JSON.
  const mostBytes = 6 * outputBytes + 4096;
  let heard = '';
  let errors = '';
  let settle: ((answer: Answer) => void) | undefined;
  const look = () => {
    const end = heard.indexOf('\n');
    if (end < 0 && heard.length > mostBytes) return settle?.({ kind: 'flooded' });
    if (end < 0 || settle === undefined) return;
    const line = heard.slice(0, end);
    heard = heard.slice(end + 1);
    settle({ kind: 'said', line });
  };
  stdin.on('error', () => {}); // its end reports that
  stdout.setEncoding('utf8').on('data', (text: string) => {
    if (heard.length <= mostBytes) heard += text;
    look();
  });
  stderr.setEncoding('utf8').on('data', (text: string) => {
    if (errors.length < 2000) errors += text;
  });
  child.on('error', (error) => {
    errors += error.message;
    settle?.({ kind: 'gone' });
  });
  child.on('close', () => settle?.({ kind: 'gone' }));
  return {
    ask: (line) => void stdin.write(`${line}\n`),
    answer: (milliseconds, signal) =>
      new Promise((resolve, reject) => {
        for (const handle of handles) handle.ref();
        const finish = () => {
          settle = undefined;
          clearTimeout(timer);
          signal?.removeEventListener('abort', onAbort);
          for (const handle of handles) handle.unref();
        };
        const onAbort = () => {
          finish();
          reject(signal?.reason);
        };
        const timer = setTimeout(() => settle?.({ kind: 'late' }), milliseconds);
        signal?.addEventListener('abort', onAbort, { once: true });
        settle = (answer) => {
          finish();
          resolve(answer);
        };
        if (child.exitCode !== null || child.signalCode !== null) settle({ kind: 'gone' });
        else look();
      }),
    errors: () => errors.trim(),
    // Where the program could not be started, Node would signal the whole process group.
    kill: () => void (child.pid !== undefined && child.kill('SIGKILL')),
  };
}
