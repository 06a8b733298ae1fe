import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { tinyModel } from '../../test/tiny-model.ts';
import type { Trainer } from '../training/trainer.ts';
import { publishToDisk } from './disk-weights.ts';
import { embedded } from './embedded.ts';
import { readTensors } from './model/files.ts';

const adam = { learningRate: 1e-2, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 1 };
let model: string;
beforeAll(async () => {
  model = await tinyModel();
});

async function newDirectory() {
  return mkdtemp(join(tmpdir(), 'rollcall-disk-weights-'));
}

/** One update that moves all that is trained. */
async function update(trainer: Trainer) {
  const row = { ids: Int32Array.of(1, 2, 3, 4), targets: Uint8Array.of(0, 1, 1, 1) };
  const pass = await trainer.forward([row], { temperature: 1, outputs: ['logprob'] });
  await pass.backward({ logprob: [Float32Array.of(0, 1, 1, 1)] });
  await trainer.optimStep(adam);
}

test('a version is a folder whose only safetensors file holds the weights that the trainer has', async () => {
  const plain = await embedded({ threads: 1 }).trainer.open('policy', model, { valueHead: true });
  const trainer = await publishToDisk(plain, { model });
  await update(trainer);
  const sent = await trainer.publish(3);
  if (sent.kind !== 'disk') throw new Error(`published by ${sent.kind}`);
  expect(readdirSync(sent.path).filter((file) => file.endsWith('.safetensors'))).toEqual([
    'model.safetensors',
  ]);
  const memory = await plain.publish(3);
  if (memory.kind !== 'memory') throw new Error(`published by ${memory.kind}`);
  const { tensors } = readTensors(join(sent.path, 'model.safetensors'));
  expect(new Map(tensors.map(({ name, shape, data }) => [name, { shape, data }]))).toEqual(memory.tensors);
  await trainer.publish(4);
  await trainer.publish(5);
  expect(existsSync(sent.path)).toBe(false); // two versions stay
  await trainer.close();
  expect(existsSync(join(sent.path, '..'))).toBe(false);
});

test('bfloat16 weights are written as bfloat16, bit by bit', async () => {
  const bits = Uint16Array.of(0x3f80, 0xbf80, 0x4049, 0x0000); // 1, −1, 3.140625, 0
  const plain = await embedded({ threads: 1 }).trainer.open('reference', model);
  const half = Object.assign(Object.create(plain) as Trainer, {
    publish: async (version: number) => ({
      kind: 'memory',
      version,
      tensors: new Map([['model.norm.weight', { shape: [2, 2], data: bits }]]),
    }),
    close: () => plain.close(),
  });
  const directory = await newDirectory();
  const trainer = await publishToDisk(half, { model, directory });
  const sent = await trainer.publish(1);
  if (sent.kind !== 'disk') throw new Error(`published by ${sent.kind}`);
  const file = await readFile(join(sent.path, 'model.safetensors'));
  const header = JSON.parse(file.subarray(8, 8 + Number(file.readBigUInt64LE(0))).toString()) as object;
  expect(header).toMatchObject({
    'model.norm.weight': { dtype: 'BF16', shape: [2, 2], data_offsets: [0, 8] },
  });
  expect([...file.subarray(-8)]).toEqual([0x80, 0x3f, 0x80, 0xbf, 0x49, 0x40, 0, 0]);
  const config = JSON.parse(await readFile(join(sent.path, 'config.json'), 'utf8')) as Record<
    string,
    unknown
  >;
  expect(config['dtype'] ?? config['torch_dtype']).toBe('bfloat16');
  await trainer.close();
  expect(readdirSync(directory)).toEqual([]);
});

test('an adapter is sent without optimizer state and value head, as the trainer has it', async () => {
  const plain = await embedded({ threads: 1, lora: { rank: 2, alpha: 4 } }).trainer.open('policy', model, {
    valueHead: true,
  });
  const trainer = await publishToDisk(plain, { model, send: 'adapter' });
  await update(trainer);
  const sent = await trainer.publish(7);
  if (sent.kind !== 'lora') throw new Error(`published by ${sent.kind}`);
  expect(sent.name).toBe('policy@7');
  expect(readdirSync(sent.path).sort()).toEqual(['adapter_config.json', 'adapter_model.safetensors']);
  const saved = await newDirectory();
  await plain.save(saved);
  const file = 'adapter_model.safetensors';
  expect(readTensors(join(sent.path, file))).toEqual(readTensors(join(saved, file)));
  await trainer.close();
});

test('a trainer that does not publish from memory cannot be put on disk', async () => {
  const trainer = { publishes: 'pushed' } as Trainer;
  await expect(publishToDisk(trainer, { model })).rejects.toThrow('the trainer publishes by pushed');
});
