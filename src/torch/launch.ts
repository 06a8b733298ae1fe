/** Starts a worker group (torchrun for several ranks) and ends it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { TrainerError } from '../errors.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { WorkerAddress } from './connection.ts';
import { packageFolder } from './environment.ts';

export interface LaunchOptions {
  readonly python: string;
  /** Processes, one per device. */
  readonly ranks: number;
  readonly device: 'cpu' | 'cuda' | undefined;
  /** CPU threads of a rank. */
  readonly threads: number | undefined;
  /** More words for torchrun, such as `--nnodes=2 --rdzv-endpoint=…`: other nodes start the same command. */
  readonly torchrun: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly startSeconds: number;
  /** A rank that takes longer in an exchange with the others is hung, and the group ends. */
  readonly secondsPerExchange: number;
  /** Lines that the worker writes to its standard error. */
  readonly log: (line: string) => void;
  readonly clock: Clock;
}

export interface LaunchedGroup {
  readonly address: WorkerAddress;
  /** Process of torchrun, or of the only rank. */
  readonly pid: number;
  stop(): Promise<void>;
}

const POLL_MS = 50;
const GRACE_MS = 20_000;
const TAIL_LINES = 30;

/** Resolves when rank 0 listens. `mostTokens` limits what a rank computes at once. */
export async function launchGroup(
  options: LaunchOptions,
  mostTokens: number | undefined,
): Promise<LaunchedGroup> {
  const { clock, startSeconds } = options;
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-torch-'));
  const announce = join(folder, 'address.json');
  const token = randomBytes(24).toString('hex');
  const child = spawn(options.python, commandWords(options, announce, mostTokens), {
    env: {
      ...process.env,
      PYTHONPATH: [packageFolder(), process.env['PYTHONPATH']].filter(Boolean).join(':'),
      ROLLCALL_TORCH_TOKEN: token,
      ...options.environment,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const tail: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => {
    tail.push(line);
    if (tail.length > TAIL_LINES) tail.shift();
    options.log(line);
  });
  let failure: string | undefined;
  child.once('error', (error) => {
    failure = error.message;
  });
  child.unref();
  const stop = async () => {
    await endProcess(child, clock);
    await rm(folder, { recursive: true, force: true });
  };
  const deadline = clock.now() + 1000 * startSeconds;
  while (!existsSync(announce)) {
    if (child.exitCode !== null) failure ??= `it ended with ${child.exitCode}`;
    if (clock.now() > deadline) failure ??= `it did not listen in ${startSeconds} s`;
    if (failure !== undefined) {
      await stop();
      throw new TrainerError(
        `the PyTorch worker did not start (${options.python}): ${failure}\n${tail.join('\n')}`,
      );
    }
    await sleep(clock, POLL_MS);
  }
  const { host, port } = JSON.parse(readFileSync(announce, 'utf8')) as { host: string; port: number };
  return { address: { host, port, token }, pid: child.pid!, stop };
}

function commandWords(options: LaunchOptions, announce: string, mostTokens: number | undefined): string[] {
  const { ranks, torchrun, device, threads, startSeconds, secondsPerExchange } = options;
  const alone = ranks === 1 && torchrun.length === 0;
  const rendezvous = torchrun.length > 0 ? torchrun : ['--standalone'];
  const launcher = ['-m', 'torch.distributed.run', ...rendezvous, `--nproc-per-node=${ranks}`];
  return [
    ...(alone ? [] : launcher),
    '-m',
    'rollcall_torch',
    `--announce=${announce}`,
    `--seconds-to-connect=${startSeconds}`,
    `--seconds-per-exchange=${secondsPerExchange}`,
    ...(device === undefined ? [] : [`--device=${device}`]),
    ...(threads === undefined ? [] : [`--threads=${threads}`]),
    ...(mostTokens === undefined ? [] : [`--most-tokens=${mostTokens}`]),
  ];
}

/** Its connection is closed already, at which it ends alone; what does not is asked, then killed. */
async function endProcess(child: ChildProcess, clock: Clock): Promise<void> {
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null || child.pid === undefined;
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const deadline = clock.now() + GRACE_MS;
    while (!hasEnded() && clock.now() < deadline) await sleep(clock, POLL_MS);
    if (hasEnded()) return;
    child.kill(signal);
  }
}
