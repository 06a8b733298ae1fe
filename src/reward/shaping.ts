import { ConfigError } from '../errors.ts';
import type { Message, Task, ToolCall, Trajectory } from '../types.ts';
import { type RewardOptions, reward, type TrajectoryReward } from './reward.ts';

/** What is added beside the task's own reward, named as the `reward_shaping.*` keys. */
export interface Shaping {
  /** Whether the rewards `toolCallSuccess`, `validReasoning` and `toolFormat` are given once or for each turn. */
  readonly per: 'trajectory' | 'turn';
  /** If a call ran without a problem. */
  readonly toolCallSuccess: number;
  /** If `isValidReasoning` holds; per turn, for a reply with a call that also says something. */
  readonly validReasoning: number;
  /** For each call that could not be read or run. */
  readonly invalidToolCall: number;
  /** Once, if the turns ran out. */
  readonly maxTurnsExceeded: number;
  /** For each call with the name and arguments of an earlier one. */
  readonly redundantToolCall: number;
  /** If there were calls and all could be read. */
  readonly toolFormat: number;
}

/** The usual amounts, which give nothing for the format alone. */
export const SHAPING: Shaping = {
  per: 'trajectory',
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
  { isValidReasoning: own, ...options }: ShapingOptions<T> = {},
): TrajectoryReward<T> {
  const shaping = { ...SHAPING, ...given };
  if (own && shaping.per === 'turn')
    throw new ConfigError('isValidReasoning judges a whole trajectory; leave it out, or per: turn');
  const isValidReasoning = own ?? explainsEveryCall;
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
      const isPerTurn = shaping.per === 'turn';
      const explained = isPerTurn ? callingReplies(trajectory).filter(saysSomething).length : 0;
      const wellFormed = turns.filter((turn) => turn.toolRuns.length > 0 && turn.problems.length === 0);
      const succeeded = turns.filter((turn) => turn.toolRuns.some(({ problem }) => !problem));
      const parts = {
        toolCallSuccess: isPerTurn
          ? times(shaping.toolCallSuccess, succeeded.length)
          : once(shaping.toolCallSuccess, succeeded.length > 0),
        validReasoning: isPerTurn
          ? times(shaping.validReasoning, explained)
          : once(shaping.validReasoning, isValidReasoning(trajectory)),
        invalidToolCall: times(shaping.invalidToolCall, invalid),
        maxTurnsExceeded: once(shaping.maxTurnsExceeded, end.kind === 'truncated' && end.why === 'turns'),
        redundantToolCall: times(shaping.redundantToolCall, redundant),
        toolFormat: isPerTurn
          ? times(shaping.toolFormat, wellFormed.length)
          : once(shaping.toolFormat, runs.length > 0 && unread.length === 0),
      };
      return { ...parts, score: Object.values(parts).reduce((sum, part) => sum + part, 0) };
    },
    options,
  );
}

/** The default of `validReasoning`: every reply that calls a tool also says something, in its text or reasoning. */
export function explainsEveryCall(trajectory: Pick<Trajectory<unknown>, 'messages'>): boolean {
  const calling = callingReplies(trajectory);
  return calling.length > 0 && calling.every(saysSomething);
}

type Reply = Message & { readonly role: 'assistant' };

const callingReplies = ({ messages }: Pick<Trajectory<unknown>, 'messages'>): Reply[] =>
  messages.flatMap((message) => (message.role === 'assistant' && message.toolCalls?.length ? message : []));

const saysSomething = ({ content, reasoning = '' }: Reply) => /\p{L}{2,}/u.test(`${content}${reasoning}`);

const callKey = ({ name, arguments: given }: ToolCall) => `${name} ${sorted(given)}`;

/** JSON with keys in order, so that `{a, b}` and `{b, a}` are the same call. */
function sorted(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined';
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, inner]) => `${JSON.stringify(key)}:${sorted(inner)}`).join(',')}}`;
}
