/**
 * The chats of a trajectory as one record. Segments stand in order of chat; what no reply followed is cut off, so
 * that a trajectory ends on sampled tokens; turns are numbered through the whole trajectory.
 */
import type { ChatRecord } from '../chat/chat.ts';
import type { ChatPart, Message, Segment, Turn } from '../types.ts';

export interface AssembledTrajectory {
  readonly segments: readonly Segment[];
  readonly messages: readonly Message[];
  readonly chats: readonly ChatPart[];
  readonly turns: readonly Turn[];
  /** Text of the reply that came last. */
  readonly text: string;
}

/**
 * A turn without a reply (its request failed, or was cut before a token) is left out; so is a chat in which nothing was
 * sampled, unless that is all there is. `lastTurn` is the turn whose reply came last.
 */
export function assembleTrajectory(chats: readonly ChatRecord[], lastTurn = 0): AssembledTrajectory {
  const replies = chats.flatMap((chat) => chat.replies);
  const number = numbering(replies);
  const spoken = chats.filter(({ segments }) => segments.some(isSampled));
  const kept = spoken.length > 0 ? spoken : chats.slice(0, 1);
  const segments: Segment[] = [];
  const messages: Message[] = [];
  const parts: ChatPart[] = [];
  const turns: Turn[] = [];
  for (const [chatNumber, chat] of chats.entries()) {
    const first = messages.length;
    if (kept.includes(chat)) {
      messages.push(...chat.messages);
      const agent = chat.segments[0]?.agent;
      const named = agent === undefined ? {} : { agent };
      parts.push({ number: chatNumber, start: first, end: messages.length, tools: chat.tools, ...named });
    }
    const turnOfReply = [0, ...chat.replies.map(({ turn }) => number(turn))];
    const place = chat.segments.map((segment) => {
      const keeps = kept.includes(chat) && (spoken.length === 0 || isSampled(segment));
      return keeps ? segments.push(trim(segment, turnOfReply)) - 1 : Math.max(0, segments.length - 1);
    });
    for (const reply of chat.replies) {
      const { turn, span, message, finish, toolCalls, toolRuns, problems, reward, untrained } = reply;
      const segment = place[span.segment]!;
      const length = segments[segment]?.ids.length ?? 0;
      turns[number(turn) - 1] = {
        segment,
        ...(first + message < messages.length ? { message: first + message } : {}),
        start: Math.min(span.start, length),
        end: Math.min(span.end, length),
        finish,
        toolCalls,
        toolRuns,
        problems,
        ...(reward === undefined ? {} : { reward }),
        ...(untrained === undefined ? {} : { untrained }),
      };
    }
  }
  const text = replies.find(({ turn }) => turn === lastTurn)?.text ?? '';
  return { segments, messages, chats: parts, turns, text };
}

const isSampled = ({ sampled }: Segment) => sampled.includes(1);

/** Turns that have a reply, numbered without gaps. */
function numbering(replies: readonly { readonly turn: number }[]): (turn: number) => number {
  const turns = replies.map(({ turn }) => turn).sort((one, other) => one - other);
  const numbers = new Map(turns.map((turn, at) => [turn, at + 1]));
  return (turn) => numbers.get(turn) ?? 0;
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
    ...(segment.agent === undefined ? {} : { agent: segment.agent }),
  };
}
