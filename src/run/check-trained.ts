import { ConfigError } from '../errors.ts';
import type { Batch } from '../training/batch.ts';
import type { Group, Untrained } from '../types.ts';

const REASONS: Readonly<Record<Untrained, string>> = {
  sampling:
    "sampled with a temperature, top-p or penalty that the agent chose; leave them out, or let the run's replace them (endpoint.sampling: force)",
  abandoned: 'given up by their client, or asked for again before they were used (endpoint.abandoned)',
  agent: 'of agents that endpoint.train does not name',
  excluded: 'excluded by the agent',
};

/** A step that trains no token would pass without a trace: it is an error, which says why. */
export function checkTrained(
  step: number,
  groups: readonly Group<unknown>[],
  { sequences, leftOut }: Batch,
): void {
  const sampled = countSampled(groups);
  if (sequences.length > 0 || sampled === 0) return;
  const reasons = [
    ...[...untrainedTokens(groups)].map(([why, tokens]) => `${tokens} tokens were ${REASONS[why]}`),
    ...[...counted(leftOut.map(({ why, message }) => `${why}: ${message}`))].map(
      ([why, attempts]) => `${attempts} attempts were left out (${why})`,
    ),
  ];
  throw new ConfigError(
    `step ${step} sampled ${sampled} tokens and trains none of them: ${reasons.join('; ')}`,
  );
}

/** Tokens of replies that are not trained, by reason. */
function untrainedTokens(groups: readonly Group<unknown>[]): Map<Untrained, number> {
  const tokens = new Map<Untrained, number>();
  for (const { trajectory } of groups.flatMap(({ attempts }) => attempts)) {
    for (const { untrained, start, end } of trajectory.turns) {
      if (untrained) tokens.set(untrained, (tokens.get(untrained) ?? 0) + end - start);
    }
  }
  return tokens;
}

function countSampled(groups: readonly Group<unknown>[]): number {
  const segments = groups.flatMap(({ attempts }) =>
    attempts.flatMap(({ trajectory }) => trajectory.segments),
  );
  return segments.reduce((sum, { sampled }) => sum + sampled.reduce((total, flag) => total + flag, 0), 0);
}

function counted(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
