import type { Segment, Trajectory } from '../types.ts';

/** How long a trajectory is, in tokens and in turns: by one rule for metrics, penalties and rewards. */
type Segments = Pick<Trajectory<unknown>, 'segments'>;

/** Before the first reply. */
export function promptTokens({ segments }: Segments): number {
  return segments[0] ? promptOf(segments[0]) : 0;
}

/** After the prompt, observations included. A segment whose context was rewritten adds what follows its own prompt. */
export function responseTokens({ segments }: Segments): number {
  return segments.reduce((sum, segment) => sum + segment.ids.length - promptOf(segment), 0);
}

/**
 * As verl counts: the prompt, every reply, and what answers one. A trajectory ends on a reply, so all but the last were
 * answered. Messages do not tell: those of a prompt may hold replies too, as examples.
 */
export function numberOfTurns({ turns }: Pick<Trajectory<unknown>, 'turns'>): number {
  return Math.max(1, 2 * turns.length);
}

function promptOf({ ids, sampled }: Segment): number {
  const reply = sampled.indexOf(1);
  return reply < 0 ? ids.length : reply;
}
