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
  /** When the reply was complete. */
  readonly repliedAt: number;
}

export interface AssembledTrajectory {
  readonly segments: readonly Segment[];
  readonly messages: readonly Message[];
  readonly turns: readonly Turn[];
}

/**
 * `turns[n]` is turn n + 1. A turn without a reply (its request failed, or was cut before a token) is left out; so
 * is a chat in which nothing was sampled, unless that is all there is.
 */
export function assembleTrajectory(
  chats: readonly ChatRecord[],
  turns: readonly (OpenTurn | undefined)[],
): AssembledTrajectory {
  const number = numbering(turns);
  const spoken = chats.filter(({ segments }) => segments.some(isSampled));
  const kept = spoken.length > 0 ? spoken : chats.slice(0, 1);
  const segments: Segment[] = [];
  const placed: Turn[] = [];
  for (const chat of chats) {
    const turnOfReply = [0, ...chat.replies.map(({ turn }) => number(turn))];
    const place = chat.segments.map((segment) => {
      const keeps = kept.includes(chat) && (spoken.length === 0 || isSampled(segment));
      return keeps ? segments.push(trim(segment, turnOfReply)) - 1 : Math.max(0, segments.length - 1);
    });
    for (const { turn, span } of chat.replies) {
      const open = turns[turn - 1];
      if (!open) continue;
      const segment = place[span.segment]!;
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
  return { segments, messages: kept.flatMap(({ messages }) => messages), turns: placed };
}

const isSampled = ({ sampled }: Segment) => sampled.includes(1);

/** Turns that happened, numbered without gaps. */
function numbering(turns: readonly (OpenTurn | undefined)[]): (turn: number) => number {
  let count = 0;
  const numbers = turns.map((turn) => (turn ? ++count : count));
  return (turn) => numbers[turn - 1] ?? 0;
}

/** The segment up to its last sampled token, turns numbered through the trajectory; whole if none was sampled. */
function trim(segment: Segment, turnOfReply: readonly number[]): Segment {
  const length = isSampled(segment) ? segment.sampled.lastIndexOf(1) + 1 : segment.ids.length;
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
