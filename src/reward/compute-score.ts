/**
 * verl's `compute_score(data_source, solution_str, ground_truth, extra_info, **kwargs)` from a module of the user's,
 * in worker threads: one that hangs, even in a loop that never yields, is ended at its time limit.
 */
import type { TaskRow } from '../dataset/task-row.ts';
import { ConfigError } from '../errors.ts';
import { loadModule } from '../lib/load-export.ts';
import { numberOfTurns } from '../lib/trajectory-lengths.ts';
import { startWorker } from '../lib/worker.ts';
import { workerPool } from '../lib/worker-pool.ts';
import type { Trajectory } from '../types.ts';
import { stepScores } from './ready-rewards.ts';
import type { RewardContext, RewardValue } from './reward.ts';

export interface ComputeScoreOptions {
  readonly path: string;
  /** Export of the module. */
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  /** Folder that a relative path starts from. */
  readonly directory: string;
  /** Threads; started when they are needed. */
  readonly workers: number;
}

export interface ComputeScore {
  score(context: RewardContext<TaskRow>): Promise<RewardValue>;
  close(): Promise<void>;
}

export async function openComputeScore(options: ComputeScoreOptions): Promise<ComputeScore> {
  const module = await openModule(options, 'score');
  return {
    score: ({ task, trajectory, solution, signal }) => {
      const { dataSource, groundTruth } = task;
      const given = [dataSource, solution, groundTruth, extraInfo(task, trajectory), options.config];
      return module.ask<RewardValue>(given, { signal });
    },
    close: module.close,
  };
}

/** What a function of the user's gives: a score (a number, or a mapping with one), or a list of numbers. */
export type Gives = 'score' | 'numbers';

/** Loads the module here once, so that a bad one is an error before the start. */
export async function openModule(options: ComputeScoreOptions, gives: Gives) {
  const { path, name, directory, workers } = options;
  const where = `rewards.module (${path})`;
  const exports = await loadModule(path, directory, where);
  if (typeof exports[name] !== 'function') {
    const names = Object.keys(exports).join(', ') || 'nothing';
    const isBatch = typeof exports['compute_reward'] === 'function';
    const over = isBatch
      ? '. For compute_reward(data) give rewards.name=compute_reward rewards.over=batch (verl: custom_reward_function.name=compute_reward)'
      : '';
    throw new ConfigError(`${where}: does not export a function ${name}; it exports ${names}${over}`);
  }
  const workerData = { path, name, directory, gives };
  const pool = workerPool(
    () => startWorker('./compute-score-worker', import.meta.url, { workerData, loadsUserModules: true }),
    workers,
  );
  return {
    ask: <R>(given: readonly unknown[], { signal }: { readonly signal: AbortSignal }) =>
      pool.ask<R>(given.map(cloneable), { signal }),
    close: () => pool.close(),
  };
}

/** What verl's reward managers add to a row's `extra_info`. */
export function extraInfo(
  { extraInfo: own }: TaskRow,
  trajectory: Trajectory<unknown>,
): Record<string, unknown> {
  const { turns, tools } = stepScores(trajectory);
  const toolScores = (trajectory.extra.toolScores ?? {}) as Record<string, unknown>;
  return {
    ...own,
    ...trajectory.extra,
    num_turns: numberOfTurns(trajectory),
    turn_scores: turns,
    tool_rewards: tools,
    rollout_reward_scores: { ...toolScores, user_turn_rewards: turns },
  };
}

/** Without what cannot be sent to a thread, such as a function that an agent left in `extra`. */
function cloneable(value: unknown): unknown {
  try {
    return structuredClone(value);
  } catch {
    if (typeof value !== 'object' || value === null) return undefined;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, cloneable(inner)]));
  }
}
