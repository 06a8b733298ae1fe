import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { float64Loss } from '../../../test/golden/engine/float64-decoder.ts';
import { type EngineGolden, readEngineGolden, relativeError } from '../../../test/golden/engine/golden.ts';
import { ConfigError, TrainerError } from '../../errors.ts';
import { createRandom } from '../../lib/random.ts';
import type { Row } from '../../training/trainer.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { openKernels } from '../kernels/open.ts';
import { weightSpecs } from '../model/weights.ts';
import { TrainingEngine } from './training-engine.ts';
import type { TrainingOptions } from './training-options.ts';

const GOLDEN = 'test/golden/engine';
const SHARED = '../shared';
const LORA = { rank: 3, alpha: 7, targets: ['q_proj', 'v_proj', 'o_proj', 'up_proj', 'down_proj'] };

const LORAS: Readonly<Record<string, TrainingOptions['lora']>> = {
  'llama-lora': LORA,
  'phi3-lora': { ...LORA, targets: ['qkv_proj', 'gate_up_proj', 'down_proj'] },
};
const FAMILIES = ['llama', 'qwen2', 'qwen3', 'mistral', 'gemma2', 'gemma3_text', 'phi3'];

const kernels = new Map<string, Kernels>();
let directory: string;
beforeAll(async () => {
  for (const kind of ['native', 'wasm'] as const) {
    try {
      kernels.set(kind, await openKernels({ kind, threads: 2, log: () => {} }));
    } catch (error) {
      if (kind === 'wasm') throw error;
      console.warn(`native kernels are not tested here: ${(error as Error).message}`);
    }
  }
  directory = mkdtempSync(join(tmpdir(), 'rollcall-training-'));
});
afterAll(async () => {
  for (const instance of kernels.values()) await instance.close();
  rmSync(directory, { recursive: true });
});

const anyKernels = () => kernels.get('native') ?? kernels.get('wasm')!;

function withEngine<T>(options: TrainingOptions, use: (engine: TrainingEngine) => T, on = anyKernels()): T {
  const engine = new TrainingEngine(on, options);
  try {
    return use(engine);
  } finally {
    engine.close();
  }
}

function openGolden(golden: EngineGolden, name: string, on: Kernels, more: Partial<TrainingOptions> = {}) {
  const options = { model: golden.directory, valueHead: golden.names.includes('value'), ...more };
  const lora = LORAS[name];
  const engine = new TrainingEngine(on, lora ? { ...options, lora } : options);
  if (lora) engine.load(join(golden.directory, 'adapter'));
  return engine;
}

describe.each([...FAMILIES, ...Object.keys(LORAS), 'llama-yarn'])(
  '%s agrees with torch in float64',
  (name) => {
    const golden = readEngineGolden(join(GOLDEN, name));
    test.for(['native', 'wasm'])(
      'on %s kernels: outputs, every gradient, a clipped AdamW step',
      (kind, { skip }) => {
        const on = kernels.get(kind);
        if (!on) return skip('no native kernels on this machine');
        for (const recompute of [false, true]) {
          const engine = openGolden(golden, name, on, { recompute });
          const { pass, outputs } = engine.forward(golden.rows, {
            temperature: golden.temperature,
            outputs: golden.names,
          });
          for (const output of golden.names) {
            for (const [row, expected] of golden.outputs[output]!.entries()) {
              expect(relativeError(outputs[output]![row]!, expected)).toBeLessThan(1e-5);
            }
          }
          engine.backward(pass, golden.gradientsByOutput);
          for (const [parameter, expected] of golden.gradient) {
            expect(relativeError(engine.gradient(parameter), expected), parameter).toBeLessThan(1e-4);
          }
          const { gradNorm, skipped } = engine.optimStep(golden.adam);
          expect(Math.abs(gradNorm / golden.gradNorm - 1)).toBeLessThan(1e-5);
          expect(skipped).toBe(false);
          for (const [parameter, expected] of golden.after) {
            expect(relativeError(engine.value(parameter), expected), parameter).toBeLessThan(1e-4);
          }
          engine.close();
        }
      },
    );
  },
);

