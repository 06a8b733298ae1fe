/** The two stages as options: imitation of demonstrations, then GRPO, both of low-rank adapters on a frozen model. */
import { embedded, type TrainOptions } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import type { SftOptions } from 'rollcall/options';
import { type Problem, problems, variedProblems } from './problems.ts';
import { CHAT, correct, demonstrations, LIMITS, solver } from './solver.ts';

export const engine = embedded({
  lora: { rank: 16, alpha: 32 },
  weights: 'bfloat16',
  cacheMegabytes: 200,
});

const DEMONSTRATIONS = 300;
const PER_STEP = 16;
/** A task with its attempts, whose common beginning is computed once. A token's activations take a megabyte. */
const TOKENS_AT_ONCE = 512;

/** Each demonstration is imitated `times` over. */
export async function sftOptions(
  where: Pick<SftOptions, 'model' | 'runDir'>,
  { seed = 1, times = 2 } = {},
): Promise<SftOptions> {
  return {
    ...where,
    seed,
    demonstrations: await demonstrations(problems('train'), DEMONSTRATIONS),
    demonstrationsPerStep: PER_STEP,
    steps: Math.round((times * DEMONSTRATIONS) / PER_STEP),
    trainer: engine.trainer,
    chat: CHAT,
    optimizer: { learningRate: 5e-4, warmupSteps: 3, tokensPerMicroBatch: TOKENS_AT_ONCE },
    checkpoints: { every: 20 },
  };
}

export function trainOptions(
  where: Pick<TrainOptions<Problem>, 'model' | 'runDir'>,
  { seed = 1, steps = 40 } = {},
): TrainOptions<Problem> {
  return {
    ...where,
    ...engine,
    seed,
    steps,
    tasks: variedProblems({ seed }),
    agent: solver(),
    chat: CHAT,
    rewards: [correct],
    algorithm: grpo({ clip: [0.2, 0.28] }),
    tasksPerStep: 16,
    attemptsPerTask: 8,
    concurrency: 128,
    limits: LIMITS,
    optimizer: { learningRate: 3e-4, weightDecay: 0, tokensPerMicroBatch: TOKENS_AT_ONCE },
    checkpoints: { every: 5, keep: 2 },
  };
}
