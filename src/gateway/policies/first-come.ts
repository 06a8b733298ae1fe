import type { Policy } from '../scheduling-view.ts';
import { able, byArrival, choose, hasSlot, least } from './choose.ts';

/**
 * In the order in which requests come; a trajectory stays with its server, a new one goes to the least busy. What the
 * gateway does without a policy, but no server gets more than its ceiling.
 */
export function firstCome(): Policy {
  return (view) => {
    if (!view.servers.some(hasSlot)) return undefined;
    return choose(view, {
      compare: byArrival,
      patienceMs: Number.POSITIVE_INFINITY,
      place: (request) => {
        const servers = able(view.servers, request);
        const home = servers.find(({ name }) => name === request.home);
        if (home) return hasSlot(home) ? home : undefined;
        return least(servers.filter(hasSlot), ({ inFlight }) => inFlight);
      },
    });
  };
}
