import { hashSeed } from '../../lib/random.ts';
import type { Trajectory } from '../../types.ts';

type Place = Pick<Trajectory, 'step' | 'taskIndex' | 'evaluation'>;

/**
 * All attempts at a number of tasks of each step, and of each validation set in it; all tasks without a number. By a hash of
 * step and task, so that the choice is the same in every tracker, in a repeated step and in an export.
 */
export function someTasks<I>(
  items: readonly I[],
  placeOf: (item: I) => Place,
  tasksPerStep: number | undefined,
): readonly I[] {
  if (tasksPerStep === undefined) return items;
  const ranks = new Map<string, Set<number>>();
  for (const item of items) {
    const place = placeOf(item);
    const known = ranks.get(setOf(place)) ?? new Set();
    ranks.set(setOf(place), known.add(rankOf(place)));
  }
  const chosen = new Map(
    [...ranks].map(([set, all]) => [set, new Set([...all].sort((a, b) => a - b).slice(0, tasksPerStep))]),
  );
  return items.filter((item) => chosen.get(setOf(placeOf(item)))!.has(rankOf(placeOf(item))));
}

const setOf = ({ step, evaluation }: Place) => JSON.stringify([step, evaluation]);
const rankOf = ({ step, taskIndex }: Place) => hashSeed(step, 'trace', taskIndex);