test.skipIf(!existsSync(join(SHARED, 'models/minimind2-small')))(
  'MiniMind2-Small gives the log-probs that numpy computes in float64 (../shared/models)',
  () => {
    const golden = JSON.parse(
      readFileSync(join(SHARED, 'data/weights-golden/minimind2-small.json'), 'utf8'),
    ) as { prompt_ids: number[]; prompt_token_logprobs: number[] };
    withEngine({ model: join(SHARED, 'models/minimind2-small'), trainable: false }, (engine) => {
      const { logprob } = engine.score([allTargets(golden.prompt_ids)], {
        temperature: 1,
        outputs: ['logprob'],
      });
      for (const [index, expected] of golden.prompt_token_logprobs.entries()) {
        expect(Math.abs(logprob![0]![index + 1]! - expected)).toBeLessThan(1e-3);
      }
    });
  },
);

test.each(['llama', 'qwen2', 'qwen3'])(
  'the gradient of a whole %s is that of finite differences in float64',
  (name) => {
    const ids = [3, 14, 15, 9, 26, 5, 35];
    const random = createRandom(7);
    const weigh = () =>
      Float32Array.from(ids, (_, index) => (index ? Math.fround(2 * random.next() - 1) : 0));
    const by = { logprob: weigh(), entropy: weigh(), sumSquares: weigh() };
    withEngine({ model: join(GOLDEN, name) }, (engine) => {
      const { config } = engine;
      const outputs = ['logprob', 'entropy', 'sumSquares'] as const;
      const { pass } = engine.forward([allTargets(ids)], { temperature: 0.8, outputs });
      engine.backward(pass, { logprob: [by.logprob], entropy: [by.entropy], sumSquares: [by.sumSquares] });
      const weights = new Map(
        weightSpecs(config).map((spec) => [spec.name, Float64Array.from(engine.value(spec.name))]),
      );
      for (const [parameter, values] of weights) {
        const gradient = engine.gradient(parameter);
        const scale = Math.max(...gradient.map(Math.abs));
        for (let sample = 0; sample < 3; sample++) {
          const index = random.integer(values.length);
          const before = values[index]!;
          const lossAt = (value: number) => {
            values[index] = value;
            return float64Loss(config, weights, ids, 0.8, by);
          };
          const numeric = (lossAt(before + 1e-5) - lossAt(before - 1e-5)) / 2e-5;
          values[index] = before;
          expect(Math.abs(gradient[index]! - numeric), `${parameter}[${index}]`).toBeLessThan(
            1e-4 * scale + 1e-6,
          );
        }
      }
    });
  },
);

