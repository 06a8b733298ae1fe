import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ConfigError } from '../../errors.ts';
import { createModel, randomWeight } from './create.ts';
import {
  FileSet,
  type NamedTensor,
  readModelConfig,
  readTensors,
  readWeightPrecisions,
  readWeights,
} from './files.ts';
import { inspectModel } from './inspect.ts';
import {
  activationBytes,
  adapterRunBytes,
  checkMemory,
  secondsPerThousandTokens,
  trainerBytes,
} from './memory.ts';
import { countParameters, weightElements, weightSpecs } from './weights.ts';

const GOLDEN = 'test/golden/engine';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'rollcall-files-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

function load(folder: string): Map<string, Float32Array> {
  const weights = new Map<string, Float32Array>();
  readWeights(folder, readModelConfig(folder), (spec) => {
    weights.set(spec.name, new Float32Array(weightElements(spec)));
    return weights.get(spec.name)!;
  });
  return weights;
}

/** A copy of the Qwen3 golden whose tensors were changed. */
function changed(change: (tensors: NamedTensor[]) => NamedTensor[]): string {
  cpSync(join(GOLDEN, 'qwen3'), directory, { recursive: true });
  const files = new FileSet(directory);
  files.tensors('model.safetensors', change(readTensors(join(directory, 'model.safetensors')).tensors));
  files.commit();
  return directory;
}

test('shards that transformers wrote are read through their index', () => {
  const weights = load(join(GOLDEN, 'llama'));
  expect([...weights.keys()].sort()).toEqual(
    weightSpecs(readModelConfig(join(GOLDEN, 'llama')))
      .map(({ name }) => name)
      .sort(),
  );
  expect(readWeightPrecisions(join(GOLDEN, 'llama'), readModelConfig(join(GOLDEN, 'llama')))).toEqual([
    'BF16',
  ]);
});

describe('a model folder that does not hold what its config asks for is refused by name', () => {
  const cases: [string, () => string, RegExp][] = [
    [
      'a missing tensor',
      () => changed((tensors) => tensors.filter(({ name }) => name !== 'model.norm.weight')),
      /tensor model.norm.weight is missing/,
    ],
    [
      'another shape',
      () =>
        changed((tensors) =>
          tensors.map((tensor) =>
            tensor.name === 'model.norm.weight' ? { ...tensor, shape: [2, 12] } : tensor,
          ),
        ),
      /model.norm.weight has shape \[2, 12\]; config.json asks for \[24\]/,
    ],
    [
      'an unknown tensor',
      () =>
        changed((tensors) => [...tensors, { name: 'model.extra', shape: [1], data: new Float32Array(1) }]),
      /tensor model.extra is unknown to a qwen3/,
    ],
    [
      'a number that is not finite',
      () =>
        changed((tensors) =>
          tensors.map((tensor, index) => ({
            ...tensor,
            data: index ? tensor.data : tensor.data.fill(Number.POSITIVE_INFINITY, 3, 4),
          })),
        ),
      /element 3 is Infinity/,
    ],
  ];
  test.each(cases)('%s', (_name, make, message) => {
    const folder = make();
    expect(() => load(folder)).toThrow(ConfigError);
    expect(() => load(folder)).toThrow(message);
  });

  test('a folder without weights, or with an index that points elsewhere', () => {
    writeFileSync(join(directory, 'config.json'), readFileSync(join(GOLDEN, 'llama/config.json')));
    expect(() => load(directory)).toThrow(/neither model.safetensors nor/);
    const index = join(directory, 'model.safetensors.index.json');
    writeFileSync(index, JSON.stringify({ weight_map: { a: '../other.safetensors' } }));
    expect(() => load(directory)).toThrow(/names "..\/other.safetensors"; a file beside it/);
    writeFileSync(index, JSON.stringify({ weight_map: { a: 'gone.safetensors' } }));
    expect(() => load(directory)).toThrow(/gone.safetensors: cannot be opened/);
    writeFileSync(index, '{}');
    expect(() => load(directory)).toThrow(/weight_map is missing/);
  });
});

test('the output matrix some writers add to a tied model is passed over', () => {
  const extra = { name: 'lm_head.weight', shape: [37, 24], data: new Float32Array(37 * 24) };
  expect(load(changed((tensors) => [...tensors, extra])).has('lm_head.weight')).toBe(false);
});

