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
import { memoryImages, readImageProcessor } from 'rollcall/services';
import { createLooks } from './demonstrations.ts';
import { correct, createLooker, LIMITS, type Look, type LookerOptions } from './looker.ts';
import { DECODER, type Recipe, VISION } from './recipe.ts';
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

export const engineOf = ({ kernels, threads, say }: LookSetup) =>
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
export const answer = (
  setup: LookSetup,
  model: string,
  options: AnswerOptions = {},
): Promise<Scored<Look>[]> =>
  play(setup, model, createLooks('test', setup.seed, setup.recipe.looks.test), options);

/** A model's attempts, one a look, in order. */
export async function play(
  setup: LookSetup,
  model: string,
  looks: readonly Look[],
  { temperature = 0, ...looker }: AnswerOptions = {},
): Promise<Scored<Look>[]> {
  const images = memoryImages({ processor: readImageProcessor(model) });
  const [server] = await engineOf(setup).servers.open(model, { readImage: images.read });
  try {
    const { groups } = await evaluate<Look>({
      name: 'test',
      tasks: arrayDataset(looks, 'test'),
      server: server!,
      format: await loadChatFormat(model),
      agent: createLooker(looker),
      rewards: [correct],
      limits: LIMITS,
      images,
      sampling: { temperature },
      step: 0,
      seed: setup.seed,
    });
    return groups.flatMap((group) => group.attempts);
  } finally {
    await server!.close();
  }
}
