import type { Decision, SchedulingView, ServerView, WaitingRequest } from '../scheduling-view.ts';

export interface ChooseRules {
  /** Negative: the first goes before the second. */
  readonly compare: (a: WaitingRequest, b: WaitingRequest) => number;
  /** Where a request may go now; one that is overdue need not stay where its context is. */
  readonly place: (request: WaitingRequest, overdue: boolean) => ServerView | undefined;
  /** A request that has waited this long goes before all later ones, and new trajectories no longer pass it. */
  readonly patienceMs: number;
}

/** The request that goes first of those that can go. */
export function choose({ now, waiting }: SchedulingView, rules: ChooseRules): Decision | undefined {
  const { compare, place, patienceMs } = rules;
  const isOverdue = (request: WaitingRequest) => now - request.since >= patienceMs;
  let best: { readonly request: WaitingRequest; readonly server: ServerView } | undefined;
  /** In order of arrival, so the first overdue request that cannot go is the one that has waited longest. */
  let stuck = false;
  for (const request of waiting) {
    const overdue = isOverdue(request);
    if (stuck && !request.resident) continue;
    if (!overdue && best && compare(request, best.request) >= 0) continue;
    const server = place(request, overdue);
    if (!server) {
      stuck ||= overdue;
      continue;
    }
    if (overdue) return { kind: 'send', request, server };
    best = { request, server };
  }
  return best && { kind: 'send', ...best };
}

/** Groups of earlier steps are trained, and go stale, first. */
export const byStep = (a: WaitingRequest, b: WaitingRequest) => (a.place?.step ?? 0) - (b.place?.step ?? 0);

export const byArrival = (a: WaitingRequest, b: WaitingRequest) => a.since - b.since;

export const hasSlot = ({ inFlight, ceiling }: ServerView) => inFlight < ceiling;

/** The server with the least of something, of equal ones with the least of the next; else the first. */
export function least(
  servers: readonly ServerView[],
  ...of: readonly ((server: ServerView) => number)[]
): ServerView | undefined {
  let best: ServerView | undefined;
  for (const server of servers) {
    const telling = best && of.find((one) => one(server) !== one(best!));
    if (!best || (telling && telling(server) < telling(best))) best = server;
  }
  return best;
}

/** Servers that did not fail the request, or all if all did. */
export function able(servers: readonly ServerView[], { failedOn }: WaitingRequest): readonly ServerView[] {
  if (failedOn.size === 0) return servers;
  const others = servers.filter(({ name }) => !failedOn.has(name));
  return others.length > 0 ? others : servers;
}
