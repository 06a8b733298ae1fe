/**
 * The chats of a trajectory as one record. Segments stand in order of chat; what no reply followed is cut off, so
 * that a trajectory ends on sampled tokens; turns are numbered through the whole trajectory.
 */
import type { ChatRecord } from '../chat/chat.ts';
import type { Message, Segment, ToolCall, ToolRun, Turn } from '../types.ts';

/** A turn while it happens. */
export interface OpenTurn {
  finish: Turn['finish'];
  text: string;
  toolCalls: readonly ToolCall[];
  toolRuns: readonly ToolRun[];
  problems: Turn['problems'];
  reward: number | undefined;
}

export interface AssembledTrajectory {
  readonly segments: readonly Segment[];
  readonly messages: readonly Message[];
  readonly turns: readonly Turn[];
}

/** `turns[n]` is turn n + 1. A turn without a reply (its request failed or was cut before a token) is left out. */
export function assembleTrajectory(
  chats: readonly ChatRecord[],
  turns: readonly (OpenTurn | undefined)[],
): AssembledTrajectory {
  const number = numbering(turns);
  const segments: Segment[] = [];
  const placed: Turn[] = [];
  const anySampled = chats.some(({ segments }) => segments.some((segment) => segment.sampled.includes(1)));
  for (const chat of chats) {
    const turnOfReply = [0, ...chat.replies.map(({ turn }) => number(turn))];
    const index = chat.segments.map((segment) => {
      const trimmed = trim(segment, anySampled, turnOfReply);
      return trimmed ? segments.push(trimmed) - 1 : Math.max(0, segments.length - 1);
    });
    for (const { turn, span } of chat.replies) {
      const open = turns[turn - 1];
      if (!open) continue;
      const segment = index[span.segment]!;
      const length = segments[segment]?.ids.length ?? 0;
      placed[number(turn) - 1] = {
        segment,
        start: Math.min(span.start, length),
        end: Math.min(span.end, length),
        finish: open.finish,
        toolCalls: open.toolCalls,
        toolRuns: open.toolRuns,
        problems: open.problems,
        ...(open.reward === undefined ? {} : { reward: open.reward }),
      };
    }
  }
  return { segments, messages: chats.flatMap(({ messages }) => messages), turns: placed.filter(Boolean) };
}

/** Turns that happened, numbered without gaps. */
function numbering(turns: readonly (OpenTurn | undefined)[]): (turn: number) => number {
  let count = 0;
  const numbers = turns.map((turn) => (turn ? ++count : count));
  return (turn) => numbers[turn - 1] ?? 0;
}

/** The segment up to its last sampled token; undefined if it has none, unless no segment has. */
function trim(segment: Segment, anySampled: boolean, turnOfReply: readonly number[]): Segment | undefined {
  const last = segment.sampled.lastIndexOf(1);
  if (last < 0 && anySampled) return undefined;
  const length = last < 0 ? segment.ids.length : last + 1;
  return {
    ids: segment.ids.slice(0, length),
    sampled: segment.sampled.slice(0, length),
    trained: segment.trained.slice(0, length),
    logprobs: segment.logprobs.slice(0, length),
    versions: segment.versions.slice(0, length),
    turns: segment.turns.slice(0, length).map((turn) => turnOfReply[turn]!),
    images: segment.images.filter(({ at }) => at < length),
  };
}
