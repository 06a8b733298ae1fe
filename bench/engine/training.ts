/** Training speed of the embedded engine: forward, backward and AdamW over whole rows. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { openTrainer, type TrainerOptions } from '../../src/engine/training/trainer.ts';
import { createRandom } from '../../src/lib/random.ts';
import type { AdamOptions, Row } from '../../src/training/trainer.ts';
import { median } from './median.ts';
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
    const trainer = await openTrainer({
      model: directory,
      threads: options.threads,
      ...(options.kernels ? { kernels: options.kernels } : {}),
    });
    const time = async (rows: readonly Row[], steps: number) => {
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
    const steps = Math.max(1, Math.round((SECONDS_PER_SAMPLE * (await time(rows, 1))) / 4096));
    const ours: number[] = [];
    const theirs: number[] = [];
    const request = { do: 'train', shape: config, rows: 16, length: 256, steps };
    const torchThreads = options.torch && (await bestThreads(options.torch, request, options.threads));
    const delay = monitorEventLoopDelay({ resolution: 1 });
    for (let round = 0; round < options.rounds; round++) {
      delay.enable();
      ours.push(await time(rows, steps));
      delay.disable();
      if (options.torch) theirs.push(await askTorch(options.torch, { ...request, threads: torchThreads }));
    }
    figures[`train${name}`] = median(ours);
    if (options.torch) {
      figures[`torchTrain${name}`] = median(theirs);
      figures[`ratioTrain${name}`] = median(ours.map((own, round) => own / theirs[round]!));
    }
    figures[`train${name}DelayP99Milliseconds`] = delay.percentile(99) / 1e6;
    figures[`train${name}PeakMegabytes`] = (await trainer.peakBytes()) / 1e6;
    if (name !== '1M') {
      const long = randomRows(2, 2049, vocabulary);
      await time(long, 1);
      figures[`costAt2048Over256For${name}`] =
        median(ours) / (await time(long, Math.max(1, Math.round(steps / 2))));
    }
    await trainer.close();
    for (const [key, value] of Object.entries(figures)) {
      if (key.endsWith(name) || key.includes(`${name}P`))
        console.log(`${key.padEnd(28)} ${value.toFixed(2)}`);
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