describe('rows', () => {
  const model = join(GOLDEN, 'qwen3');
  const outputs = ['logprob', 'entropy'] as const;
  const allGradients = (engine: TrainingEngine) =>
    weightSpecs(engine.config).map(({ name }) => engine.gradient(name));
  const run = (engine: TrainingEngine, rows: readonly Row[]) => {
    const { pass, outputs: given } = engine.forward(rows, { temperature: 1, outputs });
    // A gradient that depends on the tokens alone, so that any order and division sums to the same.
    const by = (factor: number) =>
      rows
        .map(({ ids, targets }) => targets.map((target, at) => target * (1 + ((ids[at]! * 7 + at) % 5))))
        .map((row) => Float32Array.from(row, (value) => value * factor));
    engine.backward(pass, { logprob: by(0.1), entropy: by(-0.03) });
    return given;
  };
  const rowArbitrary = fc
    .array(fc.tuple(fc.nat(36), fc.boolean()), { minLength: 1, maxLength: 30 })
    .map((tokens) => ({
      ids: Int32Array.from(tokens, ([id]) => id),
      targets: Uint8Array.from(tokens, ([, target], index) => (index > 0 && target ? 1 : 0)),
    }));

  test('give the same gradient in any order and divided into any calls', () => {
    withEngine({ model }, (engine) => {
      fc.assert(
        fc.property(
          fc.array(rowArbitrary, { minLength: 1, maxLength: 6 }),
          fc.nat(),
          fc.nat(6),
          (rows, seed, cut) => {
            run(engine, rows);
            const whole = allGradients(engine);
            engine.optimStep(NO_STEP);
            const shuffled = createRandom(seed).shuffle(rows);
            for (const part of [shuffled.slice(0, cut), shuffled.slice(cut)])
              if (part.length) run(engine, part);
            const divided = allGradients(engine);
            engine.optimStep(NO_STEP);
            for (const [index, gradient] of whole.entries()) {
              expect(relativeError(divided[index]!, gradient)).toBeLessThan(1e-5 + 1e-12 / maximum(gradient));
            }
          },
        ),
        { numRuns: 25 },
      );
    });
  });

  test('that share a prefix give what they give apart', () => {
    const family = fc.tuple(
      fc.array(fc.nat(36), { minLength: 1, maxLength: 25 }),
      fc.array(fc.tuple(rowArbitrary, fc.nat(25), fc.nat(3)), { minLength: 1, maxLength: 5 }),
    );
    withEngine({ model }, (engine) => {
      fc.assert(
        fc.property(family, ([prompt, attempts]) => {
          const apart: Row[] = [];
          const shared: Row[] = [];
          for (const [index, [reply, length, from]] of attempts.entries()) {
            const kept = index === 0 ? prompt.length : Math.min(length, prompt.length);
            const row = {
              ids: Int32Array.from([...prompt.slice(0, kept), ...reply.ids]),
              targets: Uint8Array.from([...new Uint8Array(kept), ...reply.targets]),
            };
            if (kept > 1 && reply.targets.length % 2) row.targets[kept - 1] = 1; // a target inside the prefix
            apart.push(row);
            const other = Math.min(from, index - 1);
            const common = index === 0 ? 0 : commonLength(row.ids, apart[other]!.ids);
            shared.push(index === 0 ? row : { ...row, prefix: { row: other, length: common } });
          }
          const outputsApart = run(engine, apart);
          const gradientsApart = allGradients(engine);
          engine.optimStep(NO_STEP);
          const outputsShared = run(engine, shared);
          const gradientsShared = allGradients(engine);
          engine.optimStep(NO_STEP);
          expect(outputsShared).toEqual(outputsApart);
          for (const [index, gradient] of gradientsApart.entries()) {
            expect(relativeError(gradientsShared[index]!, gradient)).toBeLessThan(
              1e-5 + 1e-12 / maximum(gradient),
            );
          }
        }),
        { numRuns: 40 },
      );
    });
  });

  test('score gives what forward gives, however many rows', () => {
    withEngine({ model }, (engine) => {
      const random = createRandom(3);
      const rows = Array.from({ length: 200 }, () =>
        allTargets(Array.from({ length: 2 + random.integer(90) }, () => random.integer(37))),
      );
      const { pass, outputs: kept } = engine.forward(rows, { temperature: 1, outputs });
      engine.discard(pass);
      expect(engine.score(rows, { temperature: 1, outputs })).toEqual(kept);
    });
  });

  test('without targets cost nothing and give zeros', () => {
    withEngine({ model }, (engine) => {
      const row = { ids: Int32Array.of(1, 2, 3), targets: new Uint8Array(3) };
      const { pass, outputs: given } = engine.forward([row], { temperature: 1, outputs: ['logprob'] });
      expect([...given.logprob![0]!]).toEqual([0, 0, 0]);
      engine.backward(pass, { logprob: [new Float32Array(3)] });
      expect(engine.optimStep(NO_STEP).gradNorm).toBe(0);
    });
  });

  test('that are wrong are refused by number and value', () => {
    const row = (ids: number[], more: Partial<Row> = {}): Row => ({ ...allTargets(ids), ...more });
    const wrong: [Row[], RegExp][] = [
      [[row([])], /row 0: it has no ids/],
      [[row([1, 37])], /row 0: ids\[1\] is 37; the vocabulary has 37/],
      [[row([1, -1])], /row 0: ids\[1\] is -1/],
      [[row([1, 2], { targets: Uint8Array.of(1, 1) })], /row 0: position 0 is a target/],
      [[row([1, 2], { targets: Uint8Array.of(0) })], /row 0: 1 targets for 2 ids/],
      [[row([1]), row(Array.from({ length: 97 }, () => 1))], /row 1: 97 tokens are more than .* 96/],
      [[row([1, 2], { prefix: { row: 0, length: 1 } })], /row 0: prefix.row is 0; an earlier row/],
      [
        [row([1, 2]), row([1, 3], { prefix: { row: 0, length: 2 } })],
        /row 1: ids\[1\] is 3, but row 0 has 2/,
      ],
      [[row([1, 2]), row([1, 2, 3], { prefix: { row: 0, length: 3 } })], /row 1: prefix.length is 3/],
    ];
    withEngine({ model }, (engine) => {
      for (const [rows, message] of wrong) {
        const score = () => engine.score(rows, { temperature: 1, outputs: ['logprob'] });
        expect(score).toThrow(TrainerError);
        expect(score).toThrow(message);
      }
    });
  });
});

