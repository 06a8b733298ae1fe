/** The two stages as options: imitation of demonstrations, then GRPO, both of low-rank adapters on a frozen model. */
import { embedded, type TrainOptions } from 'rollcall';
import { grpo, maxRl } from 'rollcall/algorithms';
import type { SftOptions } from 'rollcall/options';
import { type Problem, type Shown, type Split, shownProblems, variedProblems } from './problems.ts';
import { CHAT, caller, correctCall, demonstrations, LIMITS } from './solver.ts';

export const engine = embedded({
  lora: { rank: 16, alpha: 32 },
  weights: 'bfloat16',
  cacheMegabytes: 120,
});

/** What the figures depend on; docs/laptop.md says how it was chosen. */
export const RECIPE = {
  demonstrations: 200,
  /** What they show: the problem's own expression, or one that is drawn, which shows how to call and not what. */
  shown: 'drawn' as Shown,
  /** Each demonstration is imitated so often. */
  times: 1,
  imitationRate: 5e-4,
  /** Of a step of GRPO. */
  tasks: 16,
  attempts: 16,
  temperature: 1,
  rate: 2.5e-4,
  /** What follows from an attempt's reward and its group's: GRPO's advantage, or MaxRL's, for which rare successes count for more. */
  advantage: 'max-rl' as 'grpo' | 'max-rl',
};
export type Recipe = typeof RECIPE;

const PER_STEP = 16;
/** A task with its attempts, whose common beginning is computed once. A token's activations take a megabyte. */
const TOKENS_AT_ONCE = 512;

export async function sftOptions(
  where: Pick<SftOptions, 'model' | 'runDir'>,
  {
    seed = 1,
    split = 'train' as Split,
    demonstrations: count = RECIPE.demonstrations,
    shown = RECIPE.shown,
    times = RECIPE.times,
    imitationRate = RECIPE.imitationRate,
  } = {},
): Promise<SftOptions> {
  return {
    ...where,
    seed,
    demonstrations: await demonstrations(shownProblems(split, shown, seed), count),
    demonstrationsPerStep: PER_STEP,
    steps: Math.round((times * count) / PER_STEP),
    trainer: engine.trainer,
    chat: CHAT,
    optimizer: { learningRate: imitationRate, warmupSteps: 3, tokensPerMicroBatch: TOKENS_AT_ONCE },
    checkpoints: { every: 20 },
  };
}

export function trainOptions(
  where: Pick<TrainOptions<Problem>, 'model' | 'runDir'>,
  {
    seed = 1,
    steps = 40,
    split = 'train' as Split,
    tasks = RECIPE.tasks,
    attempts = RECIPE.attempts,
    temperature = RECIPE.temperature,
    rate = RECIPE.rate,
    advantage = RECIPE.advantage,
  } = {},
): TrainOptions<Problem> {
  return {
    ...where,
    ...engine,
    seed,
    steps,
    tasks: variedProblems({ seed, split }),
    agent: caller(),
    chat: CHAT,
    rewards: [correctCall],
    algorithm: (advantage === 'grpo' ? grpo : maxRl)({
      clip: [0.2, 0.28],
    }),
    tasksPerStep: tasks,
    attemptsPerTask: attempts,
    sampling: { temperature },
    concurrency: 128,
    limits: { ...LIMITS, tokensPerReply: 32 },
    optimizer: { learningRate: rate, weightDecay: 0, tokensPerMicroBatch: TOKENS_AT_ONCE },
    checkpoints: { every: 5, keep: 2 },
  };
}
