import { numberOfTurns, promptTokens, responseTokens } from '../lib/trajectory-lengths.ts';
import type { Group, Metrics, Scored, Trajectory } from '../types.ts';
import { problemsOf } from './problems.ts';

/**
 * What a step's trajectories say, as named numbers. Names follow verl's where verl has one; `reward_mean` and
 * `tool_call_success` are the names some of its scripts print. The table is in docs/metrics.md.
 */
export function rolloutMetrics(groups: readonly Group[]): Metrics {
  const all = groups.flatMap((group) => group.attempts);
  const trajectories = all.map(({ trajectory }) => trajectory);
  const scored = all.filter(({ reward }) => Number.isFinite(reward));
  const calls = trajectories.flatMap(({ turns }) => turns.flatMap((turn) => turn.toolRuns));
  const problems = trajectories.flatMap(({ turns }) => turns.flatMap(problemsOf));
  const unreadable = problems.length - calls.filter((call) => call.problem !== undefined).length;
  const attempted = calls.length + unreadable;
  const metrics: Metrics = {
    ...spread(
      'critic/score',
      scored.map((attempt) => attempt.reward!),
    ),
    ...spread('prompt_length', trajectories.map(promptTokens)),
    ...spread('response_length', trajectories.map(responseTokens)),
    'response_length/clip_ratio': mean(trajectories.map(({ end }) => (end.kind === 'truncated' ? 1 : 0))),
    ...spread(
      'turns',
      trajectories.map(({ turns }) => turns.length),
    ),
    ...spread('num_turns', trajectories.map(numberOfTurns)),
    ...spread(
      'tool_call_counts',
      trajectories.map(({ turns }) => sum(turns, (turn) => turn.toolCalls.length)),
    ),
    'sampled_tokens/total': sum(trajectories, sampledTokens),
    'perf/total_num_tokens': sum(trajectories, ({ segments }) =>
      sum(segments, (segment) => segment.ids.length),
    ),
    'tools/calls': attempted,
    'tools/problems': problems.length,
    'segments/mean': mean(trajectories.map(({ segments }) => segments.length)),
    'groups/total': groups.length,
    'groups/without_spread': groups.filter(hasNoSpread).length,
    reward_mean: mean(scored.map((attempt) => attempt.reward!)),
  };
  if (attempted > 0) {
    metrics['tools/valid'] = 1 - problems.length / attempted;
    metrics['tool_call_success'] = metrics['tools/valid'];
  }
  Object.assign(metrics, endpointMetrics(trajectories));
  for (const { untrained, start, end } of trajectories.flatMap(({ turns }) => turns)) {
    if (untrained) add(metrics, `not_trained_tokens/${untrained}`, end - start);
  }
  for (const problem of problems) add(metrics, `tools/problems/${problem.kind}`);
  for (const { end } of trajectories) add(metrics, `ends/${endName(end)}`);
  for (const name of new Set(scored.flatMap((attempt) => Object.keys(attempt.rewards)))) {
    metrics[`reward/${name}/mean`] = mean(scored.flatMap((attempt) => attempt.rewards[name] ?? []));
  }
  return metrics;
}

/** How clients from outside used their endpoints; nothing where no agent had one. */
function endpointMetrics(trajectories: readonly Trajectory[]): Metrics {
  const uses = trajectories.flatMap(({ endpoint }) => endpoint ?? []);
  if (uses.length === 0) return {};
  const metrics: Metrics = {
    'endpoint/requests': sum(uses, ({ requests }) => requests),
    'endpoint/forced_sampling': sum(uses, ({ forcedSampling }) => forcedSampling),
  };
  for (const { ignoredFields } of uses) {
    for (const [name, count] of Object.entries(ignoredFields))
      add(metrics, `endpoint/ignored/${name}`, count);
  }
  return metrics;
}

/** `completed`, `truncated-turns`, `failed-infrastructure`, `cancelled`: one word per way to end. */
export function endName(end: Scored['trajectory']['end']): string {
  switch (end.kind) {
    case 'completed':
    case 'cancelled':
      return end.kind;
    case 'truncated':
      return `truncated-${end.why}`;
    case 'failed':
      return `failed-${end.boundary}`;
  }
}

/** A single attempt is not compared with others of its task, so nothing is missing. */
function hasNoSpread({ attempts }: Group): boolean {
  const rewards = attempts.flatMap((attempt) => attempt.reward ?? []);
  return attempts.length > 1 && rewards.every((reward) => reward === rewards[0]);
}

const sampledTokens = ({ segments }: Trajectory) =>
  sum(segments, (segment) => segment.sampled.reduce((total, flag) => total + flag, 0));

function spread(name: string, values: readonly number[]): Metrics {
  if (values.length === 0) return {};
  return {
    [`${name}/mean`]: mean(values),
    [`${name}/max`]: values.reduce((a, b) => Math.max(a, b)),
    [`${name}/min`]: values.reduce((a, b) => Math.min(a, b)),
  };
}

function add(metrics: Metrics, name: string, count = 1): void {
  metrics[name] = (metrics[name] ?? 0) + count;
}

function sum<V>(items: readonly V[], of: (item: V) => number): number {
  return items.reduce((total, item) => total + of(item), 0);
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : sum(values, (value) => value) / values.length;
}
