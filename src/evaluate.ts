import type { Dataset } from './dataset/dataset.ts';
import { type RolloutOptions, rollout } from './rollout.ts';
import type { Group, Metrics, Task } from './types.ts';
import { rolloutMetrics } from './watch/rollout-metrics.ts';

/** Everything a rollout needs but the tasks, and how much of the dataset to take. */
export interface EvaluateOptions<T = Task> extends Omit<RolloutOptions<T>, 'tasks' | 'attempts' | 'name'> {
  readonly tasks: Dataset<T>;
  /** Names the dataset in metrics and in trajectory ids. */
  readonly name: string;
  readonly limit?: number;
  readonly attempts?: number;
}

export interface Evaluation<T = Task> {
  readonly name: string;
  readonly metrics: Metrics;
  readonly groups: readonly Group<T>[];
}

/** The same rollout without the update. Attempts that failed for no fault of the model are left out, and counted. */
export async function evaluate<T extends Task>(options: EvaluateOptions<T>): Promise<Evaluation<T>> {
  const { tasks: dataset, limit = dataset.length, attempts = 1, name, ...rest } = options;
  const tasks: { index: number; task: T }[] = [];
  for await (const { index, row } of dataset.take(limit).rows()) tasks.push({ index, task: row });
  const groups = await rollout({ ...rest, tasks, attempts, name });
  return { name, metrics: rolloutMetrics(groups), groups };
}

/** The numbers of an evaluation under verl's names for validation. */
export function validationMetrics({ name, metrics, groups }: Evaluation): Metrics {
  const attempts = Math.max(1, ...groups.map((group) => group.attempts.length));
  const core: Metrics = { [`val-core/${name}/reward/mean@${attempts}`]: metrics['reward_mean'] ?? 0 };
  for (const [key, value] of Object.entries(metrics)) {
    if (/^(tools\/valid|num_turns|response_length|tool_call_counts|ends|reward)\b/.test(key)) {
      core[`val-aux/${name}/${key}`] = value;
    }
  }
  return core;
}
