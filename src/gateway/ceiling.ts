import type { ServerLoad } from '../inference/server.ts';

/** How the limit of requests in flight is found while a run goes on. */
export interface CeilingRules {
  /** Requests in flight per server at the start. */
  readonly first: number;
  readonly least: number;
  readonly most: number;
  /** More when a server is used up to its ceiling and not strained. */
  readonly add: number;
  /** Share that is left when it is strained. */
  readonly cut: number;
  /** Strained: so much of the K/V memory is held by running requests … */
  readonly kvUse: number;
  /** … or so many requests wait in the server, as a share of those that run; or any were preempted. */
  readonly queuedShare: number;
  /** A server is asked for its load at most so often. */
  readonly everyMs: number;
}

export const CEILING_RULES: CeilingRules = {
  first: 64,
  least: 4,
  most: 4096,
  add: 16,
  cut: 0.8,
  kvUse: 0.95,
  queuedShare: 0.1,
  everyMs: 1000,
};

/** Additive increase, multiplicative decrease, by what the server last reported and what it reported before. */
export function nextCeiling(
  { ceiling, mostInFlight }: { readonly ceiling: number; readonly mostInFlight: number },
  load: ServerLoad,
  before: ServerLoad | undefined,
  { least, most, add, cut, kvUse, queuedShare }: CeilingRules,
): number {
  const preempted = (load.preemptions ?? 0) > (before?.preemptions ?? 0);
  const strained = preempted || load.kvUse >= kvUse || load.queued > queuedShare * load.running;
  if (strained) return Math.max(least, Math.floor(cut * Math.min(ceiling, Math.max(mostInFlight, least))));
  return mostInFlight >= ceiling ? Math.min(most, ceiling + add) : ceiling;
}
