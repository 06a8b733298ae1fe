/** Python in bubblewrap, with a read-only `/usr` and a small temporary disk. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { ConfigError, ToolError } from '../../errors.ts';
import { semaphore } from '../../lib/semaphore.ts';
import { type BoxPrograms, boxCommand, boxUser, findBoxPrograms, mebibytes, usrLinks } from './bubblewrap.ts';
import { pythonSession, SESSION_BOOT } from './python-session.ts';
import type { Sandbox, SandboxLimits, SandboxResult, SandboxRunOptions } from './sandbox.ts';

export const PYTHON = '/usr/bin/python3';

export interface PythonOptions extends Pick<Sandbox, 'description'> {
  readonly limits: SandboxLimits;
  readonly sessions: number;
}

export async function openPythonSandbox(options: PythonOptions): Promise<Sandbox> {
  const programs = findBoxPrograms();
  const missing = [
    ...('missing' in programs ? programs.missing : []),
    ...(existsSync(PYTHON) ? [] : [PYTHON]),
  ];
  if ('missing' in programs || missing.length > 0) {
    throw new ConfigError(`the boundary 'system' needs ${missing.join(', ')}`);
  }
  const sandbox = makeSandbox({ programs, ...options });
  const probe = await sandbox.run('print(6 * 7)');
  if (probe.status === 'ok' && probe.stdout === '42\n') return sandbox;
  throw new ConfigError(
    `bubblewrap does not work here (${probe.stderr.trim() || probe.status}). It needs user namespaces`,
  );
}

export interface Means extends PythonOptions {
  readonly programs: BoxPrograms;
}

function makeSandbox(means: Means): Sandbox {
  const running = new Set<ChildProcess>();
  const places = semaphore(means.sessions);
  return {
    language: 'python',
    boundary: 'system',
    description: means.description,
    run: (code, options) => runOnce(code, means, running, options),
    session: () => pythonSession({ limits: means.limits, places, start: () => startPython(means, running) }),
    close: async () => {
      running.forEach(kill);
    },
  };
}

/** `boot` is what Python begins with. */
const commandLine = ({ programs, limits }: Means, boot: string, bounds: Readonly<Record<string, number>>) =>
  boxCommand(programs, {
    mounts: [
      ...['--ro-bind', '/usr', '/usr', ...usrLinks(['bin', 'lib', 'lib64'])],
      ...['--size', String(mebibytes(limits.diskMiB)), '--tmpfs', '/tmp'],
    ],
    environment: { PATH: '/usr/bin', HOME: '/tmp', PYTHONIOENCODING: 'utf-8' },
    bounds: {
      as: mebibytes(limits.memoryMiB),
      nproc: limits.processes,
      fsize: mebibytes(limits.diskMiB),
      ...bounds,
    },
    directory: '/tmp',
    command: [PYTHON, '-I', '-B', '-c', boot],
  });

const SPAWN = { env: {}, cwd: '/', stdio: 'pipe', detached: true } as const;

/** For a session: its processor time is not bounded in all; each program's wall clock is. */
function startPython(means: Means, running: Set<ChildProcess>): ChildProcess {
  const child = spawn(...commandLine(means, SESSION_BOOT, {}), { ...SPAWN, ...boxUser() });
  running.add(child);
  child.on('close', () => running.delete(child));
  return child;
}

/** The program comes as the first line of stdin, so that neither its length nor its text meets a command line. */
const BOOT = `import sys
size = int(sys.stdin.buffer.readline())
code = sys.stdin.buffer.read(size).decode()
sys.argv = ['program.py']
exec(compile(code, 'program.py', 'exec'), {'__name__': '__main__'})`;

function runOnce(
  code: string,
  means: Means,
  running: Set<ChildProcess>,
  { stdin = '', signal }: SandboxRunOptions = {},
): Promise<SandboxResult> {
  const { limits } = means;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const began = performance.now();
    const child = spawn(...commandLine(means, BOOT, { cpu: Math.ceil(limits.cpuSeconds) }), {
      ...SPAWN,
      ...boxUser(),
    });
    running.add(child);
    let ended: SandboxResult['status'] | undefined;
    let bytes = 0;
    const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
    const end = (why: SandboxResult['status']) => {
      ended ??= why;
      kill(child); // the first process of the namespace: the kernel ends all others with it
    };
    const timer = setTimeout(() => end('timeout'), limits.milliseconds);
    const onAbort = () => end('timeout');
    signal?.addEventListener('abort', onAbort, { once: true });
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > limits.outputBytes) return end('output');
        if (ended === undefined) output[name].push(chunk);
      });
    }
    child.stdin.on('error', () => {}); // a program that does not read
    const program = Buffer.from(code);
    child.stdin.end(Buffer.concat([Buffer.from(`${program.length}\n`), program, Buffer.from(stdin)]));
    const settle = (status: SandboxResult['status']) => {
      clearTimeout(timer);
      running.delete(child);
      signal?.removeEventListener('abort', onAbort);
      if (signal?.aborted) return reject(signal.reason);
      const text = (name: keyof typeof output) => Buffer.concat(output[name]).toString('utf8');
      resolve({
        status,
        stdout: text('stdout'),
        stderr: text('stderr'),
        milliseconds: performance.now() - began,
      });
    };
    child.on('error', (cause) => {
      clearTimeout(timer);
      running.delete(child);
      signal?.removeEventListener('abort', onAbort);
      reject(new ToolError(`the sandbox for Python did not start: ${cause.message}`, { cause }));
    });
    child.on('close', (exitCode, killedBy) => {
      if (ended !== undefined) return settle(ended);
      if (exitCode === 0) return settle('ok');
      const stderr = Buffer.concat(output.stderr).toString('utf8');
      if (/^MemoryError/m.test(stderr)) return settle('memory');
      // 128 + SIGXCPU, or SIGKILL at the hard bound: the processor time is used up.
      settle(exitCode === 152 || exitCode === 137 || killedBy ? 'timeout' : 'error');
    });
  });
}

/** Where the program could not be started there is no process, and Node would signal the whole process group. */
function kill(child: ChildProcess): void {
  if (child.pid !== undefined) child.kill('SIGKILL');
}
