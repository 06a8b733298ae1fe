import type { Trajectory } from '../types.ts';

/**
 * Numbers of the messages that were said when a turn began. In each chat these are the messages up to the last reply that
 * had begun by then: what came after that reply, such as the answer of a sub-agent, was not there yet.
 */
export function messagesBefore(
  { chats, turns }: Pick<Trajectory<unknown>, 'chats' | 'turns'>,
  turn: number,
): number[] {
  const replies = turns.slice(0, turn).flatMap(({ message }) => message ?? []);
  return chats.flatMap(({ start, end }) => {
    const last = Math.max(start, ...replies.filter((at) => at >= start && at < end));
    return Array.from({ length: last - start }, (_, at) => start + at);
  });
}
