/** Whether an engine that is to be started is installed, and in which version; checked before anything is started. */
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { ConfigError } from '../errors.ts';
import type { Engine } from './engine.ts';

const run = promisify(execFile);

/** Undefined for an engine that is not a Python package. If it is missing, throws and says how to install it. */
export async function installedRelease(
  { name, launch }: Pick<Engine, 'name' | 'launch'>,
  program = launch?.program,
): Promise<string | undefined> {
  const wanted = launch?.package;
  if (wanted === undefined || program === undefined) return undefined;
  const path = await findProgram(program);
  const remedy = `install it (pip install ${wanted}), or give the path of a program that has it (servers.program)`;
  if (path === undefined)
    throw new ConfigError(`${program} is not found, which starts servers of ${name}; ${remedy}`);
  const python = await interpreterOf(path);
  const ask = `from importlib.metadata import version; print(version('${wanted}'))`;
  try {
    return (await run(python, ['-c', ask], { timeout: 30_000 })).stdout.trim();
  } catch {
    throw new ConfigError(`${python} has no package ${wanted}, which servers of ${name} need; ${remedy}`);
  }
}

async function findProgram(name: string): Promise<string | undefined> {
  const folders = name.includes('/') ? [''] : (process.env['PATH'] ?? '').split(delimiter);
  for (const folder of folders) {
    const path = folder === '' ? name : join(folder, name);
    if (await isExecutable(path)) return path;
  }
  return undefined;
}

const isExecutable = (path: string) =>
  access(path, constants.X_OK).then(
    () => true,
    () => false,
  );

/** A console script names its Python in the first line; a Python is its own. */
async function interpreterOf(program: string): Promise<string> {
  const head = (await readFile(program)).subarray(0, 1000).toString('latin1');
  return head.startsWith('#!') && /python/.test(head.split('\n')[0]!)
    ? head.slice(2).trim().split(/\s/)[0]!
    : program;
}

/** Undefined where nvidia-smi does not tell. */
export async function countGpus(): Promise<number | undefined> {
  try {
    const { stdout } = await run('nvidia-smi', ['--list-gpus'], { timeout: 10_000 });
    return stdout.split('\n').filter((line) => line.startsWith('GPU ')).length;
  } catch {
    return undefined;
  }
}
