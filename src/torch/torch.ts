/** `train({ trainer: torch({ ranks: 8 }) })`: real models on GPUs, by a PyTorch worker group that the run supervises. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { ConfigError } from '../errors.ts';
import { type Clock, realClock, sleep } from '../lib/clock.ts';
import { keepSecret } from '../lib/secrets.ts';
import type { Trainer, TrainerFactory } from '../training/trainer.ts';
import { type ConnectionOptions, connectWorker, type WorkerAddress } from './connection.ts';
import { defaultPython } from './environment.ts';
import { launchGroup } from './launch.ts';
import { readSight } from './sight.ts';
import { openTorchTrainer } from './trainer.ts';
import { type GroupSource, WorkerGroup } from './worker-group.ts';

/** Which worker group trains, on which devices, and how weights reach servers. */
export interface TorchOptions {
  /** A worker group that runs elsewhere, `tcp://host:port`, instead of one started here. */
  readonly url?: string;
  /** The token of the worker at `url`; default the environment variable ROLLCALL_TORCH_TOKEN. */
  readonly token?: string;
  /** A Python with torch and transformers; default the environment of `rollcall torch install`, else `python3`. */
  readonly python?: string;
  /** Processes, one per device; default the number of GPUs, else 1. */
  readonly ranks?: number;
  readonly device?: 'cpu' | 'cuda';
  /** CPU threads of a rank. */
  readonly threads?: number;
  /** Words for torchrun where a group spans nodes, such as `--nnodes=2` and `--rdzv-endpoint=…`. */
  readonly torchrun?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** Trains low-rank adapters and freezes the policy; a reference is then the policy with its adapter off. */
  readonly lora?: {
    readonly rank: number;
    /** Default: the rank. */
    readonly alpha?: number;
    readonly targets?: readonly string[];
    readonly seed?: number;
  };
  /** 4: the linear layers that adapters leave frozen are held in four bits (NF4, as in QLoRA); needs `lora`. */
  readonly baseBits?: 4;
  /** Precision of computing; default bf16 on CUDA, f32 on the CPU. Trained weights are f32. */
  readonly precision?: 'float32' | 'bfloat16';
  /** Share of the layers whose activations are computed again in the backward; default 1. */
  readonly recompute?: number;
  /** Keep parameters and optimizer state in host memory. */
  readonly offload?: boolean;
  /** Layers and head by `torch.compile`: faster after the first minutes. */
  readonly compile?: boolean;
  /** Norms, gates and the head's passes by Triton kernels that read their inputs once; on a GPU only. */
  readonly fused?: boolean;
  readonly attention?: 'flash' | 'varlen' | 'rows';
  readonly decay?: 'all' | 'matrices';
  /** Tokens that one rank computes at once; default by the memory that is free. */
  readonly tokensPerRank?: number;
  /** A folder for published weights that servers see under the same path; default one in memory or on disk. */
  readonly weightsDirectory?: string;
  /** `adapter` with `lora`: servers get the low-rank matrices only. */
  readonly send?: 'weights' | 'adapter';
  /**
   * Addresses of servers that take weights from memory to memory instead of from files. vLLM servers are started with
   * `--worker-extension-cls rollcall_torch.vllm_extension.TakesWeights`.
   */
  readonly push?: readonly string[];
  /**
   * `memory`: vLLM servers on the trainer's own GPUs, through shared GPU memory. `group`: vLLM servers anywhere, through a
   * process group (NCCL, gloo on a CPU). `sglang`: SGLang servers, through theirs. Default `memory`.
   */
  readonly pushBy?: 'memory' | 'group' | 'sglang';
  /** How often a lost group is started again in a run; default 5. */
  readonly restarts?: number;
  /** The machine's own unless given. */
  readonly clock?: Clock;
  readonly startSeconds?: number;
  readonly secondsPerCall?: number;
  readonly secondsPerExchange?: number;
  /** Receives one line when a group starts, is lost or runs out of memory; default standard error. */
  readonly log?: (line: string) => void;
}

