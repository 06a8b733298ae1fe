import type { Policy, WaitingRequest } from '../scheduling-view.ts';
import { type BudgetRules, withinBudget } from './budget.ts';
import { byArrival, byStep } from './choose.ts';

/**
 * As `programs`, but the trajectory that is likely to take longest begins first, so that the batch does not end with one straggler
 * (longest processing time first; StreamRL, Heddle). Lengths are guessed from siblings: one attempt at each task goes
 * ahead of the others as a probe (Seer, arXiv 2511.14617).
 */
export function longestFirst(rules: Partial<BudgetRules> = {}): Policy {
  return withinBudget(
    rules,
    (a, b) =>
      Number(b.resident) - Number(a.resident) ||
      byStep(a, b) ||
      Number(isProbe(b)) - Number(isProbe(a)) ||
      b.predictedTokens - a.predictedTokens ||
      byArrival(a, b),
  );
}

const isProbe = ({ unknown, place }: WaitingRequest) => unknown && place?.attempt === 0;
