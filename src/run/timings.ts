import type { Activity } from '../lib/activity.ts';
import type { Clock } from '../lib/clock.ts';
import type { Metrics } from '../types.ts';

/** How long a run and the parts of its steps take. */
export class Timings {
  readonly #clock: Clock;
  readonly #activity: Activity;
  readonly #secondsBefore: number;
  #parts: Metrics = {};
  #stepBegan: number;

  /** `secondsBefore`: what the run had taken when it was last stopped. */
  constructor(clock: Clock, secondsBefore: number, activity: Activity) {
    this.#clock = clock;
    this.#activity = activity;
    this.#secondsBefore = secondsBefore;
    this.#stepBegan = clock.now();
  }

  /** Since the run's first start; pauses between a stop and its resume are not counted. */
  get seconds(): number {
    return this.#secondsBefore + this.#clock.now() / 1000;
  }

  /** Times a part of the step, as `timing_s/NAME`. */
  async time<R>(name: string, work: () => Promise<R>): Promise<R> {
    const began = this.#clock.now();
    try {
      return await this.#activity.during({ stage: 'step', name }, work);
    } finally {
      const metric = `timing_s/${name}`;
      this.#parts[metric] = (this.#parts[metric] ?? 0) + (this.#clock.now() - began) / 1000;
    }
  }

  /** Ends a step: its parts and its whole, in seconds. What follows counts in the next step. */
  endStep(): { readonly metrics: Metrics; readonly stepSeconds: number } {
    const stepSeconds = (this.#clock.now() - this.#stepBegan) / 1000;
    const metrics = { ...this.#parts, 'timing_s/step': stepSeconds, 'perf/time_per_step': stepSeconds };
    this.#parts = {};
    this.#stepBegan = this.#clock.now();
    return { metrics, stepSeconds };
  }
}
