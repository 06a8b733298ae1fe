/**
 * A few processes, each with an interpreter inside, that run programs one after another. A line of JSON goes in with a
 * program, a line comes out with what became of it, then the line `ready` once the world for the next one is made.
 * What a process says is read as if the program inside had taken it over.
 */
import type { ChildProcess } from 'node:child_process';
import { z } from 'zod';
import { ToolError } from '../../errors.ts';
import { semaphore } from '../../lib/semaphore.ts';
import { mainThreadSeconds } from './processor-time.ts';
import type { Sandbox, SandboxLimits, SandboxResult, SandboxRunOptions, SandboxSession } from './sandbox.ts';
import { sandboxSession } from './session.ts';

/** A process that has not started, or not made a new world, within this long is taken for dead. */
const START_MS = 60_000;
const READY_MS = 15_000;

export interface PoolOptions extends Pick<Sandbox, 'language' | 'boundary' | 'description'> {
  readonly limits: SandboxLimits;
  /** Processes for programs that share no world. */
  readonly processes: number;
  /** Processes for sessions, beside those. */
  readonly sessions: number;
  start(): ChildProcess;
}

/** What a process is told. `keep`: the next program finds this one's world. */
export interface Program {
  readonly code: string;
  readonly stdin: string;
  readonly keep: boolean;
}

export function interpreterPool(options: PoolOptions): Sandbox {
  const { limits, start, language, boundary, description } = options;
  const slots = semaphore(options.processes);
  const sessionSlots = semaphore(options.sessions);
  const idle: Interpreter[] = [];
  /** Those that make a new world; whoever comes first takes one of them rather than start a process. */
  const preparing: Promise<Interpreter | undefined>[] = [];
  const all = new Set<Interpreter>();

  async function take(signal: AbortSignal | undefined): Promise<Interpreter> {
    for (;;) {
      const known = idle.pop() ?? (await preparing.shift());
      if (known === undefined && (idle.length > 0 || preparing.length > 0)) continue;
      return known ?? startOne(signal);
    }
  }

  async function startOne(signal: AbortSignal | undefined): Promise<Interpreter> {
    const fresh = interpreter(start(), limits);
    all.add(fresh);
    const first = await fresh.answer(START_MS, signal).catch((reason: unknown) => {
      drop(fresh);
      throw reason;
    });
    if (first.kind === 'said' && first.line === 'ready') return fresh;
    drop(fresh);
    throw new ToolError(`the sandbox for ${language} did not start: ${fresh.errors() || first.kind}`);
  }

  function drop(one: Interpreter): void {
    all.delete(one);
    one.kill();
  }

  /** Ready for a program, or `undefined` where the process is of no use any more. */
  async function ready(one: Interpreter): Promise<Interpreter | undefined> {
    const answer = await one.answer(READY_MS, undefined);
    if (answer.kind === 'said' && answer.line === 'ready') return one;
    drop(one);
    return undefined;
  }

  /** For whoever comes next. */
  function prepare(next: Promise<Interpreter | undefined>): void {
    preparing.push(next);
    void next.then((prepared) => {
      const place = preparing.indexOf(next);
      if (place < 0) return; // somebody waits for it
      preparing.splice(place, 1);
      if (prepared) idle.push(prepared);
    });
  }

  /** The result, and whether the process can be used on. */
  async function ask(
    one: Interpreter,
    program: Program,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly result: SandboxResult; readonly isSound: boolean }> {
    const began = performance.now();
    one.ask(JSON.stringify(program));
    // Interpreters look at their own clock where they can; the process is killed for what they cannot interrupt.
    const answer = await one.answer(limits.milliseconds + 500, signal, limits.cpuSeconds).catch((reason) => {
      drop(one);
      throw reason;
    });
    const milliseconds = performance.now() - began;
    const read = answer.kind === 'said' ? readResult(answer.line) : undefined;
    const isSound = read?.status === 'ok' || read?.status === 'error';
    if (!isSound) drop(one); // a run that met a limit may have left the interpreter's heap in any state
    const ended = { late: 'timeout', flooded: 'output', gone: 'memory', said: 'error' } as const;
    const result = { ...(read ?? { status: ended[answer.kind], stdout: '', stderr: '' }), milliseconds };
    return { result, isSound };
  }

  const run = (code: string, { stdin = '', signal }: SandboxRunOptions = {}) =>
    slots.run(async () => {
      const one = await take(signal);
      const { result, isSound } = await ask(one, { code, stdin, keep: false }, signal);
      prepare(isSound ? ready(one) : startOne(undefined).catch(() => undefined));
      return result;
    }, signal);

  function session(): SandboxSession {
    let world: Interpreter | undefined;
    return sandboxSession(sessionSlots, {
      open: async (signal) => {
        world ??= await take(signal);
      },
      run: async (code, { stdin = '', signal }) => {
        const current = world!;
        world = undefined; // a process that did not end well is gone
        const { result, isSound } = await ask(current, { code, stdin, keep: true }, signal);
        if (isSound) world = await ready(current);
        return { result, isSound: world !== undefined };
      },
      end: () => {
        if (world) drop(world);
        world = undefined;
      },
    });
  }

  return {
    ...{ language, boundary, description, run, session },
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

/** How often the processor time of a program is looked at, and what it may be over: QuickJS looks for itself, and first. */
const WATCH_MS = 100;
const CPU_MARGIN = 0.2;

interface Interpreter {
  ask(line: string): void;
  /** The next line. While none is awaited the process keeps no program alive. */
  answer(milliseconds: number, signal: AbortSignal | undefined, cpuSeconds?: number): Promise<Answer>;
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
    answer: (milliseconds, signal, cpuSeconds) =>
      new Promise((resolve, reject) => {
        for (const handle of handles) handle.ref();
        const before = child.pid === undefined ? undefined : mainThreadSeconds(child.pid);
        const watch =
          before === undefined || cpuSeconds === undefined
            ? undefined
            : setInterval(() => {
                const now = mainThreadSeconds(child.pid!);
                if (now !== undefined && now - before > cpuSeconds + CPU_MARGIN) settle?.({ kind: 'late' });
              }, WATCH_MS);
        const finish = () => {
          settle = undefined;
          clearTimeout(timer);
          clearInterval(watch);
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
