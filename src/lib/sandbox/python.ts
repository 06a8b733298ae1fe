/**
 * Python in bubblewrap: new namespaces for processes, network, users, names and messages, a read-only `/usr`, a small
 * temporary disk, no environment. `prlimit` bounds each process. As root the sandbox first becomes `nobody`, for whom
 * the number of processes can be bounded.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { ConfigError } from '../../errors.ts';
import type { Sandbox, SandboxLimits, SandboxResult, SandboxRunOptions } from './sandbox.ts';

const PYTHON = '/usr/bin/python3';
const NOBODY = 65_534;

export async function openPythonSandbox(limits: SandboxLimits): Promise<Sandbox> {
  const [bwrap, prlimit] = ['bwrap', 'prlimit'].map(findProgram);
  const missing = [
    ...(process.platform === 'linux' ? [] : [`Linux (this is ${process.platform})`]),
    ...(bwrap ? [] : ['bubblewrap (Debian, Ubuntu: apt-get install bubblewrap)']),
    ...(prlimit ? [] : ['prlimit (util-linux)']),
    ...(existsSync(PYTHON) ? [] : [PYTHON]),
  ];
  if (!bwrap || !prlimit || missing.length > 0) {
    throw new ConfigError(
      `Python code is run only in a sandbox, which needs ${missing.join(', ')}. Without it, use JavaScript or a sandbox server (sandbox_fusion_url)`,
    );
  }
  const sandbox = makeSandbox({ bwrap, prlimit, limits });
  const probe = await sandbox.run('print(6 * 7)');
  if (probe.status === 'ok' && probe.stdout === '42\n') return sandbox;
  throw new ConfigError(
    `Python code is run only in a sandbox, and bubblewrap does not work here (${probe.stderr.trim() || probe.status}). ` +
      'It needs user namespaces; use JavaScript or a sandbox server (sandbox_fusion_url)',
  );
}

function findProgram(name: string): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file));
}

interface Programs {
  readonly bwrap: string;
  readonly prlimit: string;
  readonly limits: SandboxLimits;
}

function makeSandbox(programs: Programs): Sandbox {
  const running = new Set<ChildProcess>();
  return {
    language: 'python',
    run: (code, options) => runOnce(code, programs, running, options),
    close: async () => {
      for (const child of running) child.kill('SIGKILL');
    },
  };
}

function commandLine({ bwrap, prlimit, limits }: Programs): [string, string[]] {
  const { cpuSeconds, memoryMiB, processes, diskMiB } = limits;
  const bytes = (mebibytes: number) => String(mebibytes * 1024 * 1024);
  const links = ['bin', 'lib', 'lib64'].flatMap((name) => ['--symlink', `usr/${name}`, `/${name}`]);
  const box = [
    ...['--unshare-all', '--unshare-user', '--disable-userns', '--die-with-parent', '--new-session'],
    ...['--cap-drop', 'ALL', '--hostname', 'sandbox', '--clearenv'],
    ...['--setenv', 'PATH', '/usr/bin', '--setenv', 'HOME', '/tmp', '--setenv', 'PYTHONIOENCODING', 'utf-8'],
    ...['--ro-bind', '/usr', '/usr', ...links, '--proc', '/proc', '--dev', '/dev'],
    ...['--size', bytes(diskMiB), '--tmpfs', '/tmp', '--remount-ro', '/dev', '--remount-ro', '/'],
    ...['--chdir', '/tmp', '--'],
  ];
  const bounds = [
    `--as=${bytes(memoryMiB)}`,
    `--nproc=${processes}`,
    `--cpu=${cpuSeconds}`,
    `--fsize=${bytes(diskMiB)}`,
    ...['--nofile=64', '--core=0', '--memlock=0', '--msgqueue=0'],
  ];
  return [bwrap, [...box, prlimit, ...bounds, '--', PYTHON, '-I', '-B', '-c', BOOT]];
}

/** The program comes as the first line of stdin, so that neither its length nor its text meets a command line. */
const BOOT = `import sys
size = int(sys.stdin.buffer.readline())
code = sys.stdin.buffer.read(size).decode()
sys.argv = ['program.py']
exec(compile(code, 'program.py', 'exec'), {'__name__': '__main__'})`;

function runOnce(
  code: string,
  programs: Programs,
  running: Set<ChildProcess>,
  { stdin = '', signal }: SandboxRunOptions = {},
): Promise<SandboxResult> {
  const { limits } = programs;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const began = performance.now();
    const isRoot = process.getuid?.() === 0;
    const child = spawn(...commandLine(programs), {
      env: {},
      cwd: '/',
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
      ...(isRoot && { uid: NOBODY, gid: NOBODY }),
    });
    running.add(child);
    let ended: SandboxResult['status'] | undefined;
    let bytes = 0;
    const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
    const end = (why: SandboxResult['status']) => {
      ended ??= why;
      child.kill('SIGKILL'); // the first process of the namespace: the kernel ends all others with it
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
    const settle = (status: SandboxResult['status'], more = '') => {
      clearTimeout(timer);
      running.delete(child);
      signal?.removeEventListener('abort', onAbort);
      if (signal?.aborted) return reject(signal.reason);
      const text = (name: keyof typeof output) => Buffer.concat(output[name]).toString('utf8');
      resolve({
        status,
        stdout: text('stdout'),
        stderr: text('stderr') + more,
        milliseconds: performance.now() - began,
      });
    };
    child.on('error', (error) => settle('error', error.message));
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