test('several passes may be open; each ends once', () => {
  const golden = readEngineGolden(join(GOLDEN, 'qwen2'));
  withEngine({ model: golden.directory }, (engine) => {
    const options = { temperature: golden.temperature, outputs: golden.names };
    const passes = golden.rows.map((row) => engine.forward([row], options).pass);
    for (const [row, pass] of [...passes.entries()].reverse()) {
      engine.backward(
        pass,
        Object.fromEntries(golden.names.map((name) => [name, [golden.gradientsByOutput[name]![row]!]])),
      );
    }
    for (const [name, expected] of golden.gradient) {
      expect(relativeError(engine.gradient(name), expected), name).toBeLessThan(1e-4);
    }
    expect(() => engine.backward(passes[0]!, {})).toThrow(/has ended/);
    const open = engine.forward(golden.rows, options).pass;
    engine.discard(open);
    expect(() => engine.discard(open)).toThrow(/has ended/);
  });
});

test('a step after the first takes no more memory', () => {
  const golden = readEngineGolden(join(GOLDEN, 'llama'));
  withEngine({ model: golden.directory }, (engine) => {
    const used: number[] = [];
    for (let step = 0; step < 4; step++) {
      const { pass } = engine.forward(golden.rows, { temperature: 1, outputs: golden.names });
      engine.backward(pass, golden.gradientsByOutput);
      engine.optimStep(golden.adam);
      used.push(engine.kernels.bytesInUse);
    }
    expect(new Set(used.slice(1)).size).toBe(1);
  });
});

test('a gradient that is not finite is cleared, not applied', () => {
  const golden = readEngineGolden(join(GOLDEN, 'llama'));
  withEngine({ model: golden.directory }, (engine) => {
    const before = engine.value('model.norm.weight').slice();
    const { pass } = engine.forward(golden.rows, { temperature: 1, outputs: ['logprob'] });
    engine.backward(pass, {
      logprob: golden.rows.map(({ ids }) => new Float32Array(ids.length).fill(Number.POSITIVE_INFINITY)),
    });
    const step = engine.optimStep(golden.adam);
    expect(step.skipped).toBe(true);
    expect(engine.value('model.norm.weight')).toEqual(before);
    expect(engine.optimStep(golden.adam)).toEqual({ gradNorm: 0, skipped: false });
  });
});

test('decay of matrices leaves norms and biases to the gradient alone', () => {
  const model = join(GOLDEN, 'qwen2');
  const adam = { ...NO_STEP, learningRate: 0.1, weightDecay: 0.5 };
  const shrink = (decay: 'all' | 'matrices', name: string) =>
    withEngine({ model, decay }, (engine) => {
      const before = engine.value(name)[0]!;
      engine.optimStep(adam);
      return engine.value(name)[0]! / before;
    });
  for (const name of ['model.norm.weight', 'model.layers.0.self_attn.q_proj.bias']) {
    expect(shrink('matrices', name)).toBe(1);
    expect(shrink('all', name)).toBeCloseTo(0.95, 6);
  }
  expect(shrink('matrices', 'model.layers.0.mlp.up_proj.weight')).toBeCloseTo(0.95, 6);
});

test('a model that does not fit in the heap is refused with the figure, before its weights are read', () => {
  const config = JSON.parse(readFileSync(join(GOLDEN, 'llama/config.json'), 'utf8'));
  const large = { vocab_size: 150_000, hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 24 };
  writeFileSync(join(directory, 'config.json'), JSON.stringify({ ...config, ...large }));
  const open = (more: Partial<TrainingOptions>) =>
    withEngine({ model: directory, ...more }, () => {}, kernels.get('wasm')!);
  expect(() => open({})).toThrow(ConfigError);
  // 1.87 billion parameters: values, two packed forms, gradient and two moments
  expect(() => open({})).toThrow(/needs about 4\d\.\d GB, and the wasm heap offers \d\.\d GB/);
  expect(() => open({ trainable: false })).toThrow(/needs about 1\d\.\d GB/);
});

const NO_STEP = { learningRate: 0, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, clipNorm: 0 };

function allTargets(ids: readonly number[]): Row {
  return { ids: Int32Array.from(ids), targets: Uint8Array.from(ids, (_, index) => (index > 0 ? 1 : 0)) };
}

const maximum = (values: Float32Array) => Math.max(1e-30, ...values.map(Math.abs));

function commonLength(a: Int32Array, b: Int32Array): number {
  let length = 0;
  while (length < a.length && length < b.length && a[length] === b[length]) length++;
  return length;
}
