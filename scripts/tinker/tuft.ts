/**
 * TuFT's Tinker server on the CPU, its package unchanged: a model that is trained there, and not sampled from, needs no vLLM.
 * `start-tuft.py` says what stands in for the GPU.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { defaultPython } from '../../src/torch/environment.ts';

const ROOT = join(process.env['ROLLCALL_SERVERS'] ?? join(homedir(), '.cache', 'rollcall'), 'tuft');
const BIN = join(ROOT, 'venv', 'bin');
/** Without what they ask for: TuFT for vLLM, all three for a torch of their own. */
const ALONE = ['tuft==0.2.2', 'peft==0.20.0', 'accelerate==1.15.0'];
const PACKAGES = [
  ...['tinker==0.25.0', 'ray==2.60.0', 'fastapi>=0.133,<0.137', 'httpx', 'uvicorn[standard]', 'typer'],
  ...['omegaconf', 'protobuf', 'psutil', 'nvidia-ml-py', 'opentelemetry-sdk', 'opentelemetry-exporter-otlp'],
  ...['opentelemetry-instrumentation-fastapi', 'opentelemetry-instrumentation-logging'],
];
/** Beside the torch and transformers of `rollcall torch install`. */
export function installTuft(say: (line: string) => void): void {
  if (existsSync(join(ROOT, 'installed'))) return;
  say(`installing ${ALONE[0]} into ${ROOT}`);
  run(defaultPython(), ['-m', 'venv', '--clear', join(ROOT, 'venv')]);
  const packages = packagesOf(join(ROOT, 'venv'));
  writeFileSync(join(packages, 'torch.pth'), `${packagesOf(dirname(dirname(defaultPython())))}\n`);
  run(join(BIN, 'pip'), ['install', '--quiet', '--no-deps', ...ALONE]);
  run(join(BIN, 'pip'), ['install', '--quiet', ...PACKAGES]);
  writeFileSync(join(ROOT, 'installed'), `${[...ALONE, ...PACKAGES].join('\n')}\n`);
}

function packagesOf(environment: string): string {
  const libraries = join(environment, 'lib');
  const [python] = readdirSync(libraries).filter((name) => name.startsWith('python3.'));
  return join(libraries, python!, 'site-packages');
}

function run(program: string, words: readonly string[]): void {
  const { status } = spawnSync(program, words, { stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`${program} ${words.join(' ')} ended with ${status}`);
}

export const TUFT_KEY = 'tml-proof';
/** TuFT multiplies an adapter by alpha over rank, and alpha is twice the rank. */
export const alphaOf = (rank: number) => 2 * rank;
const START_SECONDS = 240;
/** Ray would start its workers with a niceness of 15, and leave a token in the home folder that other clusters then ask for. */
const SETTINGS = {
  HF_HUB_OFFLINE: '1',
  RAY_AUTH_MODE: 'disabled',
  RAY_USAGE_STATS_ENABLED: '0',
  RAY_worker_niceness: '0',
};

export interface TuftOptions {
  readonly model: string;
  /** Checkpoints and log. */
  readonly directory: string;
  readonly port: number;
}

export class Tuft {
  readonly url: string;
  readonly #options: TuftOptions;
  #process: ChildProcess | undefined;

  constructor(options: TuftOptions) {
    this.#options = options;
    this.url = `http://127.0.0.1:${options.port}`;
  }

  async start(): Promise<void> {
    const { model, directory, port } = this.#options;
    mkdirSync(directory, { recursive: true });
    const config = join(directory, 'tuft.json'); // JSON is YAML
    const trained = { model_name: model, model_path: model, max_model_len: 256, max_lora_rank: 8 };
    const settings = {
      checkpoint_dir: join(directory, 'checkpoints'),
      supported_models: [{ ...trained, capabilities: ['training'] }],
      authorized_users: { [TUFT_KEY]: 'proof' },
    };
    writeFileSync(config, JSON.stringify(settings));
    const log = openSync(join(directory, 'server.log'), 'a');
    const words = ['scripts/tinker/start-tuft.py', 'launch', '--config', config, '--port', String(port)];
    const child = spawn(join(BIN, 'python'), words, {
      detached: true, // a group of its own, which is killed whole
      stdio: ['ignore', log, log],
      env: { ...process.env, ...SETTINGS, TUFT_HOME: directory },
    });
    this.#process = child;
    const deadline = Date.now() + 1000 * START_SECONDS;
    while (child.exitCode === null && Date.now() < deadline) {
      const health = await fetch(`${this.url}/api/v1/healthz`).catch(() => undefined);
      if (health?.ok) return;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    await this.stop();
    const said = readFileSync(join(directory, 'server.log'), 'utf8').trim().split('\n');
    throw new Error(`TuFT did not start: ${said.slice(-8).join('\n')}`);
  }

  async stop(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    process.kill(-child.pid, 'SIGTERM'); // Ray ends its own processes
    const late = setTimeout(() => process.kill(-child.pid!, 'SIGKILL'), 20_000);
    await ended;
    clearTimeout(late);
  }
}
