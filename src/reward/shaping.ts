import type { Task, ToolCall, Trajectory } from '../types.ts';
import { type RewardOptions, reward, type TrajectoryReward } from './reward.ts';

/** What is added beside the task's own reward, named as the `reward_shaping.*` keys. */
export interface Shaping {
  /** Once, if a call ran without a problem. */
  readonly toolCallSuccess: number;
  /** Once, if `isValidReasoning` holds. */
  readonly validReasoning: number;
  /** For each call that could not be read or run. */
  readonly invalidToolCall: number;
  /** Once, if the turns ran out. */
  readonly maxTurnsExceeded: number;
  /** For each call with the name and arguments of an earlier one. */
  readonly redundantToolCall: number;
  /** Once, if there were calls and all could be read. */
  readonly toolFormat: number;
}

/** The usual amounts, which give nothing for the format alone. */
export const SHAPING: Shaping = {
  toolCallSuccess: 0.1,
  validReasoning: 0.05,
  invalidToolCall: -0.1,
  maxTurnsExceeded: -0.5,
  redundantToolCall: -0.05,
  toolFormat: 0,
};

/** Options of `shapingReward` beside its amounts. */
export interface ShapingOptions<T> extends RewardOptions {
  readonly isValidReasoning?: (trajectory: Trajectory<T>) => boolean;
}

/** Logs each part as `shaping/KEY`; their sum is the reward. */
export function shapingReward<T = Task>(
  given: Partial<Shaping> = {},
  { isValidReasoning = explainsEveryCall, ...options }: ShapingOptions<T> = {},
): TrajectoryReward<T> {
  const shaping = { ...SHAPING, ...given };
  return reward<T>(
    'shaping',
    ({ trajectory }) => {
      const { turns, end } = trajectory;
      const runs = turns.flatMap(({ toolRuns }) => toolRuns);
      const unread = turns.flatMap(({ problems }) => problems);
      const invalid = unread.length + runs.filter(({ problem }) => problem).length;
      const seen = new Set<string>();
      let redundant = 0;
      for (const { call } of runs) {
        const key = callKey(call);
        if (seen.has(key)) redundant++;
        seen.add(key);
      }
      const times = (amount: number, count: number) => (count === 0 ? 0 : amount * count); // no -0
      const once = (amount: number, holds: boolean) => (holds ? amount : 0);
      const parts = {
        toolCallSuccess: once(
          shaping.toolCallSuccess,
          runs.some(({ problem }) => !problem),
        ),
        validReasoning: once(shaping.validReasoning, isValidReasoning(trajectory)),
        invalidToolCall: times(shaping.invalidToolCall, invalid),
        maxTurnsExceeded: once(shaping.maxTurnsExceeded, end.kind === 'truncated' && end.why === 'turns'),
        redundantToolCall: times(shaping.redundantToolCall, redundant),
        toolFormat: once(shaping.toolFormat, runs.length > 0 && unread.length === 0),
      };
      return { ...parts, score: Object.values(parts).reduce((sum, part) => sum + part, 0) };
    },
    options,
  );
}

/** The default of `validReasoning`: every reply that calls a tool also says something, in its text or reasoning. */
export function explainsEveryCall({ messages }: Pick<Trajectory<unknown>, 'messages'>): boolean {
  const calling = messages.flatMap((message) =>
    message.role === 'assistant' && message.toolCalls?.length ? message : [],
  );
  return (
    calling.length > 0 &&
    calling.every(({ content, reasoning = '' }) => /\p{L}{2,}/u.test(`${content}${reasoning}`))
  );
}

const callKey = ({ name, arguments: given }: ToolCall) => `${name} ${sorted(given)}`;

/** JSON with keys in order, so that `{a, b}` and `{b, a}` are the same call. */
function sorted(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined';
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, inner]) => `${JSON.stringify(key)}:${sorted(inner)}`).join(',')}}`;
}
