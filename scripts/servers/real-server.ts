/** The real servers that are proved on a CPU: how they are installed and started here, and what their builds cannot do. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ServersOptions } from '../../src/options/servers.ts';

export interface RealServer {
  readonly engine: 'vllm' | 'sglang';
  readonly python: string;
  /** In its virtual environment. */
  readonly program: string;
  readonly launch: NonNullable<ServersOptions['launch']>;
  /** Beside those for adapters that a launch has anyway. */
  readonly loraFlags: readonly string[];
  /** What this build cannot do, and why. It is printed, and no aim. */
  readonly cannot: Readonly<Record<string, string>>;
  readonly dies: { readonly ofScoringWithLora: boolean; readonly ofWrongIds: boolean };
  /** Weights that could not be loaded leave it without any. */
  readonly losesWeights: boolean;
  /** A request for an adapter that was unloaded loads it again from its folder. */
  readonly reloadsAdapters: boolean;
  /** Keeps an output layer that is tied to the embedding when weights are loaded again. */
  readonly keepsTiedHead: boolean;
}

const folder = (engine: string) =>
  process.env['ROLLCALL_SERVERS']
    ? join(process.env['ROLLCALL_SERVERS'], `${engine}-cpu`)
    : join(homedir(), '.cache', 'rollcall', `${engine}-cpu`);

/** One thread: a server and a trainer with spinning OpenMP threads each are ten times slower on two cores. */
const COMMON = { HF_HUB_OFFLINE: '1', TOKENIZERS_PARALLELISM: 'false', OMP_NUM_THREADS: '1' };

const words = (text: string) => text.trim().split(/\s+/);

export const REAL_SERVERS: Readonly<Record<RealServer['engine'], RealServer>> = {
  vllm: {
    engine: 'vllm',
    python: 'python3',
    program: join(folder('vllm'), 'bin', 'vllm'),
    launch: {
      flags: words('--dtype float32 --enforce-eager --max-num-seqs 64 --max-num-batched-tokens 32768'),
      environment: { ...COMMON, VLLM_CPU_KVCACHE_SPACE: '2', VLLM_CPU_OMP_THREADS_BIND: 'nobind' },
    },
    loraFlags: [],
    cannot: {
      'sleep and wake': '--enable-sleep-mode is refused: the platform has no memory pool that can sleep',
      'log-probs of prompts with LoRA': 'the engine ends (einsum), so adapters cannot be attested',
      images: 'the small model reads none; npm run prove images shows them',
    },
    dies: { ofScoringWithLora: true, ofWrongIds: false },
    losesWeights: true,
    reloadsAdapters: false,
    keepsTiedHead: true,
  },
  sglang: {
    engine: 'sglang',
    python: 'python3.11',
    program: join(folder('sglang'), 'bin', 'python'),
    launch: {
      memoryShare: 0.2,
      flags: words(
        '--device cpu --dtype float32 --attention-backend torch_native --sampling-backend pytorch ' +
          '--disable-cuda-graph --max-total-tokens 20000 --max-running-requests 64 --skip-server-warmup',
      ),
      environment: { ...COMMON, SGLANG_USE_CPU_ENGINE: '1' },
    },
    loraFlags: ['--lora-backend', 'torch_native'],
    cannot: {
      'sleep and wake': 'the memory saver needs CUDA',
      seeds: 'obeyed with --enable-deterministic-inference, which switches the prefix cache off here',
      'a token id that the model lacks': 'it ends the server (SGLang checks no ids)',
      images:
        'its processor of Qwen2.5-VL imports kernels for the CPU that our stand-in lacks: no processor is registered for the model',
    },
    dies: { ofScoringWithLora: false, ofWrongIds: true },
    losesWeights: false,
    reloadsAdapters: true,
    keepsTiedHead: false,
  },
};

/** Made once: pinned packages from PyPI in a virtual environment under ~/.cache/rollcall (or $ROLLCALL_SERVERS). */
export async function install({ engine, python }: RealServer, say: (line: string) => void): Promise<void> {
  const target = folder(engine);
  if (existsSync(join(target, 'installed'))) return; // the last thing that the script makes
  if (spawnSync(python, ['--version']).status !== 0) {
    throw new Error(`${python} is not found, and ${engine} needs it; install it and run this again`);
  }
  say(`installing ${engine} into ${target} (minutes, and about 5 GB)`);
  const script = fileURLToPath(new URL(`./${engine}-cpu.sh`, import.meta.url));
  const code = await exitOf(spawn('bash', [script, target], { stdio: ['ignore', 2, 2] }));
  if (code === 0) return;
  const failed = `${target}-failed`;
  await rm(failed, { recursive: true, force: true });
  await rename(target, failed).catch(() => {});
  throw new Error(`${script} ended with ${code}; what it left is in ${failed}`);
}

const exitOf = (child: ReturnType<typeof spawn>) =>
  new Promise<number | null>((resolve, reject) => {
    child.once('exit', resolve);
    child.once('error', reject);
  });
