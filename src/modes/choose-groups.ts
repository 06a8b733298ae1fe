import type { FinishedTicket, Ticket } from './schedule.ts';

export interface ChoiceRule {
  /** Of the weights that are trained next. */
  readonly version: number;
  readonly staleness: number;
  /** Groups of a step. */
  readonly wanted: number;
}

/**
 * The groups to train on now, or undefined while too few are done. First come, first trained, as long as no other group
 * must then be late: of the groups due by version d, steps v + 1 … d can take (d − v)·wanted, so all beyond those are
 * taken now, finished or waited for.
 */
export function chooseGroups<T>(
  finished: readonly FinishedTicket<T>[],
  running: readonly Ticket[],
  { version, staleness, wanted }: ChoiceRule,
): FinishedTicket<T>[] | undefined {
  const due = (ticket: Ticket) => ticket.version + staleness;
  const all = [...finished, ...running];
  const chosen = new Set<FinishedTicket<T>>();
  for (const deadline of [...new Set(all.map(due))].sort((one, other) => one - other)) {
    const isDue = (ticket: Ticket) => due(ticket) <= deadline;
    const now = all.filter(isDue).length - Math.max(0, deadline - version) * wanted;
    let missing = now - [...chosen].filter(isDue).length;
    for (const ticket of finished) {
      if (missing <= 0) break;
      if (chosen.has(ticket) || !isDue(ticket)) continue;
      chosen.add(ticket);
      missing--;
    }
    if (missing > 0) return undefined;
  }
  for (const ticket of finished) {
    if (chosen.size >= wanted) break;
    chosen.add(ticket);
  }
  return chosen.size >= Math.min(wanted, all.length) ? [...chosen] : undefined;
}
