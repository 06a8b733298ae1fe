import { causeOf } from '../agent/trajectory.ts';
import { ConfigError, EngineError, RewardError, ToolError } from '../errors.ts';
import type { Trajectory } from '../types.ts';

/** Counts failures by cause; says when there are too many, and throws the error that names cause and example. */
export function watchFailures<T>(tolerateFailedShare = 0.5) {
  let total = 0;
  let stopOnAgentFailure = false;
  const examples = new Map<string, { readonly id: string; readonly message: string; count: number }>();
  let fatal: Error | undefined;
  return {
    begin: (attempts: number, stops: boolean) => {
      total = attempts;
      stopOnAgentFailure = stops;
      examples.clear();
    },
    add: ({ id, end }: Trajectory<T>): boolean => {
      if (end.kind !== 'failed' || fatal) return false;
      const seen = examples.get(end.boundary) ?? { id, message: end.message, count: 0 };
      examples.set(end.boundary, seen);
      seen.count++;
      if (end.boundary === 'agent' && stopOnAgentFailure) {
        fatal = new ConfigError(`the agent threw in trajectory ${id}: ${end.message}`, {
          cause: causeOf(end),
        });
      } else if (seen.count > tolerateFailedShare * total) {
        const what = `${seen.count} of ${total} attempts failed (${end.boundary}), more than the tolerated share of ${tolerateFailedShare}`;
        fatal = new ERROR_OF[end.boundary](`${what}; for example ${seen.id}: ${seen.message}`);
      }
      return fatal !== undefined;
    },
    throwIfTooMany: () => {
      if (fatal) throw fatal;
    },
  };
}

const ERROR_OF = {
  infrastructure: EngineError,
  environment: ToolError,
  agent: ConfigError,
  reward: RewardError,
} as const;
