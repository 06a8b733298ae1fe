import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readEngineGolden } from '../../../test/golden/engine/golden.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { openKernels } from '../kernels/open.ts';
import { TrainingEngine } from '../training/training-engine.ts';
import type { TrainingOptions } from '../training/training-options.ts';
import { FileSet, readTensors } from './files.ts';

const golden = readEngineGolden('test/golden/engine/llama-lora');
const lora = { rank: 3, alpha: 7, targets: ['q_proj', 'v_proj', 'o_proj', 'up_proj', 'down_proj'] };
const outputs = { temperature: golden.temperature, outputs: ['logprob', 'entropy'] as const };
let folder: string;
let exact: string;
let kernels: Kernels;

beforeAll(async () => {
  kernels = await openKernels({ threads: 1, log: () => {} });
  folder = mkdtempSync(join(tmpdir(), 'rollcall-frozen-'));
  exact = join(folder, 'exact');
  cpSync(golden.directory, exact, { recursive: true });
  const files = new FileSet(exact);
  files.tensors(
    'model.safetensors',
    readTensors(join(golden.directory, 'model.safetensors')).tensors.map((tensor) => ({
      ...tensor,
      data: tensor.data.map(cutToBfloat16),
    })),
  );
  files.commit();
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await kernels.close();
});

function cutToBfloat16(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer);
  bits[0]! &= 0xffff0000;
  return new Float32Array(bits.buffer)[0]!;
}

function withEngine<T>(options: TrainingOptions, use: (engine: TrainingEngine) => T): T {
  const engine = new TrainingEngine(kernels, options);
  try {
    return use(engine);
  } finally {
    engine.close();
  }
}

/** Of all numbers together: ‖a − b‖ / ‖b‖. */
function distance(a: readonly Float32Array[], b: readonly Float32Array[]): number {
  const [one, other] = [a, b].map((parts) => parts.flatMap((part) => [...part])) as [number[], number[]];
  return Math.hypot(...other.map((value, at) => one[at]! - value)) / Math.hypot(...other);
}

test('with weights that are bfloat16 already only inputs, keys and values are rounded: outputs and gradients move by a few percent at most', () => {
  const trained = (weights: 'float32' | 'bfloat16') =>
    withEngine({ model: exact, lora, weights }, (engine) => {
      engine.load(join(golden.directory, 'adapter'));
      const { pass, outputs: seen } = engine.forward(golden.rows, outputs);
      const ones = golden.rows.map(({ ids }) => new Float32Array(ids.length).fill(1));
      engine.backward(pass, { logprob: ones });
      const gradients = ['self_attn.q_proj', 'mlp.up_proj', 'mlp.down_proj'].map((name) =>
        engine.gradient(`model.layers.0.${name}.lora_A.weight`),
      );
      return { logprob: seen.logprob!, gradients, published: engine.publish() };
    });
  const [half, full] = [trained('bfloat16'), trained('float32')];
  expect(distance(half.logprob, full.logprob)).toBeLessThan(0.005);
  expect(distance(half.logprob, full.logprob)).toBeGreaterThan(0);
  expect(distance(half.gradients, full.gradients)).toBeLessThan(0.05);
  expect(half.published).toEqual(full.published);
});

test('other weights are rounded: log-probs move a little, and half of the memory is free', () => {
  const held = (weights: 'float32' | 'bfloat16') => {
    const before = kernels.bytesInUse;
    return withEngine({ model: golden.directory, lora, weights }, (engine) => {
      const { logprob } = engine.score(golden.rows, outputs);
      return { bytes: kernels.bytesInUse - before, logprob: logprob!.flatMap((row) => [...row]) };
    });
  };
  const [full, half] = [held('float32'), held('bfloat16')];
  const furthest = Math.max(...full.logprob.map((value, at) => Math.abs(value - half.logprob[at]!)));
  expect(furthest).toBeGreaterThan(0);
  expect(furthest).toBeLessThan(0.05);
  expect(half.bytes).toBeLessThan(full.bytes);
  const before = kernels.bytesInUse;
  held('bfloat16');
  expect(kernels.bytesInUse).toBe(before);
});

test('weights that are trained are multiplied in bfloat16 and kept in float32', () => {
  const outcome = (weights: 'float32' | 'bfloat16') =>
    withEngine({ model: exact, weights }, (engine) => {
      const { pass, outputs: seen } = engine.forward(golden.rows, outputs);
      engine.backward(pass, { logprob: golden.rows.map(({ ids }) => new Float32Array(ids.length).fill(1)) });
      const names = ['self_attn.q_proj', 'mlp.up_proj', 'mlp.down_proj'];
      const slopes = names.map((name) => engine.gradient(`model.layers.0.${name}.weight`));
      const before = engine.value('model.layers.0.mlp.up_proj.weight').slice();
      const adam = {
        learningRate: 1e-7,
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-8,
        weightDecay: 0,
        clipNorm: 1,
      };
      engine.optimStep(adam);
      const after = engine.value('model.layers.0.mlp.up_proj.weight');
      const moved = before.filter((value, at) => value !== after[at]).length / before.length;
      return { logprob: seen.logprob!, slopes, moved };
    });
  const [half, full] = [outcome('bfloat16'), outcome('float32')];
  expect(distance(half.logprob, full.logprob)).toBeGreaterThan(0);
  expect(distance(half.logprob, full.logprob)).toBeLessThan(0.005);
  expect(distance(half.slopes, full.slopes)).toBeLessThan(0.05);
  // A step far below what bfloat16 can tell apart is not lost.
  expect(half.moved).toBeGreaterThan(0.5);
});
