import type { ServerLoad } from '../inference/server.ts';

/** How the limit of requests in flight is adjusted during a run. */
export interface CeilingRules {
  /** Requests in flight per server at the start. */
  readonly first: number;
  readonly least: number;
  readonly most: number;
  /** Added to the ceiling when the server runs at its ceiling without strain. */
  readonly add: number;
  /** Factor by which the ceiling is lowered when the server is strained. */
  readonly cut: number;
  /** A server is strained when running requests hold more than this share of the K/V memory … */
  readonly kvUse: number;
  /** … or when more than this share of its running requests wait in its queue, or any were preempted. */
  readonly queuedShare: number;
  /** Least time between two readings of a server's load. */
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
