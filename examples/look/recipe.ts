import type { VisionShape } from 'rollcall/options';
import type { Pace } from '../quickstart/teach.ts';

/** How much of everything, in one setting for all seeds. */
export interface Recipe {
  readonly size: 'tiny' | '1m';
  /** Reading alone, and then with questions where a card is: mixed from the start, neither is learned. */
  readonly reading: number;
  readonly drills: number;
  readonly demonstrations: number;
  readonly steps: number;
  readonly tasksPerStep: number;
  readonly attemptsPerTask: number;
  readonly learningRate: number;
  readonly looks: { readonly validation: number; readonly test: number };
  readonly evaluateEvery: number;
}

export type Variant = 'full' | 'quick' | 'tiny';

const FULL: Recipe = {
  size: '1m',
  reading: 10_400,
  drills: 20_000,
  demonstrations: 10_000,
  steps: 60,
  tasksPerStep: 16,
  attemptsPerTask: 8,
  learningRate: 2e-4,
  looks: { validation: 96, test: 300 },
  evaluateEvery: 10,
};

export const RECIPES: Readonly<Record<Variant, Recipe>> = {
  full: FULL,
  quick: {
    ...FULL,
    reading: 5_000,
    drills: 8_000,
    demonstrations: 6_000,
    steps: 30,
    looks: { validation: 48, test: 150 },
  },
  /** For tests: every part runs, nothing is learned. */
  tiny: {
    ...FULL,
    reading: 8,
    drills: 8,
    demonstrations: 8,
    steps: 2,
    tasksPerStep: 2,
    attemptsPerTask: 2,
    looks: { validation: 1, test: 2 },
    evaluateEvery: 2,
  },
};

export const PACES = {
  drills: { batch: 8, learningRate: 1e-3, finalShare: 1, warmupSteps: 20 },
  demonstrations: { batch: 8, learningRate: 1e-3, finalShare: 0.05, warmupSteps: 20 },
  more: { batch: 8, learningRate: 3e-4, finalShare: 0.15, warmupSteps: 0 },
} as const satisfies Record<string, Pace>;

/** A view of 32 pixels is 8 × 8 patches and 16 tokens. */
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
  sections: [4, 2, 2],
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
} as const;
