import { GroupPool } from './group-pool.ts';
import type { Mode } from './mode.ts';
import { offPolicyMetrics } from './off-policy-metrics.ts';
import type { GroupSource, ScheduleParts, ScheduleState } from './schedule.ts';
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
  readonly #pool: GroupPool<T>;
  /** The next step's groups. */
  #ahead: Promise<void> | undefined;

  constructor(mode: Mode, parts: ScheduleParts<T>, state: ScheduleState<T> | undefined) {
    this.#parts = parts;
    this.#pool = new GroupPool(mode, parts, state);
  }

  async take(step: number) {
    const { begin, version, steps } = this.#parts;
    if (!this.#ahead) {
      begin?.(step);
      this.#ahead = collect(this.#pool, this.#parts, step);
    }
    await this.#ahead;
    const { groups, metrics } = takeAll(this.#pool);
    this.#ahead = undefined;
    if (step < steps) {
      begin?.(step + 1);
      this.#ahead = collect(this.#pool, this.#parts, step + 1);
      this.#ahead.catch(() => {}); // thrown by the next `settle`
    }
    return { groups, metrics: { ...metrics, ...offPolicyMetrics(groups, version()) } };
  }

  async settle() {
    await this.#ahead;
  }

  async renew() {}
  state = () => this.#pool.state();
  close = () => this.#pool.close();
}
