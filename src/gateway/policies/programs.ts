import type { Policy } from '../scheduling-view.ts';
import { type BudgetRules, withinBudget } from './budget.ts';
import { byArrival, byStep } from './choose.ts';

/**
 * Trajectories as whole programs: those whose context a server keeps continue first, then those that were begun, then new
 * ones as far as K/V memory goes. For more trajectories than the servers' memory holds; otherwise as `firstCome`.
 */
export function programs(rules: Partial<BudgetRules> = {}): Policy {
  return withinBudget(
    rules,
    (a, b) => Number(b.resident) - Number(a.resident) || byStep(a, b) || a.begun - b.begun || byArrival(a, b),
  );
}
