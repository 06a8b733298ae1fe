/** Rewards that come with Rollcall: for tasks that have the right answer in `groundTruth`. They read the last reply. */
import { choiceEqual, type MathsOptions, mathsEqual } from '../lib/maths/maths-equal.ts';
import type { Sandbox } from '../services/sandbox/sandbox.ts';
import type { Task, Trajectory } from '../types.ts';
import { codeScore, codeTests } from './code.ts';
import { type Gsm8kOptions, gsm8kScore } from './gsm8k.ts';
import { type RewardOptions, reward, type TrajectoryReward } from './reward.ts';
import { exactMatchScore, f1Score, targetOf } from './words.ts';

const truthOf = (task: unknown) => (task as Task)['groundTruth'];

/** verl's GSM8K score: the last `#### number`, or flexibly the last number. */
export function gsm8kReward<T = Task>(options: RewardOptions & Gsm8kOptions = {}): TrajectoryReward<T> {
  return reward<T>(
    'gsm8k',
    ({ task, trajectory }) => gsm8kScore(trajectory.text, String(truthOf(task)), options),
    options,
  );
}

/** 1 if the answer equals the truth as mathematics. */
export function mathsReward<T = Task>(options: RewardOptions & MathsOptions = {}): TrajectoryReward<T> {
  return reward<T>(
    'maths',
    ({ task, trajectory }) => (mathsEqual(trajectory.text, String(truthOf(task)), options) ? 1 : 0),
    options,
  );
}

/** 1 for the letter of the right answer. */
export function multipleChoiceReward<T = Task>(options: RewardOptions = {}): TrajectoryReward<T> {
  return reward<T>(
    'multiple choice',
    ({ task, trajectory }) => (choiceEqual(trajectory.text, String(truthOf(task))) ? 1 : 0),
    options,
  );
}

interface WordOptions extends RewardOptions {
  /** Only what stands between `<answer>` and `</answer>` is the answer. */
  readonly tagged?: boolean;
}

/** 1 for one of the right answers, as SQuAD compares them. */
export function exactMatchReward<T = Task>(options: WordOptions = {}): TrajectoryReward<T> {
  return reward<T>(
    'exact match',
    ({ task, trajectory }) => exactMatchScore(trajectory.text, targetOf(truthOf(task)), options),
    options,
  );
}

/** F1 of the words with the closest right answer. */
export function f1Reward<T = Task>(options: WordOptions = {}): TrajectoryReward<T> {
  return reward<T>(
    'f1',
    ({ task, trajectory }) => f1Score(trajectory.text, targetOf(truthOf(task)), options),
    options,
  );
}

/** The share of a task's tests that the code in the last reply passes in a sandbox. */
export function codeReward<T = Task>(sandbox: Sandbox, options: RewardOptions = {}): TrajectoryReward<T> {
  return reward<T>(
    'code',
    ({ task, trajectory, signal }) => codeScore(trajectory.text, codeTests(truthOf(task)), sandbox, signal),
    { timeoutMs: 120_000, ...options },
  );
}

/** 1 if the last reply matches, such as `/^<think>.*<\/think>\s*<answer>.*<\/answer>$/s`. */
export function formatReward<T = Task>(pattern: RegExp, options: RewardOptions = {}): TrajectoryReward<T> {
  return reward<T>('format', ({ trajectory }) => (trajectory.text.search(pattern) >= 0 ? 1 : 0), options);
}

/** 0 up to `freeTokens` sampled tokens, then falling linearly to −1 at `maxTokens` and beyond. */
export function lengthReward<T = Task>({
  freeTokens,
  maxTokens,
  ...options
}: RewardOptions & { readonly freeTokens: number; readonly maxTokens: number }): TrajectoryReward<T> {
  return reward<T>(
    'length',
    ({ trajectory }) => {
      const over = (sampledTokens(trajectory) - freeTokens) / (maxTokens - freeTokens);
      return -Math.max(0, Math.min(1, over));
    },
    options,
  );
}

const sampledTokens = ({ segments }: Trajectory<unknown>) =>
  segments.reduce((sum, { sampled }) => sum + sampled.reduce((count, one) => count + one, 0), 0);

/** The sum of the step rewards that tools and simulated users gave. */
export function stepsReward<T = Task>(options: RewardOptions = {}): TrajectoryReward<T> {
  return reward<T>(
    'steps',
    ({ trajectory }) => {
      const { turns, tools } = stepScores(trajectory);
      return [...turns, ...tools].reduce((sum, value) => sum + value, 0);
    },
    options,
  );
}

/** Step rewards by where they came from, in order. */
export function stepScores({ turns }: Trajectory<unknown>) {
  return {
    turns: turns.flatMap((turn) => turn.reward ?? []),
    tools: turns.flatMap((turn) => turn.toolRuns.flatMap((run) => run.reward ?? [])),
  };
}