/** Free memory-backed storage that weights are put in by default; less and they go to disk. */
const MEMORY_FOLDER = '/dev/shm';
const LEAST_MEMORY_FOLDER_BYTES = 32 * 2 ** 30;
const RETRY_MS = 1000;

/** A trainer on PyTorch, in Python processes that this one starts or finds. */
export function torch(given: TorchOptions = {}): TrainerFactory {
  const options = withToken(given);
  if (options.send === 'adapter' && !options.lora) throw new ConfigError('send is adapter, which needs lora');
  if (options.baseBits !== undefined) checkBaseBits(options);
  if (options.push && options.send === 'adapter')
    throw new ConfigError('push sends whole weights; leave out send: adapter');
  if (options.pushBy && !options.push)
    throw new ConfigError(`pushBy is ${options.pushBy}; push must name the servers`);
  if (options.url !== undefined && !options.token)
    throw new ConfigError(`url is ${options.url}; its token is needed too (ROLLCALL_TORCH_TOKEN)`);
  const log = options.log ?? ((line) => process.stderr.write(`${line}\n`));
  const { clock = realClock() } = options;
  const source = options.url === undefined ? startedHere(options, log, clock) : at(options, log, clock);
  let group: WorkerGroup | undefined;
  const open = new Map<string, string>();
  return {
    name: 'torch',
    decodesImages: true,
    open: async (role, model, { valueHead = false, readImage } = {}): Promise<Trainer> => {
      const sight = await readSight(model, readImage);
      group ??= new WorkerGroup(source, options.restarts ?? 5, log);
      const opening = group;
      const name = nameFor(role, open);
      const isAdapterOff = role === 'reference' && options.lora && open.get('policy') === resolve(model);
      const params = isAdapterOff
        ? { base: 'policy' }
        : { options: openOptions(options, role, resolve(model), valueHead || role === 'critic') };
      open.set(name, resolve(model));
      const forget = () => {
        open.delete(name);
        if (open.size === 0) group = undefined;
      };
      const isOwn = options.weightsDirectory === undefined && role === 'policy' && !options.push;
      const directory = options.weightsDirectory ?? (isOwn ? await weightsFolder() : tmpdir());
      const removeOwn = () => (isOwn ? rm(directory, { recursive: true, force: true }) : undefined);
      try {
        const { send = 'weights', push, pushBy = 'memory' } = options;
        const publishing = { directory, send, push: push && { servers: push, by: pushBy } };
        const trainer = await openTorchTrainer(opening, name, params, publishing, clock, sight);
        const close = trainer.close.bind(trainer);
        trainer.close = async () => {
          forget();
          await close();
          await removeOwn();
        };
        return trainer;
      } catch (error) {
        forget();
        if (open.size === 0) await opening.end();
        await removeOwn();
        throw error;
      }
    },
  };
}

function checkBaseBits({ lora, offload, compile }: TorchOptions): void {
  if (!lora) throw new ConfigError('baseBits is 4, which needs lora: weights in four bits stay as they are');
  if (offload) throw new ConfigError('baseBits is 4, which is not implemented with offload; leave one out');
  if (compile) throw new ConfigError('baseBits is 4, which is not implemented with compile; leave one out');
}

/** By the environment a token is in no file and no list of processes. */
function withToken(options: TorchOptions): TorchOptions {
  const token = options.token ?? process.env['ROLLCALL_TORCH_TOKEN'];
  keepSecret(token);
  return options.url === undefined || token === undefined ? options : { ...options, token };
}

/** `policy`, and `policy-2` where one is open already. */
function nameFor(role: string, open: ReadonlyMap<string, string>): string {
  let name = role;
  for (let number = 2; open.has(name); number++) name = `${role}-${number}`;
  return name;
}

