import type { Group, Metrics } from '../types.ts';
import { AdmittedGroups } from './admitted-groups.ts';
import type { GroupSource, ScheduleParts, ScheduleState } from './group-source.ts';
import type { Mode } from './mode.ts';

/** A step's groups are rolled out when they are asked for; what comes back does not depend on which ended first. */
export class Synchronous<T> implements GroupSource<T> {
  readonly #parts: ScheduleParts<T>;
  readonly #groups: AdmittedGroups<T>;

  constructor(mode: Mode, parts: ScheduleParts<T>, state: ScheduleState<T> | undefined) {
    this.#parts = parts;
    this.#groups = new AdmittedGroups(mode, parts, state);
  }

  async take(step: number) {
    await collect(this.#groups, this.#parts, step);
    return takeAll(this.#groups);
  }

  async settle() {}
  async renew() {}
  state = () => this.#groups.state();
  close = () => this.#groups.close();
}

/**
 * Rolls out until all groups of a step are done. With dynamic sampling (DAPO), groups in which every attempt got the
 * same reward teach nothing and are replaced by those of further tasks, up to a limit of rounds.
 */
export async function collect<T>(
  admitted: AdmittedGroups<T>,
  { rollout, tasksPerStep, attemptsPerTask, dynamicSampling }: ScheduleParts<T>,
  step: number,
): Promise<void> {
  rollout.begin(step, tasksPerStep * attemptsPerTask);
  for (let round = 0; ; round++) {
    admitted.admit(tasksPerStep - admitted.size, step);
    while (admitted.running.length > 0) await admitted.changed();
    admitted.throwIfFailed();
    const fresh = admitted.finished.filter(({ judged }) => !judged).sort((a, b) => a.order - b.order);
    const groups = await rollout.scoreBatch(fresh.map(({ group }) => group));
    for (const [at, finished] of fresh.entries()) {
      const scored = { ...finished, group: groups[at]!, judged: true };
      admitted.replace(scored);
      if (dynamicSampling && !dynamicSampling.keep(scored.group)) admitted.evict(scored);
    }
    if (!dynamicSampling || admitted.size >= tasksPerStep || round >= dynamicSampling.maxRefills) return;
  }
}

export function takeAll<T>(admitted: AdmittedGroups<T>): { groups: Group<T>[]; metrics: Metrics } {
  const groups = admitted.remove(admitted.finished).map(({ group }) => group);
  return { groups, metrics: admitted.takeEvicted() };
}
