/** Where the Python package is, and which Python runs it. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../errors.ts';

/** Versions that the proofs ran with. Newer ones may work; the worker says which it has. */
export const PACKAGES = ['torch==2.13.0', 'transformers==5.17.0', 'safetensors==0.8.0', 'numpy>=1.26,<3'];
/** PyTorch's own index has builds without CUDA, a tenth of the size. */
const CPU_INDEX = 'https://download.pytorch.org/whl/cpu';

export function environmentFolder(): string {
  return join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'rollcall', 'torch');
}

/** The environment that `rollcall torch install` made, else the `python3` that is found. */
export function defaultPython(): string {
  const own = join(environmentFolder(), 'bin', 'python');
  return existsSync(own) ? own : 'python3';
}

/** The folder of the Python package: two folders above this file in the source, three above it in dist/. */
export function packageFolder(): string {
  const near = new URL('../../python', import.meta.url);
  return fileURLToPath(existsSync(near) ? near : new URL('../../../python', import.meta.url));
}

export interface InstallOptions {
  /** `cpu`: builds without CUDA, from PyTorch's own index. */
  readonly build: 'cuda' | 'cpu';
  readonly python: string;
  readonly log: (line: string) => void;
}

/** Makes the environment, or brings an old one to these versions. */
export async function installEnvironment({ build, python, log }: InstallOptions): Promise<string> {
  const folder = environmentFolder();
  await mkdir(folder, { recursive: true });
  await runProgram(python, ['-m', 'venv', folder], log);
  const isSmall = build === 'cpu' && (await canReach(CPU_INDEX));
  if (build === 'cpu' && !isSmall)
    log(`${CPU_INDEX} cannot be reached: taking the build of PyPI, which runs on the CPU too but is larger`);
  const index = isSmall ? ['--extra-index-url', CPU_INDEX] : [];
  const packages = PACKAGES.map((name) => (isSmall && name.startsWith('torch==') ? `${name}+cpu` : name));
  const pip = join(folder, 'bin', 'python');
  await runProgram(pip, ['-m', 'pip', 'install', '--disable-pip-version-check', ...index, ...packages], log);
  return folder;
}

const canReach = (url: string) =>
  fetch(url, { method: 'HEAD', signal: AbortSignal.timeout(10_000) }).then(
    ({ ok }) => ok,
    () => false,
  );

/** What the worker says about this machine, as JSON. */
export async function checkEnvironment(python: string): Promise<Readonly<Record<string, unknown>>> {
  const lines: string[] = [];
  await runProgram(python, ['-m', 'rollcall_torch', '--check'], (line) => lines.push(line));
  const last = lines.findLast((line) => line.startsWith('{'));
  if (last === undefined)
    throw new ConfigError(`${python} -m rollcall_torch --check printed no JSON: ${lines.join('\n')}`);
  return JSON.parse(last) as Record<string, unknown>;
}

async function runProgram(
  program: string,
  words: readonly string[],
  log: (line: string) => void,
): Promise<void> {
  const environment = { ...process.env, PYTHONPATH: packageFolder() };
  const child = spawn(program, words, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  const tail: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      for (const line of text.split('\n').filter((part) => part.trim() !== '')) {
        tail.push(line);
        log(line);
      }
    });
  }
  const failure = await new Promise<string | undefined>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code) => resolve(code === 0 ? undefined : `exit code ${code}`));
  });
  if (failure !== undefined) {
    throw new ConfigError(
      `${program} ${words.slice(0, 3).join(' ')} failed (${failure}):\n${tail.slice(-10).join('\n')}`,
    );
  }
}
