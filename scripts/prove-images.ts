/**
 * Proves that a model that sees is a Qwen2.5-VL to others, and that others can train and serve it. Stages:
 *
 *   readers  what the embedded engine trained and saved, `transformers` and the PyTorch trainer score as it does
 *   served   a real vLLM on dialogues with images against both trainers; images are sent once
 *   trained  a run on a real vLLM by the PyTorch trainer, with tools that show images
 *   learned  GRPO by the PyTorch trainer on examples/look beside the embedded one (not with --quick: it makes a warm start)
 *
 *   npm run prove images [-- --stages readers,served] [--look DIR] [--quick]
 *
 * Needs `rollcall torch install`, and installs vLLM for the CPU. --look is a warm start of examples/look, seed 1, as
 * `npm run prove look` leaves it.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { lookRows } from '../bench/engine/images.ts';
import { createLookModel, type LookSetup } from '../examples/look/look.ts';
import { RECIPES } from '../examples/look/recipe.ts';
import { warmStart } from '../examples/look/warm-start.ts';
import { openTrainer } from '../src/engine/training/trainer.ts';
import { ConfigError } from '../src/errors.ts';
import { defaultPython } from '../src/torch/environment.ts';
import { readFlags } from './flags.ts';
import { proveLearned } from './images/learned.ts';
import { brieflyTaught, randomModel } from './images/models.ts';
import { proveReaders } from './images/readers.ts';
import { proveServed } from './images/served.ts';
import { proveTrained } from './images/trained.ts';
import { writeWideHeads } from './images/wide-heads.ts';
import { install, REAL_SERVERS } from './servers/real-server.ts';
import { startReal } from './servers/start.ts';
import { type Aim, atMost, conclude } from './verdict.ts';

const STAGES = ['readers', 'served', 'trained', 'learned'] as const;

const flags = readFlags(
  { stages: STAGES.join(','), look: '', python: defaultPython(), rows: '32', steps: '3', grpoSteps: '12' },
  { stages: 'readers,served,trained', rows: '8', steps: '2' },
);
const stages = flags.stages.split(',');
const unknown = stages.find((stage) => !STAGES.some((one) => one === stage));
if (unknown !== undefined)
  throw new ConfigError(`--stages has ${JSON.stringify(unknown)}; known are ${STAGES.join(', ')}`);

const say = (line: string) => console.error(`${new Date().toISOString().slice(11, 19)}  ${line}`);
const vllm = REAL_SERVERS.vllm;
/** It has Pillow and `transformers`. */
const vllmPython = join(dirname(vllm.program), 'python');
const { python } = flags;
const rows = Number(flags.rows);
const directory = await mkdtemp(join(tmpdir(), 'rollcall-images-'));
const setup: LookSetup = { seed: 1, recipe: RECIPES.full, directory, say };
const aims: Aim[] = [];
const figures: Record<string, unknown> = {};

async function withServer(model: string, work: (url: string) => Promise<Aim[]>): Promise<void> {
  const server = await startReal(vllm, model, { directory, say });
  try {
    aims.push(...(await work(server.url)));
  } finally {
    await server.stop();
  }
}

/** The same model for a vLLM on a CPU, and how far its log-probs are from the model's own. */
async function widened(model: string): Promise<string> {
  const wide = join(directory, 'wide');
  writeWideHeads(model, wide);
  const look = await lookRows(model);
  const dialogues = await look.rows(0, rows);
  const scored = [];
  for (const folder of [model, wide]) {
    const trainer = await openTrainer({ model: folder, threads: 2, readImage: look.images.read });
    scored.push((await trainer.score(dialogues, { temperature: 1, outputs: ['logprob'] })).logprob!);
    await trainer.close();
  }
  const [narrow, same] = scored.map((all) => all.flatMap((row) => [...row]));
  const apart = Math.max(...narrow!.map((value, at) => Math.abs(value - same![at]!)));
  aims.push(atMost('the model with wide heads against itself, largest difference', apart, 1e-4));
  return wide;
}

try {
  await install(vllm, say);
  if (stages.includes('readers')) {
    const steps = flags.look === '';
    const from = steps ? await createLookModel(setup) : flags.look;
    const found = await proveReaders({ from, python, peerPython: vllmPython, rows, steps, directory });
    aims.push(...found.aims);
    figures['readers'] = found.figures;
  }
  if (stages.includes('served')) {
    const model = await randomModel(vllmPython, directory);
    await withServer(model, (url) => proveServed({ model, url, python, rows, directory }));
  }
  const needsWarm = stages.includes('learned') && flags.look === '';
  const warm = needsWarm ? await warmStart(setup) : flags.look;
  if (stages.includes('trained')) {
    const model = await widened(warm || (await brieflyTaught(setup, 1600)));
    await withServer(model, async (url) => {
      const scored = await proveServed({ model, url, python, rows, directory });
      return [...scored, ...(await proveTrained({ setup, model, url, python, steps: Number(flags.steps) }))];
    });
  }
  if (stages.includes('learned')) {
    await mkdir(directory, { recursive: true });
    const found = await proveLearned({ setup, model: warm, python, steps: Number(flags.grpoSteps) });
    aims.push(...found.aims);
    figures['learned'] = found.figures;
  }
  conclude(aims, figures);
} finally {
  await rm(directory, { recursive: true, force: true });
}
