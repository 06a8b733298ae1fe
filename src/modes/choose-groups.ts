import type { AdmittedGroup, FinishedGroup } from './group-source.ts';

export interface ChoiceRule {
  /** Version of the weights that are trained next. */
  readonly version: number;
  readonly staleness: number;
  /** Groups that a step needs. */
  readonly wanted: number;
}

/**
 * The groups to train on now, or undefined while too few are done. First come, first trained, as long as no other group
 * must then be late: of the groups due by version d, steps v + 1 … d can take (d − v)·wanted, so all beyond those are
 * taken now, finished or waited for.
 */
export function chooseGroups<T>(
  finished: readonly FinishedGroup<T>[],
  running: readonly AdmittedGroup[],
  { version, staleness, wanted }: ChoiceRule,
): FinishedGroup<T>[] | undefined {
  const due = (group: AdmittedGroup) => group.version + staleness;
  const all = [...finished, ...running];
  const chosen = new Set<FinishedGroup<T>>();
  for (const deadline of [...new Set(all.map(due))].sort((one, other) => one - other)) {
    const isDue = (group: AdmittedGroup) => due(group) <= deadline;
    const now = all.filter(isDue).length - Math.max(0, deadline - version) * wanted;
    let missing = now - [...chosen].filter(isDue).length;
    for (const group of finished) {
      if (missing <= 0) break;
      if (chosen.has(group) || !isDue(group)) continue;
      chosen.add(group);
      missing--;
    }
    if (missing > 0) return undefined;
  }
  for (const group of finished) {
    if (chosen.size >= wanted) break;
    chosen.add(group);
  }
  return chosen.size >= Math.min(wanted, all.length) ? [...chosen] : undefined;
}
