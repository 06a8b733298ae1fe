/**
 * The embedded engine agrees with torch and transformers in float64 on random small models of every family. Compares
 * outputs, every gradient and one AdamW step. `--runs 12 --seed 1 --python PATH`: a Python with torch, transformers, peft
 * and safetensors.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openKernels } from '../src/engine/kernels/open.ts';
import { readModelConfig } from '../src/engine/model/files.ts';
import { readAdapter } from '../src/engine/training/lora.ts';
import { TrainingEngine } from '../src/engine/training/training-engine.ts';
import { type EngineGolden, readEngineGolden, relativeError } from '../test/golden/engine/golden.ts';
import { readFlags } from './flags.ts';
import { atMost, conclude } from './verdict.ts';

const values = readFlags({ runs: '12', seed: '1', python: process.env.PYTHON ?? 'python3' }, { runs: '4' });

const TOLERANCE = 1e-4;
const FAMILIES = ['llama', 'qwen2', 'qwen3'];

const probe = spawnSync(values.python, ['-c', 'import torch, transformers, safetensors, peft'], {
  encoding: 'utf8',
});
if (probe.status !== 0) {
  const missing = probe.stderr?.trim().split('\n').at(-1) ?? probe.error?.message;
  throw new Error(
    `${values.python} lacks torch, transformers, safetensors or peft (${missing}); install them and name that Python with --python`,
  );
}

const kernels = await openKernels();
console.log(kernels.description);
const folder = mkdtempSync(join(tmpdir(), 'rollcall-parity-'));
let worst = 0;
try {
  for (let run = 0; run < Number(values.runs); run++) {
    const seed = Number(values.seed) * 1000 + run;
    const family = FAMILIES[run % 3]!;
    const lora = run % 4 === 3;
    const error = compare(makeGolden(seed, family, lora), lora);
    worst = Math.max(worst, error);
    console.log(
      `${family}${lora ? ' with LoRA' : ''}, seed ${seed}: worst relative error ${error.toExponential(1)}`,
    );
  }
} finally {
  rmSync(folder, { recursive: true });
  await kernels.close();
}
conclude([atMost('worst relative error', worst, TOLERANCE)], { runs: Number(values.runs) });

function makeGolden(seed: number, family: string, lora: boolean): EngineGolden {
  const out = join(folder, String(seed));
  const flags = [
    lora ? '--lora' : '--value-head',
    ...(seed % 2 ? ['--shards', '--precision', 'bfloat16'] : []),
  ];
  const made = spawnSync(
    values.python,
    [
      '-W',
      'ignore',
      'test/golden/engine/make.py',
      out,
      '--family',
      family,
      '--seed',
      String(seed),
      '--random-shape',
      ...flags,
    ],
    { encoding: 'utf8', timeout: 300_000 },
  );
  if (made.status !== 0) throw new Error(`make.py failed for seed ${seed}:\n${made.stderr}`);
  return readEngineGolden(out);
}

/** The worst relative error over outputs, gradients, gradient norm and parameters after one step. */
function compare(golden: EngineGolden, withLora: boolean): number {
  const { directory } = golden;
  const adapter = join(directory, 'adapter');
  const engine = new TrainingEngine(kernels, {
    model: directory,
    valueHead: golden.names.includes('value'),
    ...(withLora ? { lora: readAdapter(adapter, readModelConfig(directory)).options } : {}),
  });
  try {
    if (withLora) engine.load(adapter);
    const { pass, outputs } = engine.forward(golden.rows, {
      temperature: golden.temperature,
      outputs: golden.names,
    });
    const errors = golden.names.flatMap((name) =>
      golden.outputs[name]!.map((expected, row) => relativeError(outputs[name]![row]!, expected)),
    );
    engine.backward(pass, golden.gradientsByOutput);
    for (const [name, expected] of golden.gradient)
      errors.push(relativeError(engine.gradient(name), expected));
    const { gradNorm } = engine.optimStep(golden.adam);
    errors.push(Math.abs(gradNorm / golden.gradNorm - 1));
    for (const [name, expected] of golden.after) errors.push(relativeError(engine.value(name), expected));
    return Math.max(...errors);
  } finally {
    engine.close();
  }
}
