import { AdmittedGroups } from './admitted-groups.ts';
import type { GroupSource, ScheduleParts, ScheduleState } from './group-source.ts';
import type { Mode } from './mode.ts';
import { offPolicyMetrics } from './off-policy-metrics.ts';
import { collect, takeAll } from './synchronous.ts';

/**
 * While a step is trained, the next one's groups are rolled out with the weights before the update. New weights wait
 * for them, so every group is of one version, and the same seed gives the same run.
 *
 *   servers  | groups 1 | groups 2, version 0 | groups 3, version 1 | …
 *   trainer             | step 1 → version 1  | step 2 → version 2  | …
 */
export class OneStepOff<T> implements GroupSource<T> {
  readonly #parts: ScheduleParts<T>;
  readonly #groups: AdmittedGroups<T>;
  /** Settles when the next step's groups are done. */
  #ahead: Promise<void> | undefined;

  constructor(mode: Mode, parts: ScheduleParts<T>, state: ScheduleState<T> | undefined) {
    this.#parts = parts;
    this.#groups = new AdmittedGroups(mode, parts, state);
  }

  async take(step: number) {
    const { version, steps } = this.#parts;
    this.#ahead ??= collect(this.#groups, this.#parts, step);
    await this.#ahead;
    const { groups, metrics } = takeAll(this.#groups);
    this.#ahead = undefined;
    if (step < steps) {
      this.#ahead = collect(this.#groups, this.#parts, step + 1);
      this.#ahead.catch(() => {}); // thrown by the next `settle`
    }
    return { groups, metrics: { ...metrics, ...offPolicyMetrics(groups, version()) } };
  }

  async settle() {
    await this.#ahead;
  }

  async renew() {}
  state = () => this.#groups.state();
  close = () => this.#groups.close();
}
