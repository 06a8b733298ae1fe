/** Programs that share one Python, within bubblewrap. */
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { ToolError } from '../../errors.ts';
import type { Semaphore } from '../../lib/semaphore.ts';
import type { SandboxLimits, SandboxResult, SandboxRunOptions, SandboxSession } from './sandbox.ts';
import { sandboxSession } from './session.ts';

/**
 * Before each program comes a line: its length, its input's length, and a mark to print on both streams when it has
 * ended. A program that learns its mark can only end its own output early.
 */
export const SESSION_BOOT = `import io, os, sys, traceback
sys.argv = ['program.py']
pipe, names = os.fdopen(os.dup(0), 'rb'), {'__name__': '__main__'}
while True:
    line = pipe.readline().split()
    if len(line) < 3: break
    code = pipe.read(int(line[0])).decode()
    sys.stdin = io.TextIOWrapper(io.BytesIO(pipe.read(int(line[1]))), encoding='utf-8')
    ended = 'ok'
    try:
        exec(compile(code, 'program.py', 'exec'), names)
    except SystemExit as exit:
        if exit.code not in (None, 0): ended = 'error'
    except BaseException as error:
        ended = 'memory' if isinstance(error, MemoryError) else 'error'
        traceback.print_exception(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
    sys.stdout.flush(); sys.stderr.flush()
    os.write(1, line[2]); os.write(2, line[2] + ended.encode() + b'\\n')`;

export interface PythonSessionOptions {
  readonly limits: SandboxLimits;
  /** Places for sessions that have a process. */
  readonly places: Semaphore;
  start(): ChildProcess;
}

export function pythonSession({ limits, places, start }: PythonSessionOptions): SandboxSession {
  let child: ChildProcess | undefined;
  return sandboxSession(places, {
    open: async () => {
      child ??= start();
    },
    run: async (code, options) => {
      const result = await ask(child!, code, limits, options);
      return { result, isSound: result.status === 'ok' || result.status === 'error' };
    },
    end: () => {
      if (child?.pid !== undefined) child.kill('SIGKILL');
      child = undefined;
    },
  });
}

function ask(
  child: ChildProcess,
  code: string,
  limits: SandboxLimits,
  { stdin = '', signal }: SandboxRunOptions,
): Promise<SandboxResult> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const began = performance.now();
    const mark = randomUUID();
    const text = { stdout: '', stderr: '' };
    const settle = (status: SandboxResult['status']) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      child.off('close', onClose).off('error', onError);
      for (const name of ['stdout', 'stderr'] as const) child[name]!.removeAllListeners('data');
      const shown = (said: string) => said.split(mark)[0]!.slice(0, limits.outputBytes);
      resolve({
        status,
        stdout: shown(text.stdout),
        stderr: shown(text.stderr),
        milliseconds: performance.now() - began,
      });
    };
    const onAbort = () => {
      settle('timeout');
      reject(signal?.reason);
    };
    const onClose = () => settle('memory');
    const onError = (cause: Error) =>
      reject(new ToolError(`the sandbox for Python did not start: ${cause.message}`, { cause }));
    const timer = setTimeout(() => settle('timeout'), limits.milliseconds);
    signal?.addEventListener('abort', onAbort, { once: true });
    child.on('close', onClose).on('error', onError);
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]!.setEncoding('utf8').on('data', (part: string) => {
        text[name] += part;
        const ended = new RegExp(`${mark}(ok|error|memory)\\n$`).exec(text.stderr)?.[1];
        if (ended !== undefined && text.stdout.includes(mark)) settle(ended as SandboxResult['status']);
        else if (text.stdout.length + text.stderr.length > limits.outputBytes + 2 * mark.length + 8)
          settle('output');
      });
    }
    child.stdin!.on('error', () => {}); // it ended; `close` tells
    const program = Buffer.from(code);
    const input = Buffer.from(stdin);
    child.stdin!.write(
      Buffer.concat([Buffer.from(`${program.length} ${input.length} ${mark}\n`), program, input]),
    );
  });
}
