import { type Dataset, isDataset } from './dataset/dataset.ts';
import type { ResolvedOptions } from './options.ts';
import type { RolloutOptions } from './rollout/options.ts';
import { rollout } from './rollout.ts';
import type { Group, Task } from './types.ts';
import { evaluateGroups, type SourceEvaluation } from './watch/evaluation.ts';

/** Everything a rollout needs but the tasks, and how much of the dataset to take. */
export interface EvaluateOptions<T = Task>
  extends Omit<RolloutOptions<T>, 'tasks' | 'attempts' | 'name' | 'evaluation'> {
  readonly tasks: Dataset<T>;
  /** Names the dataset in metrics and in trajectory ids. */
  readonly name: string;
  readonly limit?: number;
  readonly attempts?: number;
}

/** The result of an evaluation: figures by data source, and all trajectories. */
export interface Evaluation<T = Task> {
  readonly name: string;
  /** Results by data source. */
  readonly sources: readonly SourceEvaluation[];
  readonly groups: readonly Group<T>[];
}

/** The same rollout without the update. Attempts that failed for no fault of the model are left out, and counted. */
export async function evaluate<T extends object>(options: EvaluateOptions<T>): Promise<Evaluation<T>> {
  const { tasks: dataset, limit = dataset.length, attempts = 1, name, ...rest } = options;
  const tasks: { index: number; task: T }[] = [];
  for await (const { index, row } of dataset.take(limit).rows()) tasks.push({ index, task: row });
  const groups = await rollout({ ...rest, tasks, attempts, evaluation: name });
  return { name, sources: evaluateGroups(groups as readonly Group[], name), groups };
}

export function validationSets<T>({ validation }: ResolvedOptions<T>): Readonly<Record<string, Dataset<T>>> {
  if (validation === undefined) return {};
  return isDataset<T>(validation) ? { validation } : validation;
}