describe('a new model', () => {
  const tokenizer = () => {
    const vocab = { a: 0, b: 1, '</s>': 2 };
    writeFileSync(
      join(directory, 'tokenizer.json'),
      JSON.stringify({ model: { type: 'WordLevel', vocab }, added_tokens: [{ id: 5, content: '<end>' }] }),
    );
    writeFileSync(
      join(directory, 'tokenizer_config.json'),
      JSON.stringify({ eos_token: { content: '<end>' } }),
    );
    return directory;
  };

  test('has its tokenizer’s vocabulary and end, and says what it is', () => {
    const model = join(directory, 'model');
    const config = createModel({ directory: model, size: 'tiny', tokenizer: tokenizer(), family: 'qwen3' });
    expect(readModelConfig(model)).toEqual(config);
    expect(config).toMatchObject({ vocabulary: 6, eosIds: [5], headNorm: true });
    const weights = load(model);
    expect([...weights.values()].reduce((sum, { length }) => sum + length, 0)).toBe(countParameters(config));
    expect(inspectModel(model)).toMatchObject({ family: 'qwen3', precision: 'F32', tokenizer: true });
    expect(readFileSync(join(model, 'tokenizer.json'))).toEqual(
      readFileSync(join(directory, 'tokenizer.json')),
    );
  });

  test('is the same for the same seed and another for another', () => {
    const make = (name: string, seed: number) => {
      const model = join(directory, name);
      createModel({ directory: model, size: 'tiny', tokenizer: tokenizer(), seed });
      return load(model);
    };
    const first = make('a', 1);
    expect(make('b', 1)).toEqual(first);
    expect(make('c', 2)).not.toEqual(first);
  });

  test('has weights of standard deviation 1/√fan_in', () => {
    const weight = randomWeight({ name: 'w', shape: [300, 256], kind: 'linear' }, 1);
    const mean = weight.reduce((sum, value) => sum + value, 0) / weight.length;
    const variance = weight.reduce((sum, value) => sum + (value - mean) ** 2, 0) / weight.length;
    expect(Math.abs(mean)).toBeLessThan(0.001);
    expect(Math.sqrt(variance) * 16).toBeCloseTo(1, 2);
  });

  test('is not written over another', () => {
    const model = join(directory, 'model');
    const options = { directory: model, size: 'tiny', tokenizer: tokenizer() } as const;
    createModel(options);
    expect(() => createModel(options)).toThrow(/already holds a model/);
    expect(() => createModel({ ...options, tokenizer: '/nowhere' })).toThrow(/already holds|no such file/);
    expect(() =>
      createModel({ ...options, directory: join(directory, 'other'), tokenizer: '/nowhere' }),
    ).toThrow(/tokenizer \/nowhere: no such file or folder/);
  });
});

test('what a run of an adapter needs is what SmolLM2-135M was measured to take', () => {
  const config = {
    ...readModelConfig(join(GOLDEN, 'llama')),
    ...{
      vocabulary: 49_152,
      hidden: 576,
      layers: 30,
      heads: 9,
      kvHeads: 3,
      headSize: 64,
      intermediate: 1536,
    },
    tied: true,
  };
  const run = { weights: 'bfloat16', rank: 16, cacheMegabytes: 200 } as const;
  // `npm run prove laptop`: 1.9 GB at most
  expect(adapterRunBytes(config, run)).toBeGreaterThan(0.9 * 1.9e9);
  expect(adapterRunBytes(config, run)).toBeLessThan(1.1 * 1.9e9);
  // 106.2M in layers and 28.3M in the embedding: rows in float32, two packed forms in bfloat16; an adapter of 4.88M
  const trainer = 4 * 28.3e6 + 2 * 2 * (106.2e6 + 28.3e6) + 24 * 4.88e6;
  expect(trainerBytes(config, 'adapter', run) / trainer).toBeCloseTo(1, 2);
});

test('a model that cannot fit is refused with the figures', () => {
  const config = { ...readModelConfig(join(GOLDEN, 'llama')), vocabulary: 150_000, hidden: 4096, tied: true };
  // 0.61 billion parameters or more, six floats each
  expect(trainerBytes(config, 'all')).toBeGreaterThan(6 * 4 * 150_000 * 4096);
  expect(activationBytes(config, true)).toBeLessThan(activationBytes(config, false));
  const where = 'the wasm heap';
  expect(() => checkMemory('DIR', { needed: 14.9e9, available: 4e9, where, seconds: 23.4 })).toThrow(
    /DIR on the CPU needs about 14.9 GB, and the wasm heap offers 4.0 GB; 1000 tokens would take about 23 s.*torch/,
  );
  // 6 × 0.63 billion × 1000 operations at 80 GFLOP/s
  const seconds = secondsPerThousandTokens(config, 1);
  expect(seconds).toBeGreaterThan((6 * 150_000 * 4096 * 1000) / 80e9);
  expect(secondsPerThousandTokens(config, 2)).toBeCloseTo(seconds / 2);
});
