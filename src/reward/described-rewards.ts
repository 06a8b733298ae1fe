import type { TaskRow } from '../dataset/task-row.ts';
import { ConfigError } from '../errors.ts';
import { loadModule } from '../lib/load-export.ts';
import { nearest } from '../lib/nearest.ts';
import { gsm8kReward } from './gsm8k.ts';
import { type Reward, type RewardContext, reward } from './reward.ts';

/** Rewards as data says them: a module of the user's, or the ready one of each row's data source. */
export interface RewardsDescription {
  /** A module with `compute_score(data_source, solution_str, ground_truth, extra_info)`; absent: ready ones. */
  readonly module: string | null;
  /** Export of the module. */
  readonly name: string;
  /** Further arguments of it. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly timeoutSeconds: number;
}

type Score = (context: RewardContext<TaskRow>) => number | Promise<number>;

/** By `data_source`. */
const READY: Readonly<Record<string, Reward<TaskRow>>> = {
  'openai/gsm8k': gsm8kReward<TaskRow>(),
};

export async function openDescribedRewards(
  { module, name, config, timeoutSeconds }: RewardsDescription,
  directory: string,
): Promise<readonly Reward<TaskRow>[]> {
  const score = module === null ? bySource : await computeScore(module, name, config, directory);
  return [reward<TaskRow>('score', score, { timeoutMs: 1000 * timeoutSeconds })];
}

/** Refuses, before anything starts, a data source that nothing can score. */
export function checkDataSources(sources: Iterable<string | undefined>): void {
  for (const source of new Set(sources)) {
    if (source !== undefined && Object.hasOwn(READY, source)) continue;
    const known = Object.keys(READY);
    throw new ConfigError(
      source === undefined
        ? `a row has no data_source, so no ready reward can be chosen; known are ${known.join(', ')}. Give rewards.module otherwise`
        : `nothing scores the data source '${source}'; did you mean ${nearest(source, known)}? Give rewards.module otherwise`,
    );
  }
}

const bySource: Score = (context) => READY[context.task.dataSource ?? '']!.score(context);

async function computeScore(
  path: string,
  name: string,
  config: Readonly<Record<string, unknown>>,
  directory: string,
): Promise<Score> {
  const where = `rewards.module (${path})`;
  const exports = await loadModule(path, directory, where);
  const compute = exports[name];
  if (typeof compute !== 'function') {
    const names = Object.keys(exports).join(', ') || 'nothing';
    throw new ConfigError(`${where}: does not export a function ${name}; it exports ${names}`);
  }
  return async ({ task, trajectory }) => {
    const extraInfo = { ...task.extraInfo, num_turns: trajectory.turns.length, ...trajectory.extra };
    const result: unknown = await compute(
      task.dataSource,
      trajectory.text,
      task.groundTruth,
      extraInfo,
      config,
    );
    return typeof result === 'object' && result !== null
      ? Number((result as { score: unknown }).score)
      : Number(result);
  };
}
