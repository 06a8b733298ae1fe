import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { defaultPython } from '../src/torch/environment.ts';

/** Something of the machine that some tests need, and skip without. */
interface Need {
  readonly name: string;
  /** The test files that skip tests without it. */
  readonly files: RegExp;
  /** What provides it. */
  readonly command: string;
  isThere(): boolean;
}

const runs = (program: string, ...words: string[]) =>
  spawnSync(program, words, { stdio: 'ignore', timeout: 20_000 }).status === 0;

const isInstalled = (name: string) => {
  try {
    createRequire(import.meta.url).resolve(name);
    return true;
  } catch {
    return false;
  }
};

export const hasComputeEngine = isInstalled('@cortex-js/compute-engine');

export const NEEDS: readonly Need[] = [
  {
    name: 'bubblewrap (the boundary of the sandbox)',
    files: /test\/sandbox\//,
    command: 'apt-get install bubblewrap',
    isThere: () => runs('bwrap', '--version'),
  },
  {
    name: 'a browser',
    files: /(dashboard|play)-browser\.test/,
    command: 'apt-get install chromium, or CHROMIUM=PATH',
    isThere: () => existsSync(process.env['CHROMIUM'] ?? '/usr/bin/chromium'),
  },
  {
    name: 'a Python with PyTorch',
    files: /test\/torch\.test/,
    command: 'npx rollcall torch install',
    isThere: () => runs(defaultPython(), '-c', 'import torch, transformers'),
  },
  {
    name: 'an algebra system',
    files: /symbolic\.test|ready-tools\.test/,
    command: 'npm install --no-save @cortex-js/compute-engine@0.140 (on Node 22 or newer)',
    isThere: () => hasComputeEngine,
  },
  {
    name: 'root, to mount a small disk',
    files: /newcomer\.test/,
    command: 'sudo npm test',
    isThere: () => process.getuid?.() === 0,
  },
];
