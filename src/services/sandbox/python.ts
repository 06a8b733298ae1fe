/** Python in bubblewrap, with a read-only `/usr` and a small temporary disk. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { ConfigError, ToolError } from '../../errors.ts';
import { type BoxPrograms, boxCommand, boxUser, findBoxPrograms, mebibytes, usrLinks } from './bubblewrap.ts';
import type { Sandbox, SandboxLimits, SandboxResult, SandboxRunOptions } from './sandbox.ts';

const PYTHON = '/usr/bin/python3';

export async function openPythonSandbox(limits: SandboxLimits): Promise<Sandbox> {
  const programs = findBoxPrograms();
  const missing = [
    ...('missing' in programs ? programs.missing : []),
    ...(existsSync(PYTHON) ? [] : [PYTHON]),
  ];
  if ('missing' in programs || missing.length > 0) {
    throw new ConfigError(
      `Python code is run only in a sandbox, which needs ${missing.join(', ')}. Without it, use JavaScript or a sandbox server (sandbox_fusion_url)`,
    );
  }
  const sandbox = makeSandbox({ programs, limits });
  const probe = await sandbox.run('print(6 * 7)');
  if (probe.status === 'ok' && probe.stdout === '42\n') return sandbox;
  throw new ConfigError(
    `Python code is run only in a sandbox, and bubblewrap does not work here (${probe.stderr.trim() || probe.status}). ` +
      'It needs user namespaces; use JavaScript or a sandbox server (sandbox_fusion_url)',
  );
}

interface Means {
  readonly programs: BoxPrograms;
  readonly limits: SandboxLimits;
}

function makeSandbox(means: Means): Sandbox {
  const running = new Set<ChildProcess>();
  return {
    language: 'python',
    boundary: 'system',
    run: (code, options) => runOnce(code, means, running, options),
    close: async () => {
      running.forEach(kill);
    },
  };
}

const commandLine = ({ programs, limits }: Means) =>
  boxCommand(programs, {
    mounts: [
      ...['--ro-bind', '/usr', '/usr', ...usrLinks(['bin', 'lib', 'lib64'])],
      ...['--size', String(mebibytes(limits.diskMiB)), '--tmpfs', '/tmp'],
    ],
    environment: { PATH: '/usr/bin', HOME: '/tmp', PYTHONIOENCODING: 'utf-8' },
    bounds: {
      as: mebibytes(limits.memoryMiB),
      nproc: limits.processes,
      cpu: Math.ceil(limits.cpuSeconds),
      fsize: mebibytes(limits.diskMiB),
    },
    directory: '/tmp',
    command: [PYTHON, '-I', '-B', '-c', BOOT],
  });

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
    const child = spawn(...commandLine(means), {
      env: {},
      cwd: '/',
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
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
