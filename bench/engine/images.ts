/** Speed and memory of a model that sees, on dialogues of examples/look; against transformers on the same weights. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadChatFormat } from 'rollcall';
import { loadModelFiles } from 'rollcall/chat';
import { memoryImages, readImageProcessor } from 'rollcall/services';
import { createDemonstration } from '../../examples/look/demonstrations.ts';
import { createLookModel } from '../../examples/look/look.ts';
import { createLooker, LIMITS } from '../../examples/look/looker.ts';
import { RECIPES } from '../../examples/look/recipe.ts';
import { demonstrate } from '../../examples/quickstart/teacher.ts';
import { openServer } from '../../src/engine/server.ts';
import { openTrainer } from '../../src/engine/training/trainer.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import type { Row } from '../../src/training/trainer.ts';
import { median } from './median.ts';
import type { PythonPeer } from './python-peer.ts';

/** Rows of a training step, and requests at once. */
const BATCH = 32;
const REPLY_TOKENS = 32;
const ADAM = {
  learningRate: 1e-4,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0.01,
  clipNorm: 1,
};

type Seen = { readonly ids: Int32Array; readonly images: NonNullable<Row['images']> };
type SeenRow = Row & Seen;

export interface LookRows {
  /** Whole dialogues of equal length, each of two images, no image twice. */
  rows(first: number, count: number): Promise<SeenRow[]>;
  readonly images: ReturnType<typeof memoryImages>;
  /** As a peer reads them. */
  plain(rows: readonly Seen[]): Promise<object[]>;
}

export async function lookRows(model: string): Promise<LookRows> {
  const images = memoryImages({ processor: readImageProcessor(model) });
  const { tokenizer } = await loadModelFiles(model);
  const stage = {
    agent: createLooker(),
    limits: LIMITS,
    tokenizer,
    format: await loadChatFormat(model),
    images,
  };
  return {
    images,
    rows: async (first, count) => {
      const rows: SeenRow[] = [];
      for (let index = first * 8; rows.length < count; index++) {
        const demonstration = createDemonstration(7, index);
        if (demonstration.task.scene.turn !== 0) continue; // a third image, and a longer row
        const { ids, images: shown = [] } = await demonstrate(demonstration, stage);
        const hidden = new Set(shown.map(({ at }) => at));
        rows.push({
          ids: Int32Array.from(ids),
          targets: Uint8Array.from(ids, (_, at) => (at > 0 && !hidden.has(at) ? 1 : 0)),
          images: shown,
        });
      }
      return rows;
    },
    plain: (rows) =>
      Promise.all(
        rows.map(async ({ ids, images: shown }) => ({
          ids: [...ids],
          images: await Promise.all(
            shown.map(async ({ at, image }) => ({
              at,
              png: Buffer.from(await images.read(image)).toString('base64'),
            })),
          ),
        })),
      ),
  };
}

export interface ImagesBench {
  readonly threads: number;
  readonly rounds: number;
  readonly kernels: 'native' | 'wasm' | undefined;
  readonly torch: PythonPeer | undefined;
}

interface Rates {
  readonly perSecond: number;
  /** By the time of all threads, which others on the machine change less. */
  readonly perProcessorSecond: number;
}

interface Answer extends Rates {
  readonly peakMegabytes: number;
}

function startClock(): (count: number) => Rates {
  const [wall, processor] = [performance.now(), process.cpuUsage()];
  return (count) => {
    const { user, system } = process.cpuUsage(processor);
    return {
      perSecond: (1e3 * count) / (performance.now() - wall),
      perProcessorSecond: (1e6 * count) / (user + system),
    };
  };
}

