import { execFile } from 'node:child_process';
import { createConnection } from 'node:net';
import { availableParallelism, cpus, freemem, totalmem } from 'node:os';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import pc from 'picocolors';
import { openKernels } from '../engine/kernels/open.ts';
import { messageOf } from '../lib/error-message.ts';
import { openSandbox } from '../services/sandbox/open-sandbox.ts';
import { apiKeyOption } from './api-key.ts';
import { whole } from './number.ts';

const run = promisify(execFile);

interface Finding {
  readonly what: string;
  readonly found: string;
  /** `missing` is fine unless the user wants what it enables; `wrong` is not. */
  readonly state: 'good' | 'missing' | 'wrong';
  readonly advice?: string;
}

interface DoctorFlags {
  readonly server?: readonly string[];
  readonly port?: readonly number[];
  readonly apiKey?: string;
  readonly json?: boolean;
}

const port = whole(1, 65_535);
const ports = (text: string, before: readonly number[] = []) => [...before, port(text)];

export function registerDoctor(program: Command): void {
  program
    .command('doctor')
    .description('what this machine offers, what is used and why, and what is wrong')
    .option('--server <url...>', 'inference servers to ask')
    .option('--port <port...>', 'ports that must be free', ports)
    .option('--json', 'print JSON')
    .addOption(apiKeyOption())
    .action(async ({ server = [], port = [], apiKey, json }: DoctorFlags) => {
      const findings = (
        await Promise.all([
          checkNode(),
          checkMemory(),
          checkCompiler(),
          checkKernels(),
          checkPython(),
          checkSandbox('python'),
          checkSandbox('javascript'),
          checkGpus(),
          ...server.map((url) => checkServer(url, apiKey)),
          ...port.map(checkPort),
        ])
      ).flat();
      if (json) console.log(JSON.stringify(findings));
      else for (const finding of findings) console.log(describe(finding));
      const wrong = findings.filter((finding) => finding.state === 'wrong');
      if (!json)
        console.log(
          wrong.length === 0 ? pc.green('\nNothing is wrong.') : pc.red(`\n${wrong.length} wrong.`),
        );
      if (wrong.length > 0) process.exitCode = 1;
    });
}

function describe({ what, found, state, advice }: Finding): string {
  const mark = { good: pc.green('✓'), missing: pc.dim('–'), wrong: pc.red('✗') }[state];
  return `${mark} ${what.padEnd(10)} ${found}${advice ? pc.dim(`\n             ${advice}`) : ''}`;
}

async function checkNode(): Promise<Finding> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const fine = major > 20 || (major === 20 && minor >= 19);
  return fine
    ? { what: 'Node', found: process.version, state: 'good' }
    : { what: 'Node', found: process.version, state: 'wrong', advice: 'Rollcall needs 20.19 or newer.' };
}

