import type { Policy } from '../scheduling-view.ts';
import { type Budget, pauseOne, placeWithin } from './budget.ts';
import { byArrival, byStep, choose, hasSlot } from './choose.ts';

export interface ProgramRules extends Budget {
  /** A request that waited so long goes before all that came later. */
  readonly patienceMs: number;
}

export const PROGRAM_RULES: ProgramRules = {
  kvShare: 0.9,
  patienceMs: 60_000,
};

/**
 * Trajectories as whole programs: those whose context a server keeps go on first, then those that were begun, then new
 * ones as far as K/V memory goes. For more trajectories than the servers' memory holds; otherwise as `firstCome`.
 */
export function programs(rules: Partial<ProgramRules> = {}): Policy {
  const { patienceMs, ...budget } = { ...PROGRAM_RULES, ...rules };
  return (view) => {
    const paused = pauseOne(view, budget);
    if (paused) return paused;
    if (!view.servers.some(hasSlot)) return undefined;
    return choose(view, {
      patienceMs,
      place: (request, overdue) => placeWithin(view.servers, request, { ...budget, overdue }),
      compare: (a, b) =>
        Number(b.resident) - Number(a.resident) || byStep(a, b) || a.begun - b.begun || byArrival(a, b),
    });
  };
}
