import type { Group } from '../types.ts';
import { chooseGroups } from './choose-groups.ts';
import { GroupPool } from './group-pool.ts';
import type { Mode } from './mode.ts';
import { offPolicyMetrics } from './off-policy-metrics.ts';
import type { FinishedTicket, GroupSource, ScheduleParts, ScheduleState } from './schedule.ts';

/**
 * Asynchronous and partial: groups are admitted as far as staleness allows, a step takes those that are done, and what
 * is in progress goes on with new weights.
 *
 * Admission is AReaL's (Fu et al. 2025, 2505.24298): with staleness η, version v and N groups a step, at most
 * (η + v + 1)·N groups were ever admitted, so nothing is sampled that could not be trained in time. A group admitted at
 * version a must be trained at version a + η at the latest: `take` waits for those that would be late afterwards.
 *
 * Partial holds `extraTasks` groups more than a step needs, and pauses the servers while the trainer works.
 */
export class Continuous<T> implements GroupSource<T> {
  readonly #mode: Mode;
  readonly #parts: ScheduleParts<T>;
  readonly #pool: GroupPool<T>;
  #paused = false;

  constructor(mode: Mode, parts: ScheduleParts<T>, state: ScheduleState<T> | undefined) {
    this.#mode = mode;
    this.#parts = parts;
    this.#pool = new GroupPool(mode, parts, state, (ticket) => this.#judge(ticket));
  }

  async take(step: number) {
    const { begin, version, tasksPerStep, scoreBatch, pause } = this.#parts;
    const { staleness } = this.#mode;
    begin?.(step);
    this.#admit();
    for (;;) {
      this.#pool.throwIfFailed();
      const rule = { version: version(), staleness, wanted: tasksPerStep };
      const chosen = chooseGroups(this.#pool.finished, this.#pool.running, rule);
      if (!chosen) {
        await this.#pool.changed();
        continue;
      }
      const taken = this.#pool.remove(chosen);
      const late = taken.find((ticket) => rule.version - ticket.version > staleness);
      if (late) {
        throw new Error(
          `a group admitted at version ${late.version} is trained at ${rule.version}, past a staleness of ${staleness}`,
        );
      }
      if (this.#mode.kind === 'partial') {
        this.#paused = true;
        await pause?.();
      }
      const plain = taken.map(({ group }) => group);
      const groups: readonly Group<T>[] = (await scoreBatch?.(plain)) ?? plain;
      const ages = taken.map((ticket) => rule.version - ticket.version);
      return {
        groups,
        metrics: {
          ...this.#pool.takeEvicted(),
          ...offPolicyMetrics(groups, rule.version),
          'rollout/staleness/mean': ages.reduce((sum, age) => sum + age, 0) / Math.max(1, ages.length),
          'rollout/staleness/max': Math.max(0, ...ages),
          'rollout/groups_in_flight': this.#pool.running.length,
          'rollout/groups_ready': this.#pool.finished.length,
        },
      };
    }
  }

  /** The trainer is done. Servers answer again before they get weights, because a run asks them whether they have them. */
  async settle() {
    if (this.#paused) await this.#parts.resume?.();
    this.#paused = false;
  }

  async renew() {
    if (this.#mode.kind === 'asynchronous') this.#admit();
  }

  state = () => this.#pool.state();

  /** A step may have failed while the servers were paused; they may be gone, too. */
  async close() {
    await this.settle().catch(() => {});
    await this.#pool.close();
  }

  /** As many groups as may be admitted now. */
  #admit(): void {
    const { tasksPerStep, version, steps } = this.#parts;
    const { kind, staleness, extraTasks } = this.#mode;
    const held = this.#pool.size;
    const room = [
      (staleness + 1) * tasksPerStep - held,
      (steps - version()) * tasksPerStep - held, // what no step is left to train is not rolled out
      kind === 'partial'
        ? tasksPerStep + extraTasks - held
        : (staleness + version() + 1) * tasksPerStep - this.#pool.admitted,
    ];
    this.#pool.admit(Math.min(...room), version() + 1);
  }

  /** A group without spread is left out as soon as it ends, and another admitted. */
  #judge(ticket: FinishedTicket<T>): void {
    const { keep, maxRefills = Number.POSITIVE_INFINITY, tasksPerStep } = this.#parts;
    if (!keep || keep(ticket.group)) return;
    this.#pool.evict(ticket);
    if (this.#pool.evicted.groups <= maxRefills * tasksPerStep) this.#admit();
  }
}
