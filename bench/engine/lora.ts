/** LoRA training of a model folder against PyTorch with peft: forward, backward and AdamW on the adapter. */
import { openTrainer } from '../../src/engine/training/trainer.ts';
import { createRandom } from '../../src/lib/random.ts';
import type { Row } from '../../src/training/trainer.ts';
import { median } from './median.ts';
import type { PythonPeer } from './python-peer.ts';
import { ADAM } from './training.ts';

const [ROWS, LENGTH, RANK] = [4, 256, 16];

export interface LoraBench {
  readonly model: string;
  readonly threads: number;
  readonly rounds: number;
  readonly peer: PythonPeer;
}

/** Ours holds the base in bfloat16 and computes in float32; PyTorch is timed in float32 and in bfloat16. */
export async function benchLora({ model, threads, rounds, peer }: LoraBench) {
  const trainer = await openTrainer({
    model,
    threads,
    weights: 'bfloat16',
    lora: { rank: RANK, alpha: RANK },
  });
  const random = createRandom(1);
  const rows: Row[] = Array.from({ length: ROWS }, () => ({
    ids: Int32Array.from({ length: LENGTH + 1 }, () => random.integer(1000)),
    targets: Uint8Array.from({ length: LENGTH + 1 }, (_, index) => (index > 0 ? 1 : 0)),
  }));
  const time = async () => {
    const start = performance.now();
    const pass = await trainer.forward(rows, { temperature: 1, outputs: ['logprob'] });
    await pass.backward({
      logprob: rows.map(({ targets }) => Float32Array.from(targets, (target) => -target)),
    });
    await trainer.optimStep(ADAM);
    return (ROWS * LENGTH) / ((performance.now() - start) / 1e3);
  };
  const dtypes = ['float32', 'bfloat16'] as const;
  const ask = (dtype: string) =>
    peer.ask<{ tokensPerSecond: number }>({
      ...{ do: 'train', model, dtype, rank: RANK, rows: ROWS, length: LENGTH, steps: 1, threads },
    });
  await time();
  for (const dtype of dtypes) await ask(dtype);
  const ours: number[] = [];
  const theirs: Record<(typeof dtypes)[number], number[]> = { float32: [], bfloat16: [] };
  for (let round = 0; round < rounds; round++) {
    ours.push(await time());
    for (const dtype of dtypes) theirs[dtype].push((await ask(dtype)).tokensPerSecond);
  }
  const peakMegabytes = (await trainer.peakBytes()) / 1e6;
  await trainer.close();
  const ratio = (dtype: (typeof dtypes)[number]) =>
    median(ours.map((own, round) => own / theirs[dtype][round]!));
  return {
    trainLora: median(ours),
    peftFloat32: median(theirs.float32),
    peftBfloat16: median(theirs.bfloat16),
    ratioTrainLora: ratio('float32'),
    ratioTrainLoraBfloat16: ratio('bfloat16'),
    trainLoraPeakMegabytes: peakMegabytes,
  };
}