async function checkMemory(): Promise<Finding> {
  const gigabytes = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GB`;
  const found = `${gigabytes(freemem())} of ${gigabytes(totalmem())} free; ${availableParallelism()} cores, ${cpus()[0]?.model ?? 'unknown CPU'}`;
  return freemem() > 2 ** 29
    ? { what: 'Memory', found, state: 'good' }
    : { what: 'Memory', found, state: 'wrong', advice: 'The quick start needs about 0.5 GB.' };
}

async function checkCompiler(): Promise<Finding> {
  for (const compiler of ['cc', 'gcc', 'clang']) {
    const version = await firstLine(compiler, ['--version']);
    if (version) return { what: 'Compiler', found: `${compiler}: ${version}`, state: 'good' };
  }
  return {
    what: 'Compiler',
    found: 'none',
    state: 'missing',
    advice:
      'The wasm kernels are used; a C compiler (gcc or clang) makes the embedded engine two to four times faster.',
  };
}

async function checkKernels(): Promise<Finding> {
  const said: string[] = [];
  try {
    const kernels = await openKernels({ log: (line) => said.push(line) });
    const found = kernels.description;
    await kernels.close();
    return { what: 'Kernels', found, state: 'good', ...(said.length > 0 ? { advice: said.join(' ') } : {}) };
  } catch (error) {
    return { what: 'Kernels', found: messageOf(error), state: 'wrong', advice: said.join(' ') };
  }
}

async function checkPython(): Promise<Finding> {
  const version = await firstLine('python3', ['--version']);
  const advice =
    'Nothing here needs Python: only SGLang and vLLM servers, and the benches against torch and asyncio, do.';
  if (!version) return { what: 'Python', found: 'none', state: 'missing', advice };
  const script =
    'import importlib.metadata as m\nfor n in ("torch","transformers"):\n  try: print(n, m.version(n))\n  except m.PackageNotFoundError: print(n, "absent")';
  const { stdout } = await run('python3', ['-c', script], { timeout: 10_000 }).catch(() => ({ stdout: '' }));
  const packages = stdout.trim().split('\n').join(', ');
  const state = packages.includes('absent') || packages === '' ? 'missing' : 'good';
  return {
    what: 'Python',
    found: `${version}; ${packages}`,
    state,
    ...(state === 'missing' ? { advice } : {}),
  };
}

/** Opens it, because only then is it known to work. */
async function checkSandbox(language: 'python' | 'javascript'): Promise<Finding> {
  const what = `Sandbox`;
  const name = { python: 'Python', javascript: 'JavaScript' }[language];
  try {
    const sandbox = await openSandbox(language);
    await sandbox.close();
    const advice =
      sandbox.boundary === 'system' ? {} : { advice: 'docs/sandbox.md says what each boundary holds.' };
    return { what, found: `${name}: ${sandbox.description}`, state: 'good', ...advice };
  } catch (error) {
    return { what, found: `${name}: ${messageOf(error)}`, state: 'wrong' };
  }
}

async function checkGpus(): Promise<Finding> {
  const query = ['--query-gpu=name,memory.total', '--format=csv,noheader'];
  const { stdout } = await run('nvidia-smi', query, { timeout: 10_000 }).catch(() => ({ stdout: '' }));
  const gpus = stdout.trim();
  return gpus === ''
    ? {
        what: 'GPUs',
        found: 'none found by nvidia-smi',
        state: 'missing',
        advice: 'The embedded engine needs none.',
      }
    : { what: 'GPUs', found: gpus.split('\n').join('; '), state: 'good' };
}

/** Asks what SGLang and vLLM both answer without generating. */
async function checkServer(url: string, apiKey: string | undefined): Promise<Finding> {
  const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  for (const path of ['/model_info', '/get_model_info', '/v1/models']) {
    try {
      const response = await fetch(new URL(path, url), { headers, signal: AbortSignal.timeout(3000) });
      if (response.status === 401) {
        return {
          what: 'Server',
          found: `${url} wants a key`,
          state: 'wrong',
          advice: 'Give the key it was started with: --api-key or ROLLCALL_API_KEY.',
        };
      }
      if (response.ok) return { what: 'Server', found: `${url} answers at ${path}`, state: 'good' };
    } catch (error) {
      const why =
        error instanceof Error && error.cause instanceof Error ? error.cause.message : messageOf(error);
      return {
        what: 'Server',
        found: `${url}: ${why}`,
        state: 'wrong',
        advice: 'Is it running, and is the port right?',
      };
    }
  }
  return { what: 'Server', found: `${url} answers, but not as SGLang or vLLM do`, state: 'wrong' };
}

async function checkPort(port: number): Promise<Finding> {
  const inUse = await new Promise<boolean>((resolve) => {
    const socket = createConnection({ host: '127.0.0.1', port, timeout: 1000 });
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => settle(true));
    socket.once('error', () => settle(false));
    socket.once('timeout', () => settle(false));
  });
  return inUse
    ? { what: 'Port', found: `${port} is in use`, state: 'wrong', advice: `See who: lsof -i :${port}` }
    : { what: 'Port', found: `${port} is free`, state: 'good' };
}

async function firstLine(command: string, words: readonly string[]): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await run(command, words, { timeout: 10_000 });
    return (stdout || stderr).split('\n')[0]?.trim();
  } catch {
    return undefined;
  }
}
