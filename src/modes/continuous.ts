import { AdmittedGroups } from './admitted-groups.ts';
import { chooseGroups } from './choose-groups.ts';
import type { FinishedGroup, GroupSource, ScheduleParts, ScheduleState } from './group-source.ts';
import type { Mode } from './mode.ts';
import { offPolicyMetrics } from './off-policy-metrics.ts';

/**
 * Asynchronous and partial: groups are admitted as far as staleness allows, a step takes those that are done, and what
 * is in progress continues with new weights.
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
  readonly #groups: AdmittedGroups<T>;
  #paused = false;

  constructor(mode: Mode, parts: ScheduleParts<T>, state: ScheduleState<T> | undefined) {
    this.#mode = mode;
    this.#parts = parts;
    this.#groups = new AdmittedGroups(mode, parts, state, (finished) => this.#judge(finished));
  }

  async take(step: number) {
    const { rollout, version, tasksPerStep, attemptsPerTask, servers } = this.#parts;
    const { staleness } = this.#mode;
    rollout.begin(step, tasksPerStep * attemptsPerTask);
    this.#admit();
    for (;;) {
      this.#groups.throwIfFailed();
      const rule = { version: version(), staleness, wanted: tasksPerStep };
      const chosen = chooseGroups(this.#groups.finished, this.#groups.running, rule);
      if (!chosen) {
        await this.#groups.changed();
        continue;
      }
      const taken = this.#groups.remove(chosen);
      const late = taken.find((group) => rule.version - group.version > staleness);
      if (late) {
        throw new Error(
          `a group admitted at version ${late.version} is trained at ${rule.version}, past a staleness of ${staleness}`,
        );
      }
      if (this.#mode.kind === 'partial') {
        this.#paused = true;
        await servers?.pause('abort');
      }
      const groups = await rollout.scoreBatch(taken.map(({ group }) => group));
      const ages = taken.map((group) => rule.version - group.version);
      return {
        groups,
        metrics: {
          ...this.#groups.takeEvicted(),
          ...offPolicyMetrics(groups, rule.version),
          'rollout/staleness/mean': ages.reduce((sum, age) => sum + age, 0) / Math.max(1, ages.length),
          'rollout/staleness/max': Math.max(0, ...ages),
          'rollout/groups_in_flight': this.#groups.running.length,
          'rollout/groups_ready': this.#groups.finished.length,
        },
      };
    }
  }

  /** The trainer is done. Servers answer again before they get weights, because a run asks them whether they have them. */
  async settle() {
    if (this.#paused) await this.#parts.servers?.resume();
    this.#paused = false;
  }

  async renew() {
    if (this.#mode.kind === 'asynchronous') this.#admit();
  }

  state = () => this.#groups.state();

  /** A step may have failed while the servers were paused; they may be gone, too. */
  async close() {
    await this.settle().catch(() => {});
    await this.#groups.close();
  }

  /** Admits as many groups as it may now. */
  #admit(): void {
    const { tasksPerStep, version, steps } = this.#parts;
    const { kind, staleness, extraTasks } = this.#mode;
    const held = this.#groups.size;
    const room = [
      (staleness + 1) * tasksPerStep - held,
      (steps - version()) * tasksPerStep - held, // what no step is left to train is not rolled out
      kind === 'partial'
        ? tasksPerStep + extraTasks - held
        : (staleness + version() + 1) * tasksPerStep - this.#groups.admitted,
    ];
    this.#groups.admit(Math.min(...room), version() + 1);
  }

  /** A group without spread is left out as soon as it ends, and another admitted. */
  #judge(finished: FinishedGroup<T>): void {
    const { dynamicSampling, tasksPerStep } = this.#parts;
    if (!dynamicSampling || dynamicSampling.keep(finished.group)) return;
    this.#groups.evict(finished);
    if (this.#groups.evicted.groups <= dynamicSampling.maxRefills * tasksPerStep) this.#admit();
  }
}
