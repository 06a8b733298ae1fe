import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readEngineGolden, relativeError } from '../../../test/golden/engine/golden.ts';
import { TrainerError } from '../../errors.ts';
import type { Trainer } from '../../training/trainer.ts';
import { openTrainer, type TrainerOptions } from './trainer.ts';

const GOLDEN = 'test/golden/engine';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'rollcall-trainer-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

async function withTrainer<T>(options: TrainerOptions, use: (trainer: Trainer) => Promise<T>): Promise<T> {
  const trainer = await openTrainer({ threads: 1, log: () => {}, ...options });
  try {
    return await use(trainer);
  } finally {
    await trainer.close();
  }
}

const golden = readEngineGolden(join(GOLDEN, 'qwen3'));
const model = golden.directory;
const scoring = { temperature: golden.temperature, outputs: golden.names };

async function step(trainer: Trainer): Promise<void> {
  const pass = await trainer.forward(golden.rows, scoring);
  await pass.backward(golden.gradientsByOutput);
  await trainer.optimStep(golden.adam);
}

async function published(trainer: Trainer) {
  const update = await trainer.publish(1);
  if (update.kind !== 'memory') throw new Error(update.kind);
  return update.tensors;
}

test('a trainer resumed from a folder takes the very same next steps', async () => {
  const saved = join(directory, 'resumed');
  const straight = await withTrainer({ model, valueHead: true }, async (trainer) => {
    await step(trainer);
    await trainer.save(saved);
    await step(trainer);
    await step(trainer);
    return [await published(trainer), await trainer.score(golden.rows, scoring)];
  });
  // Servers load every *.safetensors of a folder: only the model's may lie there.
  expect(readdirSync(saved).sort()).toEqual(['config.json', 'model.safetensors', 'trainer']);
  expect(readdirSync(join(saved, 'trainer')).sort()).toEqual([
    'optimizer.safetensors',
    'value_head.safetensors',
  ]);
  const resumed = await withTrainer({ model, valueHead: true }, async (trainer) => {
    await step(trainer); // something to forget
    await trainer.load(saved);
    await step(trainer);
    await step(trainer);
    return [await published(trainer), await trainer.score(golden.rows, scoring)];
  });
  expect(resumed).toEqual(straight);
});

test('published weights lie in shared memory and score as the trainer does', async () => {
  await withTrainer({ model, valueHead: true }, async (trainer) => {
    await step(trainer);
    const tensors = await published(trainer);
    for (const { shape, data } of tensors.values()) {
      expect(data.buffer).toBeInstanceOf(SharedArrayBuffer);
      expect(data.length).toBe(shape.reduce((product, size) => product * size, 1));
    }
    for (const [name, expected] of golden.after) {
      const tensor = tensors.get(name);
      if (tensor) expect(relativeError(tensor.data, expected), name).toBeLessThan(1e-4);
    }
    const before = tensors.get('model.norm.weight')!.data.slice();
    await step(trainer);
    expect(tensors.get('model.norm.weight')!.data).toEqual(before); // a version stays what it was
  });
});

test('what cannot be done is refused in words', async () => {
  await expect(openTrainer({ model: '/nowhere' })).rejects.toThrow(/\/nowhere\/config.json: no such file/);
  await withTrainer({ model, trainable: false }, async (trainer) => {
    expect(trainer.can).toEqual(new Set(['entropy', 'sumSquares', 'temperature', 'prefix']));
    const pass = await trainer.forward(golden.rows, { temperature: 1, outputs: ['logprob'] });
    await expect(pass.backward({ logprob: golden.outputs.logprob! })).rejects.toThrow(/trainable: false/);
    await expect(trainer.optimStep(golden.adam)).rejects.toThrow(/trainable: false/);
    await expect(trainer.score(golden.rows, scoring)).rejects.toThrow(/value was asked for/);
    await expect(trainer.score([], { temperature: 0, outputs: ['logprob'] })).rejects.toThrow(
      /temperature is 0/,
    );
  });
});

test('a call can be abandoned, and the trainer goes on', async () => {
  await withTrainer({ model }, async (trainer) => {
    const rows = Array.from({ length: 400 }, () => golden.rows).flat();
    const controller = new AbortController();
    const options = { temperature: 1, outputs: ['logprob'] as const };
    const scored = trainer.score(rows, { ...options, signal: controller.signal });
    controller.abort(new Error('enough'));
    await expect(scored).rejects.toThrow('enough');
    await expect(trainer.score(rows, { ...options, signal: controller.signal })).rejects.toThrow('enough');
    expect((await trainer.score(golden.rows, options)).logprob).toHaveLength(golden.rows.length);
  });
});

test('a closed trainer answers with an error, and may be closed again', async () => {
  const trainer = await openTrainer({ model, threads: 1, trainable: false });
  const waiting = trainer.score(golden.rows, { temperature: 1, outputs: ['logprob'] });
  await trainer.close();
  await waiting;
  await expect(trainer.publish(1)).rejects.toThrow(TrainerError);
  await trainer.close();
});
