/**
 * SkyRL's Tinker server on the CPU: installed once from PyPI, started, killed, started again. It starts its engine by `uv`,
 * for which a script stands in that runs the same in its environment. `tokenSums` is a copy of the package in which two lines
 * are changed, so that losses and gradients are summed over tokens and sequences, as the hosted service says it does.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const ROOT = join(process.env['ROLLCALL_SERVERS'] ?? join(homedir(), '.cache', 'rollcall'), 'tinker');
const PYTHON = join(ROOT, 'venv', 'bin', 'python');
const SUMMING = join(ROOT, 'token-sums');
const PACKAGES = [
  'skyrl[tinker,jax]==0.3.0',
  'jax==0.12.0.1',
  'flax==0.12.12',
  'optax==0.2.8',
  'fastapi==0.162.4',
];

const UV = `#!/bin/bash
while [ $# -gt 0 ] && [ "$1" != "-m" ]; do shift; done
"$(dirname "$0")/../venv/bin/python" "$@"
exit $?
`;

/** What is replaced in the summing copy: the mean over a sequence's tokens, and the mean over sequences. */
const CHANGES = [
  [
    'per_token_losses.sum(axis=-1) / jnp.maximum(loss_mask.sum(axis=-1), 1e-9)',
    'per_token_losses.sum(axis=-1)',
  ],
  ['g[idx] / safe_count.astype(g.dtype)', 'g[idx]'],
] as const;

export function installSkyrl(say: (line: string) => void): void {
  if (!existsSync(join(ROOT, 'venv', 'installed')) && !hasSkyrl()) {
    say(`installing ${PACKAGES[0]} into ${ROOT} (minutes, and about 6 GB)`);
    rmSync(join(ROOT, 'venv'), { recursive: true, force: true });
    run(python312(), ['-m', 'venv', join(ROOT, 'venv')]);
    run(PYTHON, ['-m', 'pip', 'install', '--quiet', ...PACKAGES]);
  }
  writeFileSync(join(ROOT, 'venv', 'installed'), `${PACKAGES.join('\n')}\n`);
  mkdirSync(join(ROOT, 'bin'), { recursive: true });
  writeFileSync(join(ROOT, 'bin', 'uv'), UV, { mode: 0o755 });
  copySumming();
}

const hasSkyrl = () => existsSync(PYTHON) && spawnSync(PYTHON, ['-c', 'import skyrl, jax']).status === 0;

function run(program: string, words: readonly string[]): void {
  const { status } = spawnSync(program, words, { stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`${program} ${words.join(' ')} ended with ${status}`);
}

/** SkyRL's sources need 3.12. */
function python312(): string {
  const managed = join(homedir(), '.pyenv', 'versions');
  const versions = existsSync(managed) ? readdirSync(managed).filter((name) => name.startsWith('3.12.')) : [];
  const found = ['python3.12', ...versions.map((name) => join(managed, name, 'bin', 'python'))].find(
    (program) => spawnSync(program, ['--version']).status === 0,
  );
  if (found) return found;
  throw new Error('python3.12 is not found, and SkyRL needs it; install it and run this again');
}

function copySumming(): void {
  const libraries = join(ROOT, 'venv', 'lib');
  const [python] = readdirSync(libraries).filter((name) => name.startsWith('python3.'));
  rmSync(SUMMING, { recursive: true, force: true });
  cpSync(join(libraries, python!, 'site-packages', 'skyrl'), join(SUMMING, 'skyrl'), { recursive: true });
  const file = join(SUMMING, 'skyrl', 'backends', 'jax.py');
  let source = readFileSync(file, 'utf8');
  for (const [old, now] of CHANGES) {
    if (source.split(old).length !== 2) throw new Error(`${file} has not once: ${old}`);
    source = source.replace(old, now);
  }
  writeFileSync(file, source);
}

export interface SkyrlOptions {
  readonly model: string;
  /** Database, checkpoints and log. */
  readonly directory: string;
  readonly port: number;
  readonly tokenSums?: boolean;
}

export class Skyrl {
  readonly url: string;
  readonly #options: SkyrlOptions;
  #process: ChildProcess | undefined;

  constructor(options: SkyrlOptions) {
    this.#options = options;
    this.url = `http://127.0.0.1:${options.port}`;
  }

  /** Until it answers; its engine may take longer, and calls wait for it. */
  async start(): Promise<void> {
    const { model, directory, port, tokenSums = false } = this.#options;
    mkdirSync(directory, { recursive: true });
    const log = openSync(join(directory, 'server.log'), 'a');
    const backend = {
      max_lora_adapters: 6,
      max_lora_rank: 8,
      train_micro_batch_size: 1,
      sample_max_num_sequences: 32,
    };
    const words = [
      ...['run', '--', 'python', '-m', 'skyrl.tinker.api', '--base-model', model, '--backend', 'jax'],
      ...['--backend-config', JSON.stringify(backend), '--host', '127.0.0.1', '--port', String(port)],
      ...['--database-url', `sqlite:///${join(directory, 'tinker.db')}`],
      ...['--checkpoints-base', join(directory, 'checkpoints')],
    ];
    this.#process = spawn(join(ROOT, 'bin', 'uv'), words, {
      detached: true, // a group of its own, which is killed whole
      stdio: ['ignore', log, log],
      env: {
        ...process.env,
        PATH: `${join(ROOT, 'bin')}:${process.env['PATH']}`,
        JAX_PLATFORMS: 'cpu',
        HF_HUB_OFFLINE: '1',
        // Compiled code is kept from start to start.
        JAX_COMPILATION_CACHE_DIR: join(ROOT, 'compiled'),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS: '0',
        ...(tokenSums ? { PYTHONPATH: SUMMING } : {}),
      },
    });
    for (let tries = 0; tries < 240; tries++) {
      if (this.#process.exitCode !== null) break;
      const isUp = await fetch(`${this.url}/api/v1/healthz`).then(
        ({ ok }) => ok,
        () => false,
      );
      if (isUp) return;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    await this.kill();
    throw new Error(`SkyRL's server did not start; ${join(directory, 'server.log')} says why`);
  }

  /** `kill -9` of the API and its engine. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child?.pid === undefined) return;
    this.#process = undefined;
    const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch {
      // it had ended
    }
    await ended;
  }
}
