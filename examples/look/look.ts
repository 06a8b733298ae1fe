import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  arrayDataset,
  createModel,
  embedded,
  evaluate,
  loadChatFormat,
  type Scored,
  type TrainOptions,
} from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { loadModelFiles } from 'rollcall/chat';
import { memoryImages, readImageProcessor } from 'rollcall/services';
import { teach } from '../quickstart/teach.ts';
import type { Demonstration } from '../quickstart/teacher.ts';
import { createDemonstration, createDrill, createLooks } from './demonstrations.ts';
import { correct, createLooker, LIMITS, type Look, type LookerOptions } from './looker.ts';
import { DECODER, PACES, type Recipe, VISION } from './recipe.ts';
import { writeTokenizer } from './tokenizer.ts';

export interface LookSetup {
  readonly seed: number;
  readonly recipe: Recipe;
  /** Everything is written below it. */
  readonly directory: string;
  readonly kernels?: 'native' | 'wasm' | undefined;
  /** Default: as many as the machine has cores. */
  readonly threads?: number | undefined;
  say(line: string): void;
}

const engineOf = ({ kernels, threads, say }: LookSetup) =>
  embedded({
    ...(kernels === undefined ? {} : { kernels }),
    ...(threads === undefined ? {} : { threads }),
    log: say,
  });

/** A model that sees, with random weights; its folder. */
export async function createLookModel({ seed, recipe, directory }: LookSetup): Promise<string> {
  const fresh = join(directory, 'fresh-model');
  await rm(fresh, { recursive: true, force: true });
  await writeTokenizer(join(fresh, 'tokenizer'));
  createModel({
    directory: fresh,
    size: recipe.size,
    family: 'qwen2_5_vl',
    tokenizer: join(fresh, 'tokenizer'),
    seed,
    overrides: DECODER,
    vision: VISION,
  });
  await rm(join(fresh, 'tokenizer'), { recursive: true });
  return fresh;
}

/** A fresh model, taught to read and to find by drills and to look by clumsy demonstrations; its folder. */
export async function warmStart(setup: LookSetup): Promise<string> {
  const { recipe, directory } = setup;
  const warm = join(directory, 'warm-start');
  const fresh = await createLookModel(setup);
  await learn(setup, fresh, warm, [
    {
      kind: 'drills',
      first: 0,
      count: recipe.drills.most,
      enough: recipe.drills.enough,
      pace: PACES.drills,
      create: createDrill,
    },
    {
      kind: 'last drills',
      first: recipe.drills.most,
      count: recipe.drills.last,
      pace: PACES.lastDrills,
      create: createDrill,
    },
    {
      kind: 'demonstrations',
      first: 0,
      count: recipe.demonstrations,
      pace: PACES.demonstrations,
      create: createDemonstration,
    },
  ]);
  return warm;
}

interface Course {
  readonly kind: string;
  readonly first: number;
  readonly count: number;
  readonly pace: (typeof PACES)[keyof typeof PACES];
  readonly until?: () => boolean;
  /** Ends when the loss is below it. */
  readonly enough?: number;
  create(seed: number, index: number): Demonstration<Look>;
}

/** Supervised training from one model folder to another. */
export async function learn(
  setup: LookSetup,
  from: string,
  to: string,
  courses: readonly Course[],
): Promise<void> {
  const { seed, say } = setup;
  const images = memoryImages({ processor: readImageProcessor(from) });
  const trainer = await engineOf(setup).trainer.open('policy', from, { readImage: images.read });
  try {
    const { tokenizer } = await loadModelFiles(from);
    const format = await loadChatFormat(from);
    for (const { kind, create, enough = 0, until, ...lesson } of courses) {
      const began = performance.now();
      let loss = Number.NaN;
      let done = 0;
      let shown = 0;
      await teach(
        {
          ...lesson,
          create: (index) => create(seed, index),
          until: () => loss < enough || until?.() === true,
        },
        {
          trainer,
          agent: createLooker(),
          limits: LIMITS,
          tokenizer,
          format,
          images,
          onProgress: (progress) => {
            loss = Number.isNaN(loss) ? progress.loss : 0.98 * loss + 0.02 * progress.loss;
            done = progress.done;
            if (done - shown < 2000) return;
            shown = done;
            say(`  ${done} ${kind}: loss ${loss.toFixed(3)}`);
          },
        },
      );
      const seconds = (performance.now() - began) / 1000;
      say(`  ${done} ${kind}: loss ${loss.toFixed(3)}, ${seconds.toFixed(0)} s`);
    }
    await trainer.save(to);
  } finally {
    await trainer.close();
  }
}

/** The GRPO run, as any user would write it. */
export function trainOptions(
  setup: LookSetup,
  model: string,
  runDir: string,
  looker: LookerOptions = {},
): TrainOptions<Look> {
  const { seed, recipe } = setup;
  return {
    model,
    runDir,
    seed,
    tasks: arrayDataset(createLooks('train', seed, recipe.steps * recipe.tasksPerStep), 'looks'),
    order: { kind: 'sequential' },
    validation: arrayDataset(createLooks('validation', seed, recipe.looks.validation), 'validation'),
    agent: createLooker(looker),
    rewards: [correct],
    algorithm: grpo({ clip: [0.2, 0.28], old: 'behaviour' }),
    ...engineOf(setup),
    steps: recipe.steps,
    tasksPerStep: recipe.tasksPerStep,
    attemptsPerTask: recipe.attemptsPerTask,
    limits: LIMITS,
    optimizer: {
      learningRate: recipe.learningRate,
      schedule: 'linear',
      finalShare: 0.3,
      beta2: 0.95,
      weightDecay: 0,
      miniBatches: 2,
    },
    evaluation: { every: recipe.evaluateEvery, limit: recipe.looks.validation },
    checkpoints: { every: recipe.steps, keep: 1 },
  };
}

interface AnswerOptions extends LookerOptions {
  /** 0: greedily. */
  readonly temperature?: number;
}

/** Share of test questions that a model answers rightly. */
export async function measure(setup: LookSetup, model: string, options: AnswerOptions = {}): Promise<number> {
  const attempts = await answer(setup, model, options);
  return attempts.filter(({ reward }) => reward === 1).length / attempts.length;
}

/** A model's attempts at the test questions, in order. */
export async function answer(
  setup: LookSetup,
  model: string,
  { temperature = 0, ...looker }: AnswerOptions = {},
): Promise<Scored<Look>[]> {
  const { seed, recipe } = setup;
  const images = memoryImages({ processor: readImageProcessor(model) });
  const [server] = await engineOf(setup).servers.open(model, { readImage: images.read });
  try {
    const { groups } = await evaluate<Look>({
      name: 'test',
      tasks: arrayDataset(createLooks('test', seed, recipe.looks.test), 'test'),
      server: server!,
      format: await loadChatFormat(model),
      agent: createLooker(looker),
      rewards: [correct],
      limits: LIMITS,
      images,
      sampling: { temperature },
      step: 0,
      seed,
    });
    return groups.flatMap((group) => group.attempts);
  } finally {
    await server!.close();
  }
}
