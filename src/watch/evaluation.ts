import { hashSeed } from '../lib/random.ts';
import type { Group, Metrics, Scored } from '../types.ts';
import {
  bestAt,
  majorityAt,
  meanInterval,
  passAt,
  shareInterval,
  sizesUpTo,
  worstAt,
} from './evaluation-statistics.ts';
import { rolloutMetrics } from './rollout-metrics.ts';

/** What one data source's groups say. Attempts that failed for no fault of the model are left out, and counted. */
export interface SourceEvaluation {
  readonly source: string;
  readonly tasks: number;
  readonly attempts: number;
  readonly leftOut: number;
  /** By reward name, and `reward` for the weighted sum: mean over tasks of the mean over attempts, with 95 %. */
  readonly means: Readonly<
    Record<string, { readonly mean: number; readonly interval: readonly [number, number] }>
  >;
  /** Statistics by reward name: mean@k, std@k, best@k, worst@k, maj@k, pass@k. */
  readonly atK: Readonly<Record<string, Metrics>>;
  /** Turns, lengths, tool validity, ends. */
  readonly rollout: Metrics;
}

/** Groups by the task's `dataSource`, or under `name` where tasks have none. */
export function evaluateGroups(groups: readonly Group[], name: string): SourceEvaluation[] {
  const sources = new Map<string, Group[]>();
  for (const group of groups) {
    const own = group.task['dataSource'];
    const source = typeof own === 'string' ? own : name;
    sources.set(source, [...(sources.get(source) ?? []), group]);
  }
  return [...sources].map(([source, members]) => evaluateSource(source, members));
}

function evaluateSource(source: string, groups: readonly Group[]): SourceEvaluation {
  const scored = groups
    .map((group) => group.attempts.filter((attempt) => attempt.reward !== undefined))
    .filter((attempts) => attempts.length > 0);
  const all = groups.reduce((sum, group) => sum + group.attempts.length, 0);
  const attempts = scored.reduce((sum, list) => sum + list.length, 0);
  const names = ['reward', ...new Set(scored.flat().flatMap((attempt) => Object.keys(attempt.rewards)))];
  return {
    source,
    tasks: scored.length,
    attempts,
    leftOut: all - attempts,
    means: Object.fromEntries(
      names.map((name) => [name, meanOf(scored.map((list) => list.map(scoreOf(name))))]),
    ),
    atK: Object.fromEntries(names.map((name) => [name, atK(scored, name)])),
    rollout: rolloutMetrics(groups),
  };
}

const scoreOf = (name: string) => (attempt: Scored) =>
  name === 'reward' ? attempt.reward! : (attempt.rewards[name] ?? 0);

function meanOf(perTask: readonly (readonly number[])[]) {
  const means = perTask.map(average);
  const isShare = perTask.every((values) => values.length === 1 && (values[0] === 0 || values[0] === 1));
  const interval = isShare ? shareInterval(means.filter(Boolean).length, means.length) : meanInterval(means);
  return { mean: average(means), interval };
}

/** Per task, then averaged over tasks. Every k up to the fewest attempts that a task has. */
function atK(perTask: readonly (readonly Scored[])[], name: string): Metrics {
  const most = Math.min(...perTask.map((list) => list.length));
  const metrics: Metrics = {
    [`mean@${most}`]: average(perTask.map((list) => average(list.map(scoreOf(name))))),
  };
  if (most > 1) {
    metrics[`std@${most}`] = average(perTask.map((list) => spread(list.map(scoreOf(name)))));
  }
  for (const k of sizesUpTo(most)) {
    const over = (of: (list: readonly Scored[], task: number) => number) => average(perTask.map(of));
    const values = (list: readonly Scored[]) => list.map(scoreOf(name));
    metrics[`best@${k}/mean`] = over((list) => bestAt(values(list), k).mean);
    metrics[`best@${k}/std`] = over((list) => bestAt(values(list), k).std);
    metrics[`worst@${k}/mean`] = over((list) => worstAt(values(list), k).mean);
    metrics[`worst@${k}/std`] = over((list) => worstAt(values(list), k).std);
    metrics[`maj@${k}/mean`] = over(
      (list, task) =>
        majorityAt(
          list.map((attempt) => ({ answer: answerOf(attempt), score: scoreOf(name)(attempt) })),
          k,
          hashSeed('majority', task),
        ).mean,
    );
    if (perTask.flat().every((attempt) => [0, 1].includes(scoreOf(name)(attempt)))) {
      metrics[`pass@${k}`] = over((list) => passAt(values(list).filter(Boolean).length, list.length, k));
    }
  }
  return metrics;
}

/** What is voted on: the agent's `extra.answer`, or the last reply. */
function answerOf({ trajectory }: Scored): string {
  const { answer } = trajectory.extra;
  return answer === undefined ? trajectory.text.trim() : String(answer);
}

/** Under verl's names: `val-core` for the main reward at the largest k, `val-aux` for the rest. */
export function validationMetrics(evaluations: readonly SourceEvaluation[]): Metrics {
  const metrics: Metrics = {};
  for (const { source, atK: byName, rollout } of evaluations) {
    const main = 'acc' in byName ? 'acc' : 'reward';
    for (const [name, values] of Object.entries(byName)) {
      const largest = Object.keys(values)[0]!.slice('mean@'.length);
      for (const [key, value] of Object.entries(values)) {
        const core =
          name === main && key.includes(`@${largest}`) && /^(mean|maj|best)@.*?(\/mean)?$/.test(key);
        metrics[`${core && !key.endsWith('/std') ? 'val-core' : 'val-aux'}/${source}/${name}/${key}`] = value;
      }
    }
    for (const [key, value] of Object.entries(rollout)) {
      if (/^(tools\/(valid|calls)|turns|num_turns|response_length|tool_call_counts|ends)/.test(key)) {
        metrics[`val-aux/${source}/${key}`] = value;
      }
    }
  }
  return metrics;
}

/** Standard deviation over all attempts, so divided by their number. */
function spread(values: readonly number[]): number {
  const mean = average(values);
  return Math.sqrt(average(values.map((value) => (value - mean) ** 2)));
}

function average(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}
