/** LoRA training of a model folder against PyTorch with peft: forward, backward and AdamW on the adapter. */
import { openTrainer } from '../../src/engine/training/trainer.ts';
import { createRandom } from '../../src/lib/random.ts';
import type { Row } from '../../src/training/trainer.ts';
import { ARITHMETICS, type Arithmetic, compare, named } from './compare.ts';
import type { PythonPeer } from './python-peer.ts';
import { ADAM } from './training.ts';

const [ROWS, LENGTH, RANK] = [4, 256, 16];

export interface LoraBench {
  readonly model: string;
  readonly threads: number;
  readonly rounds: number;
  readonly peer: PythonPeer;
}

/** Tokens a second: `trainLora`, `torchTrainLoraBfloat16` and so on, with the ratios of `compare`. */
export async function benchLora({ model, threads, rounds, peer }: LoraBench) {
  const open = (weights: Arithmetic) =>
    openTrainer({ model, threads, weights, lora: { rank: RANK, alpha: RANK } });
  const trainers = { float32: await open('float32'), bfloat16: await open('bfloat16') };
  const random = createRandom(1);
  const rows: Row[] = Array.from({ length: ROWS }, () => ({
    ids: Int32Array.from({ length: LENGTH + 1 }, () => random.integer(1000)),
    targets: Uint8Array.from({ length: LENGTH + 1 }, (_, index) => (index > 0 ? 1 : 0)),
  }));
  const ours = async (arithmetic: Arithmetic) => {
    const start = performance.now();
    const pass = await trainers[arithmetic].forward(rows, { temperature: 1, outputs: ['logprob'] });
    await pass.backward({
      logprob: rows.map(({ targets }) => Float32Array.from(targets, (target) => -target)),
    });
    await trainers[arithmetic].optimStep(ADAM);
    return (ROWS * LENGTH) / ((performance.now() - start) / 1e3);
  };
  const theirs = async (dtype: Arithmetic) => {
    const request = { do: 'train', model, dtype, rank: RANK, rows: ROWS, length: LENGTH, steps: 1, threads };
    return (await peer.ask<{ tokensPerSecond: number }>(request)).tokensPerSecond;
  };
  for (const arithmetic of ARITHMETICS) {
    await ours(arithmetic);
    await theirs(arithmetic);
  }
  const figures = await compare('trainLora', rounds, ours, theirs);
  for (const arithmetic of ARITHMETICS) {
    figures[`${named('trainLora', arithmetic)}PeakMegabytes`] =
      (await trainers[arithmetic].peakBytes()) / 1e6;
    await trainers[arithmetic].close();
  }
  for (const [name, value] of Object.entries(figures)) console.log(`${name.padEnd(36)} ${value.toFixed(2)}`);
  return figures;
}
