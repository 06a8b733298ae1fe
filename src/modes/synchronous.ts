import type { Group, Metrics } from '../types.ts';
import { GroupPool } from './group-pool.ts';
import type { Mode } from './mode.ts';
import type { GroupSource, ScheduleParts, ScheduleState } from './schedule.ts';

/** A step's groups are rolled out when they are asked for; what comes back does not depend on which ended first. */
export class Synchronous<T> implements GroupSource<T> {
  readonly #parts: ScheduleParts<T>;
  readonly #pool: GroupPool<T>;

  constructor(mode: Mode, parts: ScheduleParts<T>, state: ScheduleState<T> | undefined) {
    this.#parts = parts;
    this.#pool = new GroupPool(mode, parts, state);
  }

  async take(step: number) {
    this.#parts.begin?.(step);
    await collect(this.#pool, this.#parts, step);
    return takeAll(this.#pool);
  }

  async settle() {}
  async renew() {}
  state = () => this.#pool.state();
  close = () => this.#pool.close();
}

/**
 * Rolls out until a step's groups are in the pool and done. With dynamic sampling (DAPO), groups in which every attempt
 * got the same teach nothing and are replaced by those of further tasks, up to a limit of rounds.
 */
export async function collect<T>(pool: GroupPool<T>, parts: ScheduleParts<T>, step: number): Promise<void> {
  const { tasksPerStep, keep, maxRefills = Number.POSITIVE_INFINITY } = parts;
  for (let round = 0; ; round++) {
    pool.admit(tasksPerStep - pool.size, step);
    while (pool.running.length > 0) await pool.changed();
    pool.throwIfFailed();
    const fresh = pool.finished.filter(({ judged }) => !judged).sort((a, b) => a.order - b.order);
    const groups =
      (await parts.scoreBatch?.(fresh.map(({ group }) => group))) ?? fresh.map(({ group }) => group);
    for (const [at, ticket] of fresh.entries()) {
      const scored = { ...ticket, group: groups[at]!, judged: true };
      pool.replace(scored);
      if (keep && !keep(scored.group)) pool.evict(scored);
    }
    if (pool.size >= tasksPerStep || round >= maxRefills) return;
  }
}

export function takeAll<T>(pool: GroupPool<T>): { groups: Group<T>[]; metrics: Metrics } {
  const groups = pool.remove(pool.finished).map(({ group }) => group);
  return { groups, metrics: pool.takeEvicted() };
}
