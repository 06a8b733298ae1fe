/**
 * verl's `compute_score(data_source, solution_str, ground_truth, extra_info, **kwargs)` from a module of the user's,
 * in worker threads: one that hangs, even in a loop that never yields, is ended at its time limit.
 */
import type { Worker } from 'node:worker_threads';
import type { TaskRow } from '../dataset/task-row.ts';
import { ConfigError } from '../errors.ts';
import { loadModule } from '../lib/load-export.ts';
import { semaphore } from '../lib/semaphore.ts';
import { startWorker } from '../lib/worker.ts';
import type { Trajectory } from '../types.ts';
import { stepScores } from './ready-rewards.ts';
import type { RewardContext, RewardValue } from './reward.ts';

export interface ComputeScoreOptions {
  readonly path: string;
  /** Export of the module. */
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  /** Where the path starts. */
  readonly directory: string;
  /** Threads; started when they are needed. */
  readonly workers: number;
}

export interface ComputeScore {
  score(context: RewardContext<TaskRow>): Promise<RewardValue>;
  close(): Promise<void>;
}

/** Loads the module here once, so that a bad one is an error before the start. */
export async function openComputeScore(options: ComputeScoreOptions): Promise<ComputeScore> {
  const { path, name, config, directory, workers } = options;
  const where = `rewards.module (${path})`;
  const exports = await loadModule(path, directory, where);
  if (typeof exports[name] !== 'function') {
    const names = Object.keys(exports).join(', ') || 'nothing';
    throw new ConfigError(`${where}: does not export a function ${name}; it exports ${names}`);
  }
  const slots = semaphore(workers);
  const idle: Worker[] = [];
  const all = new Set<Worker>();
  return {
    score: ({ task, trajectory, solution, signal }) =>
      slots.run(async () => {
        const worker =
          idle.pop() ?? startWorker('./compute-score-worker', import.meta.url, { workerData: options });
        worker.ref();
        all.add(worker);
        const given = [task.dataSource, solution, task.groundTruth, extraInfo(task, trajectory), config];
        try {
          const value = await askWorker(worker, given.map(cloneable), signal);
          worker.unref();
          idle.push(worker);
          return value;
        } catch (error) {
          if (!(error instanceof ThrownInside)) {
            all.delete(worker);
            await worker.terminate();
          } else {
            worker.unref();
            idle.push(worker);
          }
          throw error;
        }
      }),
    close: async () => {
      await Promise.all([...all].map((worker) => worker.terminate()));
    },
  };
}

/** The user's function threw; its worker is sound. */
class ThrownInside extends Error {}

type Answer = { readonly value: RewardValue } | { readonly error: string };

function askWorker(worker: Worker, given: readonly unknown[], signal: AbortSignal): Promise<RewardValue> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      worker.off('message', onMessage).off('error', onError).off('exit', onExit);
      signal.removeEventListener('abort', onAbort);
      act();
    };
    const onAbort = () => settle(() => reject(signal.reason));
    const onMessage = (answer: Answer) =>
      settle(() => ('error' in answer ? reject(new ThrownInside(answer.error)) : resolve(answer.value)));
    const onError = (error: unknown) => settle(() => reject(error));
    const onExit = (code: number) => onError(new Error(`the reward's worker ended with code ${code}`));
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    worker.on('message', onMessage).on('error', onError).on('exit', onExit);
    worker.postMessage(given);
  });
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

/** As verl counts: the prompt, every reply, and everything that answers one. A question and its answer are 2. */
function numberOfTurns({ messages }: Trajectory<unknown>): number {
  let turns = 1;
  let last = 'prompt';
  for (const { role } of messages) {
    if (role === 'assistant') turns++;
    else if (last === 'assistant') turns++;
    last = role === 'assistant' ? 'assistant' : last === 'prompt' ? 'prompt' : 'answer';
  }
  return turns;
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
