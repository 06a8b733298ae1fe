import type { VisionShape } from 'rollcall/options';
import type { Pace } from '../quickstart/teach.ts';

/** How much of everything, in one setting for all seeds. */
export interface Recipe {
  readonly size: 'tiny' | '1m';
  readonly drills: Lessons;
  readonly demonstrations: Lessons;
  readonly steps: number;
  readonly tasksPerStep: number;
  readonly attemptsPerTask: number;
  readonly learningRate: number;
  readonly looks: { readonly validation: number; readonly test: number; readonly skills: number };
  readonly evaluateEvery: number;
}

/** Courses of so many, at most `most` of them, until a model does this share of every kind rightly that is held out. */
interface Lessons {
  readonly course: number;
  readonly most: number;
  readonly enough: number;
}

export type Variant = 'full' | 'quick' | 'tiny';

const FULL: Recipe = {
  size: '1m',
  drills: { course: 16_000, most: 6, enough: 0.95 },
  demonstrations: { course: 8_000, most: 4, enough: 0.9 },
  steps: 80,
  tasksPerStep: 32,
  attemptsPerTask: 8,
  learningRate: 7e-4,
  looks: { validation: 96, test: 300, skills: 800 },
  evaluateEvery: 20,
};

export const RECIPES: Readonly<Record<Variant, Recipe>> = {
  full: FULL,
  quick: {
    ...FULL,
    steps: 60,
    looks: { validation: 48, test: 150, skills: 800 },
  },
  /** For tests: every part runs, nothing is learned. */
  tiny: {
    ...FULL,
    drills: { course: 16, most: 2, enough: 1 },
    demonstrations: { course: 16, most: 1, enough: 1 },
    steps: 2,
    tasksPerStep: 2,
    attemptsPerTask: 2,
    looks: { validation: 1, test: 2, skills: 16 },
    evaluateEvery: 2,
  },
};

export const PACES = {
  drills: { batch: 16, learningRate: 2e-3, finalShare: 0.05, warmupSteps: 20 },
  demonstrations: { batch: 16, learningRate: 1e-3, finalShare: 0.05, warmupSteps: 20 },
  more: { batch: 16, learningRate: 3e-4, finalShare: 0.15, warmupSteps: 0 },
} as const satisfies Record<string, Pace>;

/** A token is 8 pixels a side: the view of the whole has 9, that of a box 16. */
export const VISION: VisionShape = {
  hidden: 64,
  layers: 2,
  heads: 4,
  intermediate: 128,
  patch: 4,
  merge: 2,
  frames: 1,
  window: 16,
  fullLayers: [1],
  /** Rows and columns get three pairs of a head's eight each, and `ropeBase` is low: at the usual one they would hardly turn over a few tokens. */
  sections: [2, 3, 3],
  minPixels: 64,
  maxPixels: 4096,
};

/** The decoder: small enough for two cores. */
export const DECODER = {
  hidden: 96,
  layers: 3,
  heads: 6,
  kvHeads: 3,
  headSize: 16,
  intermediate: 256,
  contextTokens: 256,
  ropeBase: 30,
} as const;
