import type { Policy, WaitingRequest } from '../scheduling-view.ts';
import { pauseOne, placeWithin } from './budget.ts';
import { byArrival, byStep, choose, hasSlot } from './choose.ts';
import { PROGRAM_RULES, type ProgramRules } from './programs.ts';

/**
 * As `programs`, but who is likely to take longest begins first, so that the batch does not end with one straggler
 * (longest processing time first; StreamRL, Heddle). Lengths are guessed from siblings: one attempt at each task goes
 * ahead of the others as a probe (Seer, arXiv 2511.14617).
 */
export function longestFirst(rules: Partial<ProgramRules> = {}): Policy {
  const { patienceMs, ...budget } = { ...PROGRAM_RULES, ...rules };
  return (view) => {
    const paused = pauseOne(view, budget);
    if (paused) return paused;
    if (!view.servers.some(hasSlot)) return undefined;
    return choose(view, {
      patienceMs,
      place: (request, overdue) => placeWithin(view.servers, request, { ...budget, overdue }),
      compare: (a, b) =>
        Number(b.resident) - Number(a.resident) ||
        byStep(a, b) ||
        Number(isProbe(b)) - Number(isProbe(a)) ||
        b.predictedTokens - a.predictedTokens ||
        byArrival(a, b),
    });
  };
}

const isProbe = ({ unknown, place }: WaitingRequest) => unknown && place?.attempt === 0;
