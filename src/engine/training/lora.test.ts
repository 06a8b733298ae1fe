import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readEngineGolden, relativeError } from '../../../test/golden/engine/golden.ts';
import { ConfigError } from '../../errors.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { openKernels } from '../kernels/open.ts';
import { readModelConfig, readTensors } from '../model/files.ts';
import { readAdapter } from './lora.ts';
import { mergeAdapter } from './merge-adapter.ts';
import { TrainingEngine } from './training-engine.ts';
import type { TrainingOptions } from './training-options.ts';

const LORA = { rank: 3, alpha: 7, targets: ['q_proj', 'v_proj', 'o_proj', 'up_proj', 'down_proj'] };

let directory: string;
let kernels: Kernels;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'rollcall-lora-'));
  kernels = await openKernels({ threads: 1, log: () => {} });
});
afterAll(async () => {
  rmSync(directory, { recursive: true });
  await kernels.close();
});

function withEngine<T>(options: TrainingOptions, use: (engine: TrainingEngine) => T): T {
  const engine = new TrainingEngine(kernels, options);
  try {
    return use(engine);
  } finally {
    engine.close();
  }
}

describe('low-rank adapters', () => {
  const adapted = readEngineGolden('test/golden/engine/llama-lora');
  const options = { model: adapted.directory, lora: LORA };
  const outputs = { temperature: adapted.temperature, outputs: adapted.names };

  test('begin as no change', () => {
    const score = (engine: TrainingEngine) => engine.score(adapted.rows, outputs);
    expect(withEngine(options, score)).toEqual(
      withEngine({ model: adapted.directory, trainable: false }, score),
    );
  });

  test('are saved in the PEFT layout and read back exactly', () => {
    const saved = join(directory, 'adapter');
    const first = withEngine(options, (engine) => {
      engine.load(join(adapted.directory, 'adapter'));
      engine.save(saved);
      return engine.score(adapted.rows, outputs);
    });
    const config = JSON.parse(readFileSync(join(saved, 'adapter_config.json'), 'utf8'));
    expect(config).toMatchObject({ peft_type: 'LORA', r: 3, lora_alpha: 7, target_modules: LORA.targets });
    const again = withEngine(options, (engine) => {
      engine.load(saved);
      return engine.score(adapted.rows, outputs);
    });
    expect(again).toEqual(first);
    for (const [row, expected] of adapted.outputs.logprob!.entries()) {
      expect(relativeError(first.logprob![row]!, expected)).toBeLessThan(1e-5);
    }
  });

  test('are merged into a model folder that scores as the model and the adapter do', async () => {
    const merged = join(directory, 'merged');
    await mergeAdapter(join(adapted.directory, 'adapter'), merged, adapted.directory);
    const scored = withEngine({ model: merged, trainable: false }, (engine) =>
      engine.score(adapted.rows, outputs),
    );
    for (const [row, expected] of adapted.outputs.logprob!.entries()) {
      expect(relativeError(scored.logprob![row]!, expected)).toBeLessThan(1e-5);
    }
    await expect(mergeAdapter(join(adapted.directory, 'adapter'), merged, adapted.directory)).rejects.toThrow(
      /already holds a model/,
    );
  });

  test('are merged when published', () => {
    const tensors = withEngine(options, (engine) => {
      engine.load(join(adapted.directory, 'adapter'));
      return engine.publish();
    });
    const read = (path: string) =>
      new Map(readTensors(join(adapted.directory, path)).tensors.map((tensor) => [tensor.name, tensor.data]));
    const adapter = read('adapter/adapter_model.safetensors');
    const base = read('model.safetensors');
    const name = 'model.layers.1.mlp.down_proj';
    const a = adapter.get(`base_model.model.${name}.lora_A.weight`)!;
    const b = adapter.get(`base_model.model.${name}.lora_B.weight`)!;
    const { shape, data } = tensors.get(`${name}.weight`)!;
    const [out, input] = shape as [number, number];
    const expected = base.get(`${name}.weight`)!.map((value, index) => {
      const row = Math.floor(index / input);
      let sum = 0;
      for (let low = 0; low < 3; low++) sum += b[row * 3 + low]! * a[low * input + (index % input)]!;
      return value + (7 / 3) * sum;
    });
    expect(data.length).toBe(out * input);
    expect(relativeError(data, expected)).toBeLessThan(1e-6);
    const untouched = 'model.layers.0.self_attn.k_proj.weight';
    expect(tensors.get(untouched)!.data).toEqual(base.get(untouched));
  });

  test('of another shape are refused', () => {
    withEngine({ ...options, lora: { ...LORA, rank: 4 } }, (engine) => {
      const load = () => engine.load(join(adapted.directory, 'adapter'));
      expect(load).toThrow(ConfigError);
      expect(load).toThrow(/rank 3, alpha 7.*opened with rank 4/s);
    });
  });

  test('of a kind that is not plain LoRA are refused by field', () => {
    const config = readModelConfig(adapted.directory);
    const json = JSON.parse(readFileSync(join(adapted.directory, 'adapter/adapter_config.json'), 'utf8'));
    const refused: [object, RegExp][] = [
      [{ peft_type: 'IA3' }, /peft_type "IA3"/],
      [{ use_dora: true }, /use_dora true/],
      [{ rank_pattern: { q_proj: 8 } }, /rank_pattern/],
      [{ modules_to_save: ['lm_head'] }, /modules_to_save/],
      [{ target_modules: ['query'] }, /lora target query is unknown/],
      [{ r: 0 }, /lora rank is 0/],
    ];
    for (const [change, message] of refused) {
      writeFileSync(join(directory, 'adapter_config.json'), JSON.stringify({ ...json, ...change }));
      writeFileSync(
        join(directory, 'adapter_model.safetensors'),
        readFileSync(join(adapted.directory, 'adapter/adapter_model.safetensors')),
      );
      expect(() => readAdapter(directory, config)).toThrow(ConfigError);
      expect(() => readAdapter(directory, config)).toThrow(message);
    }
  });
});
