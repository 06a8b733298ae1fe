import { arrayDataset, type TrainOptions } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { createProblems, type Problem } from './problems.ts';
import { RECIPES, type Variant } from './recipe.ts';
import { correct, createSolver, LIMITS } from './solver.ts';

export interface QuickstartRun {
  readonly seed: number;
  readonly variant: Variant;
  /** Instead of the variant's own number. */
  readonly steps?: number | undefined;
  /** The warm-started model. */
  readonly model: string;
  readonly runDir: string;
  /** Where tokens come from and what trains. */
  readonly engine?: Pick<TrainOptions, 'servers' | 'trainer'> | undefined;
}

/** The quick start's GRPO run, as any user would write it. */
export function trainOptions({
  seed,
  variant,
  steps,
  model,
  runDir,
  engine,
}: QuickstartRun): TrainOptions<Problem> {
  const recipe = RECIPES[variant];
  const total = steps ?? recipe.steps;
  return {
    model,
    runDir,
    seed,
    tasks: arrayDataset(createProblems('train', seed, Math.max(1, total) * recipe.tasksPerStep), 'problems'),
    order: { kind: 'sequential' }, // all families in every step; no problem comes twice
    validation: arrayDataset(createProblems('validation', seed, recipe.problems.validation), 'validation'),
    agent: createSolver(),
    rewards: [correct],
    algorithm: grpo({ clip: [0.2, 0.28], old: 'behaviour' }),
    ...engine,
    steps: total,
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
    evaluation: { every: recipe.evaluateEvery, limit: recipe.problems.validation },
    checkpoints: { every: recipe.checkpointEvery, keep: 1 },
  };
}
