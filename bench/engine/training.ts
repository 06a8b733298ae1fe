/** Training speed of the embedded engine: forward, backward and AdamW over whole rows. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { openTrainer, type TrainerOptions } from '../../src/engine/training/trainer.ts';
import { createRandom } from '../../src/lib/random.ts';
import type { AdamOptions, Row } from '../../src/training/trainer.ts';
import { type Arithmetic, compare } from './compare.ts';
import { BENCH_SIZES, benchModel } from './models.ts';
import type { PythonPeer } from './python-peer.ts';

export const ADAM: AdamOptions = {
  learningRate: 1e-4,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0.01,
  clipNorm: 1,
};

/** A step measures at least this long, so that small models are not timed by a few milliseconds. */
const SECONDS_PER_SAMPLE = 1.5;

export interface TrainingBench {
  readonly threads: number;
  readonly rounds: number;
  readonly kernels: TrainerOptions['kernels'];
  readonly sizes: readonly string[];
  readonly torch: PythonPeer | undefined;
}

export async function benchTraining(options: TrainingBench): Promise<Record<string, number>> {
  const figures: Record<string, number> = {};
  for (const { name, size, vocabulary } of BENCH_SIZES) {
    if (!options.sizes.includes(name)) continue;
    const { directory, config } = benchModel(size, vocabulary);
    const open = (weights: Arithmetic) =>
      openTrainer({
        model: directory,
        weights,
        threads: options.threads,
        ...(options.kernels ? { kernels: options.kernels } : {}),
      });
    const trainers = { float32: await open('float32'), bfloat16: await open('bfloat16') };
    const time = async (rows: readonly Row[], steps: number, arithmetic: Arithmetic = 'float32') => {
      const trainer = trainers[arithmetic];
      const start = performance.now();
      for (let step = 0; step < steps; step++) {
        const pass = await trainer.forward(rows, { temperature: 1, outputs: ['logprob'] });
        await pass.backward({
          logprob: rows.map(({ targets }) => Float32Array.from(targets, (target) => -target)),
        });
        await trainer.optimStep(ADAM);
      }
      return (
        (steps * rows.reduce((sum, { ids }) => sum + ids.length - 1, 0)) / ((performance.now() - start) / 1e3)
      );
    };
    const rows = randomRows(16, 257, vocabulary);
    await time(rows, 1);
    await time(rows, 1, 'bfloat16');
    const steps = Math.max(1, Math.round((SECONDS_PER_SAMPLE * (await time(rows, 1))) / 4096));
    const request = { do: 'train', shape: config, rows: 16, length: 256, steps };
    const { torch } = options;
    const torchThreads = torch && {
      float32: await bestThreads(torch, { ...request, dtype: 'float32' }, options.threads),
      bfloat16: await bestThreads(torch, { ...request, dtype: 'bfloat16' }, options.threads),
    };
    const delay = monitorEventLoopDelay({ resolution: 1 });
    const ours = async (arithmetic: Arithmetic) => {
      delay.enable();
      const speed = await time(rows, steps, arithmetic);
      delay.disable();
      return speed;
    };
    const theirs =
      torch && ((dtype: Arithmetic) => askTorch(torch, { ...request, dtype, threads: torchThreads![dtype] }));
    Object.assign(figures, await compare(`train${name}`, options.rounds, ours, theirs));
    figures[`train${name}DelayP99Milliseconds`] = delay.percentile(99) / 1e6;
    figures[`train${name}PeakMegabytes`] = (await trainers.float32.peakBytes()) / 1e6;
    if (name !== '1M') {
      const long = randomRows(2, 2049, vocabulary);
      await time(long, 1);
      figures[`costAt2048Over256For${name}`] =
        figures[`train${name}`]! / (await time(long, Math.max(1, Math.round(steps / 2))));
    }
    for (const trainer of Object.values(trainers)) await trainer.close();
    for (const [key, value] of Object.entries(figures)) {
      if (key.includes(name)) console.log(`${key.padEnd(28)} ${value.toFixed(2)}`);
    }
  }
  return figures;
}

async function askTorch(torch: PythonPeer, request: Readonly<Record<string, unknown>>): Promise<number> {
  return (await torch.ask<{ tokensPerSecond: number }>(request)).tokensPerSecond;
}

/** The thread count at which torch is fastest, after a warm-up. */
async function bestThreads(
  torch: PythonPeer,
  request: Readonly<Record<string, unknown>>,
  most: number,
): Promise<number> {
  let best = { threads: most, speed: 0 };
  for (const threads of new Set([most, Math.ceil(most / 2)])) {
    await askTorch(torch, { ...request, steps: 1, threads });
    const speed = await askTorch(torch, { ...request, threads });
    if (speed > best.speed) best = { threads, speed };
  }
  console.log(`torch is fastest here with ${best.threads} threads`);
  return best.threads;
}

function randomRows(count: number, length: number, vocabulary: number): Row[] {
  const random = createRandom(1);
  return Array.from({ length: count }, () => ({
    ids: Int32Array.from({ length }, () => random.integer(vocabulary)),
    targets: Uint8Array.from({ length }, (_, index) => (index > 0 ? 1 : 0)),
  }));
}