function openOptions(options: TorchOptions, role: string, path: string, valueHead: boolean) {
  const { lora, baseBits, precision, recompute, offload, compile, fused, attention, decay, tokensPerRank } =
    options;
  return {
    path,
    trainable: role !== 'reference',
    value_head: valueHead,
    ...(lora && role === 'policy' ? { lora: { alpha: lora.rank, ...lora } } : {}),
    ...(baseBits === undefined || role !== 'policy' ? {} : { base_bits: baseBits }),
    ...(precision === undefined ? {} : { precision }),
    ...(recompute === undefined ? {} : { recompute }),
    ...(offload === undefined ? {} : { offload }),
    ...(compile === undefined ? {} : { compile }),
    ...(fused === undefined ? {} : { fused }),
    ...(attention === undefined ? {} : { attention }),
    ...(decay === undefined ? {} : { decay }),
    ...(tokensPerRank === undefined ? {} : { tokens: tokensPerRank }),
  };
}

function startedHere(options: TorchOptions, log: (line: string) => void, clock: Clock): GroupSource {
  return {
    reach: async (mostTokens) => {
      const launched = await launchGroup(
        {
          python: options.python ?? defaultPython(),
          ranks: options.ranks ?? (options.device === 'cpu' ? 1 : Math.max(1, gpuCount())),
          device: options.device,
          threads: options.threads,
          torchrun: options.torchrun ?? [],
          environment: options.environment ?? {},
          startSeconds: options.startSeconds ?? 300,
          secondsPerExchange: options.secondsPerExchange ?? 600,
          log: () => {}, // the last lines are shown when a start fails
          clock,
        },
        mostTokens,
      );
      try {
        const connection = await connectWorker(launched.address, connectionOptions(options, log, clock));
        return { connection, stop: launched.stop };
      } catch (error) {
        await launched.stop();
        throw error;
      }
    },
  };
}

/** A group that is started again by others is found again at the same address. */
function at(options: TorchOptions, log: (line: string) => void, clock: Clock): GroupSource {
  const address = parseUrl(options.url!, options.token!);
  return {
    reach: async () => {
      const deadline = clock.now() + 1000 * (options.startSeconds ?? 300);
      for (;;) {
        try {
          const connection = await connectWorker(address, connectionOptions(options, log, clock));
          return { connection, stop: async () => {} };
        } catch (error) {
          if (clock.now() > deadline) throw error;
          await sleep(clock, RETRY_MS);
        }
      }
    },
  };
}

function connectionOptions(
  options: TorchOptions,
  log: (line: string) => void,
  clock: Clock,
): ConnectionOptions {
  return { secondsPerCall: options.secondsPerCall ?? 3600, clock, onNotice: log };
}

function parseUrl(url: string, token: string): WorkerAddress {
  const { protocol, hostname, port } = URL.canParse(url)
    ? new URL(url)
    : { protocol: '', hostname: '', port: '' };
  if (protocol !== 'tcp:' || hostname === '' || port === '') {
    throw new ConfigError(`url is ${url}; tcp://host:port is needed`);
  }
  return { host: hostname, port: Number(port), token };
}

/** GPUs that CUDA_VISIBLE_DEVICES names, else those that nvidia-smi lists. */
function gpuCount(): number {
  const visible = process.env['CUDA_VISIBLE_DEVICES'];
  if (visible !== undefined) return visible.split(',').filter(Boolean).length;
  try {
    return execFileSync('nvidia-smi', ['-L'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
      .split('\n')
      .filter((line) => line.startsWith('GPU ')).length;
  } catch {
    return 0;
  }
}

async function weightsFolder(): Promise<string> {
  const free = await statfs(MEMORY_FOLDER).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => 0,
  );
  return mkdtemp(join(free > LEAST_MEMORY_FOLDER_BYTES ? MEMORY_FOLDER : tmpdir(), 'rollcall-weights-'));
}
