/**
 * What others read and compute of a model that sees, trained and saved by the embedded engine: `transformers`, and the PyTorch
 * trainer before and after a step of its own; and what the embedded engine reads of that trainer's.
 */
import { join } from 'node:path';
import { lookRows } from '../../bench/engine/images.ts';
import { PythonPeer } from '../../bench/engine/python-peer.ts';
import { openServer } from '../../src/engine/server.ts';
import { openTrainer } from '../../src/engine/training/trainer.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import { torch as torchTrainer } from '../../src/torch/torch.ts';
import { type Aim, atLeast, atMost } from '../verdict.ts';

const ADAM = { learningRate: 1e-2, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, clipNorm: 1 };

export interface Readers {
  /** A folder of the embedded engine's. */
  readonly from: string;
  /** Of the PyTorch trainer, and of `transformers` with Pillow. */
  readonly python: string;
  readonly peerPython: string;
  readonly rows: number;
  /** Without a step it is read as it is. */
  readonly steps: boolean;
  readonly directory: string;
}

export async function proveReaders({
  from,
  python,
  peerPython,
  rows: count,
  steps,
  directory,
}: Readers): Promise<{ readonly aims: Aim[]; readonly figures: object }> {
  const look = await lookRows(from);
  const rows = await look.rows(0, count);
  const options = { temperature: 1, outputs: ['logprob'] as const };
  const readImage = look.images.read;

  // One step, so that what is read elsewhere is what training saved.
  const trainer = await openTrainer({ model: from, threads: 2, readImage });
  const before = await trainer.score(rows, options);
  if (steps) {
    const pass = await trainer.forward(rows, options);
    await pass.backward({
      logprob: rows.map(({ targets }) => Float32Array.from(targets, (target) => -target)),
    });
    await trainer.optimStep(ADAM);
  }
  const saved = join(directory, 'saved');
  await trainer.save(saved);
  const trained = await trainer.score(rows, options);
  await trainer.close();

  const server = await openServer({ model: saved, threads: 2, cacheMegabytes: 64, readImage });
  const served = await Promise.all(
    rows.map(({ ids, images }, index) =>
      server.generate({
        id: `row-${index}-`,
        trajectory: `row-${index}-`,
        prompt: ids,
        images: images.map(({ image }) => image),
        imagePlaces: images.map(({ at }) => at),
        scorePrompt: true,
        sampling: { ...PLAIN_SAMPLING, maxTokens: 1, stopIds: [], seed: 1 },
      }),
    ),
  );
  await server.close();

  const torch = new PythonPeer(peerPython, 'torch_vision');
  const about = await torch.ask({ do: 'about' });
  const { logprobs } = await torch.ask<{ logprobs: number[][] }>({
    do: 'score',
    model: saved,
    threads: 2,
    rows: await look.plain(rows),
  });
  await torch.close();

  // The same step from the same folder, by the other trainer, through the port that a run uses.
  const other = await torchTrainer({ device: 'cpu', threads: 2, python }).open('policy', from, {
    readImage,
  });
  const otherBefore = await other.score(rows, options);
  if (steps) {
    const pass = await other.forward(rows, options);
    await pass.backward({
      logprob: rows.map(({ targets }) => Float32Array.from(targets, (target) => -target)),
    });
    await other.optimStep(ADAM);
  }
  const otherTrained = await other.score(rows, options);
  const otherSaved = join(directory, 'saved-by-torch');
  await other.save(otherSaved);
  await other.close();
  const reader = await openTrainer({ model: otherSaved, threads: 2, readImage });
  const readBack = await reader.score(rows, options);
  await reader.close();

  let compared = 0;
  const largest = (ours: (row: number, at: number) => number, theirs: (row: number, at: number) => number) =>
    Math.max(
      ...rows.flatMap(({ targets }, row) =>
        [...targets.keys()]
          .filter((at) => targets[at])
          .map((at) => {
            compared++;
            return Math.abs(ours(row, at) - theirs(row, at));
          }),
      ),
    );
  const trainerAt = (row: number, at: number) => trained.logprob![row]![at]!;
  const torchAt = (row: number, at: number) => logprobs[row]![at]!;
  return {
    aims: [
      atMost(
        'log-probs of the trainer against transformers, largest difference',
        largest(trainerAt, torchAt),
        1e-4,
      ),
      atMost(
        'log-probs of the server against transformers, largest difference',
        largest((row, at) => served[row]!.promptLogprobs![at]!, torchAt),
        1e-4,
      ),
      atMost(
        'log-probs of the PyTorch trainer against the embedded one, largest difference',
        largest(
          (row, at) => otherBefore.logprob![row]![at]!,
          (row, at) => before.logprob![row]![at]!,
        ),
        1e-4,
      ),
      atMost(
        'the same after a step of each, largest difference',
        largest((row, at) => otherTrained.logprob![row]![at]!, trainerAt),
        1e-3, // Adam divides by the root of what may be rounding
      ),
      atMost(
        'what the PyTorch trainer saved, read by the embedded engine, largest difference',
        largest(
          (row, at) => readBack.logprob![row]![at]!,
          (row, at) => otherTrained.logprob![row]![at]!,
        ),
        1e-4,
      ),
      ...(steps
        ? [
            atLeast(
              'what the step changed',
              largest(trainerAt, (row, at) => before.logprob![row]![at]!),
              0.1,
            ),
          ]
        : []),
    ],
    figures: {
      rows: rows.length,
      images: rows.length * rows[0]!.images.length,
      compared,
      ...(about as object),
    },
  };
}
