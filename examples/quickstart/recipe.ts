import type { Pace } from './teach.ts';

/**
 * How much of everything, in one fixed setting for all seeds. docs/quickstart.md has the curves, and what was
 * tried and did not work.
 */
export interface Recipe {
  readonly model: { readonly size: '1m' | 'tiny' };
  readonly drills: number;
  /** Every fourth of them is a hard drill. */
  readonly demonstrations: number;
  /** Added when a model is not ready for GRPO after its warm start, at most this many times. */
  readonly moreDemonstrations: { readonly count: number; readonly times: number };
  readonly steps: number;
  readonly tasksPerStep: number;
  readonly attemptsPerTask: number;
  /** Of GRPO, at its first step. */
  readonly learningRate: number;
  /** Problems of each held-out set. */
  readonly problems: { readonly validation: number; readonly test: number; readonly unseen: number };
  /** Steps between looks at the validation problems. */
  readonly evaluateEvery: number;
  readonly checkpointEvery: number;
}

export type Variant = 'full' | 'short' | 'tiny';

const FULL: Recipe = {
  model: { size: '1m' },
  drills: 3072, // without drills the digits of the first call are copied wrong and GRPO starts from no success
  demonstrations: 12_480,
  moreDemonstrations: { count: 2_000, times: 3 },
  steps: 24,
  tasksPerStep: 32,
  attemptsPerTask: 8,
  learningRate: 6e-5,
  problems: { validation: 108, test: 450, unseen: 216 },
  evaluateEvery: 2,
  checkpointEvery: 10,
};

export const RECIPES: Readonly<Record<Variant, Recipe>> = {
  full: FULL,
  /** For other proofs: learns visibly, not well. */
  short: {
    ...FULL,
    drills: 2048,
    demonstrations: 6_672,
    moreDemonstrations: { count: 0, times: 0 },
    steps: 8,
    learningRate: 3e-4,
    problems: { validation: 108, test: 180, unseen: 108 },
  },
  /** For tests: every part runs, nothing is learned. */
  tiny: {
    ...FULL,
    model: { size: 'tiny' },
    drills: 64,
    demonstrations: 64,
    moreDemonstrations: { count: 16, times: 1 },
    steps: 3,
    tasksPerStep: 4,
    attemptsPerTask: 2,
    problems: { validation: 9, test: 18, unseen: 9 },
    evaluateEvery: 2,
    checkpointEvery: 2,
  },
};

/** Learning rates and batch sizes of the warm start. */
export const PACES = {
  drills: { batch: 32, learningRate: 4e-3, finalShare: 1, warmupSteps: 50 },
  demonstrations: { batch: 16, learningRate: 3e-3, finalShare: 0.05, warmupSteps: 50 },
  /** Small steps at the end: the habits stay, the copying of numbers gets safer. */
  more: { batch: 16, learningRate: 1e-3, finalShare: 0.15, warmupSteps: 0 },
} as const satisfies Record<string, Pace>;

/**
 * When a model is ready for GRPO. A family that is never solved in a group has no spread and no gradient, so every
 * family needs some sampled success; and where nothing bad was taught, greedy decoding should mostly succeed.
 */
export const READY = { greedyWithoutHabit: 0.7, sampled: 0.02 } as const;
