import { causeOf } from '../agent/trajectory.ts';
import { ConfigError, EngineError, RewardError, ToolError } from '../errors.ts';
import type { Trajectory } from '../types.ts';

/** The first failure of its kind, and how many there were. */
interface Example {
  readonly id: string;
  readonly message: string;
  readonly cause: unknown;
  count: number;
}

export type Failures<T> = ReturnType<typeof watchFailures<T>>;

/** Counts failures by cause; says when there are too many, and throws the error that names cause and example. */
export function watchFailures<T>(tolerateShare = 0.5) {
  let planned = 0;
  let running = 0;
  /** Attempts that were in progress since the step began: refills and groups started ahead are more than planned. */
  let seen = 0;
  let stopOnAgentFailure = false;
  const examples = new Map<string, Example>();
  let fatal: Error | undefined;
  return {
    begin: (attempts: number, stops: boolean) => {
      planned = attempts;
      seen = running;
      stopOnAgentFailure = stops;
      examples.clear();
    },
    started: () => {
      running++;
      seen++;
    },
    ended: () => {
      running--;
    },
    add: ({ id, end }: Trajectory<T>): boolean => {
      if (end.kind !== 'failed' || fatal) return false;
      const example = examples.get(end.boundary) ?? {
        id,
        message: end.message,
        cause: causeOf(end),
        count: 0,
      };
      examples.set(end.boundary, example);
      example.count++;
      const total = Math.max(planned, seen);
      if (end.boundary === 'agent' && stopOnAgentFailure) {
        fatal = new ConfigError(`the agent failed in trajectory ${id}: ${end.message}`, {
          cause: causeOf(end),
        });
      } else if (example.count > tolerateShare * total) {
        const what = `${example.count} of ${total} attempts failed (${end.boundary}), more than the tolerated share of ${tolerateShare}`;
        fatal = new ERROR_OF[end.boundary](`${what}; for example ${example.id}: ${example.message}`, {
          cause: example.cause,
        });
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