export async function benchImages(options: ImagesBench): Promise<Record<string, number>> {
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-bench-'));
  try {
    const model = await createLookModel({ seed: 1, recipe: RECIPES.full, directory, say: () => {} });
    const look = await lookRows(model);
    const training = await benchTraining(options, model, look);
    const generation = await benchGeneration(options, model, look);
    return { ...training, ...generation };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const engineOptions = ({ threads, kernels }: ImagesBench, model: string, { images }: LookRows) => ({
  model,
  threads,
  ...(kernels ? { kernels } : {}),
  readImage: images.read,
});

/** Dialogues a second: forward, backward through encoder and decoder, AdamW. */
async function benchTraining(options: ImagesBench, model: string, look: LookRows) {
  const { torch, threads, rounds } = options;
  const trainer = await openTrainer(engineOptions(options, model, look));
  const rows = await look.rows(0, BATCH);
  const time = async (steps: number) => {
    const rates = startClock();
    for (let step = 0; step < steps; step++) {
      const pass = await trainer.forward(rows, { temperature: 1, outputs: ['logprob'] });
      await pass.backward({
        logprob: rows.map(({ targets }) => Float32Array.from(targets, (target) => -target)),
      });
      await trainer.optimStep(ADAM);
    }
    return rates(steps * BATCH);
  };
  await time(1);
  const steps = Math.max(2, Math.round((1.5 * (await time(2)).perSecond) / BATCH));
  const ask = { do: 'train', model, threads, rows: torch ? await look.plain(rows) : [] };
  await torch?.ask({ ...ask, steps: 1 });
  const ours: Rates[] = [];
  const theirs: Answer[] = [];
  for (let round = 0; round < rounds; round++) {
    ours.push(await time(steps));
    if (torch) theirs.push(await torch.ask<Answer>({ ...ask, steps }));
  }
  const peak = (await trainer.peakBytes()) / 1e6;
  await trainer.close();
  return figuresOf('trainImages', ours, theirs, peak);
}

/** Tokens a second of replies to prompts with an image each, from the images' files on; no image was seen before. */
async function benchGeneration(options: ImagesBench, model: string, look: LookRows) {
  const { torch, threads, rounds } = options;
  const server = await openServer({ ...engineOptions(options, model, look), cacheMegabytes: 256 });
  const { tokenizer } = await loadModelFiles(model);
  const [start] = tokenizer.encode('<|im_start|>');
  let serial = 0;
  const prompts = async (round: number) => {
    const rows = await look.rows(1000 * (round + 1), BATCH);
    return rows.map(({ ids, images }) => {
      const begins = [...ids.keys()].filter((at) => ids[at] === start); // system, user, assistant
      return { ids: ids.slice(0, begins[2]! + 3), images: images.slice(0, 1) };
    });
  };
  const time = async (rows: readonly Seen[]) => {
    const rates = startClock();
    await Promise.all(
      rows.map(({ ids, images }) => {
        const id = `request-${serial++}-`;
        return server.generate({
          id,
          trajectory: id,
          prompt: ids,
          images: images.map(({ image }) => image),
          imagePlaces: images.map(({ at }) => at),
          sampling: { ...PLAIN_SAMPLING, maxTokens: REPLY_TOKENS, stopIds: [], seed: serial },
        });
      }),
    );
    return rates(BATCH * REPLY_TOKENS);
  };
  await time(await prompts(0));
  const ours: Rates[] = [];
  const theirs: Answer[] = [];
  for (let round = 0; round < rounds; round++) {
    const rows = await prompts(round + 1);
    const ask = { do: 'generate', model, threads, rows: torch ? await look.plain(rows) : [] };
    if (round === 0) await torch?.ask({ ...ask, tokens: 2 });
    ours.push(await time(rows));
    if (torch) theirs.push(await torch.ask<Answer>({ ...ask, tokens: REPLY_TOKENS }));
  }
  const peak = (await server.stats()).peakBytes / 1e6;
  await server.close();
  return figuresOf('generateImages', ours, theirs, peak);
}

function figuresOf(name: string, ours: readonly Rates[], theirs: readonly Answer[], peak: number) {
  const rate = (rates: readonly Rates[]) => median(rates.map(({ perSecond }) => perSecond));
  const figures: Record<string, number> = { [name]: rate(ours), [`${name}PeakMegabytes`]: peak };
  if (theirs.length > 0) {
    const rest = `${name[0]!.toUpperCase()}${name.slice(1)}`;
    const ratio = (key: keyof Rates) => median(ours.map((own, round) => own[key] / theirs[round]![key]));
    figures[`torch${rest}`] = rate(theirs);
    figures[`torch${rest}PeakMegabytes`] = theirs.at(-1)!.peakMegabytes;
    figures[`ratio${rest}`] = ratio('perSecond');
    figures[`ratio${rest}ByProcessorTime`] = ratio('perProcessorSecond');
  }
  for (const [key, value] of Object.entries(figures)) console.log(`${key.padEnd(36)} ${value.toFixed(2)}`);
  return figures;
}
