import type { Group, Metrics } from '../types.ts';
import type { AdmittedGroup, Evicted, FinishedGroup, ScheduleParts, ScheduleState } from './group-source.ts';
import type { Mode } from './mode.ts';

interface RunningGroup {
  readonly admitted: AdmittedGroup;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
}

/**
 * The groups of a run that were admitted and not yet trained on: those in progress and those that are done. It changes
 * only synchronously, so its state is whole at any moment.
 */
export class AdmittedGroups<T> {
  readonly #mode: Mode;
  readonly #parts: ScheduleParts<T>;
  readonly #running = new Map<number, RunningGroup>();
  readonly #cancelled = new Set<Promise<void>>();
  #finished: FinishedGroup<T>[] = [];
  /** Attempts numbered so far in `#step`, by place. */
  readonly #numbered = new Map<number, number>();
  #step = 0;
  #waiting: number[] = [];
  #admitted = 0;
  #leftOut = 0;
  #evicted: Evicted = NONE;
  #error: { readonly cause: unknown } | undefined;
  #wake: (() => void)[] = [];
  readonly #onFinished: (finished: FinishedGroup<T>) => void;

  constructor(
    mode: Mode,
    parts: ScheduleParts<T>,
    state: ScheduleState<T> | undefined,
    onFinished: (finished: FinishedGroup<T>) => void = () => {},
  ) {
    this.#mode = mode;
    this.#parts = parts;
    this.#onFinished = onFinished;
    if (!state) return;
    this.#admitted = state.admitted;
    this.#leftOut = state.leftOut;
    this.#finished = [...state.finished];
    this.#waiting = [...state.waiting];
    this.#evicted = state.evicted;
    for (const { step, place, firstAttempt, attempts } of [...state.running, ...state.finished]) {
      this.#number(step, place, Math.max(0, firstAttempt + attempts - this.#number(step, place, 0)));
    }
    for (const admitted of state.running) this.#start(admitted);
  }

  /** In the order in which they ended. */
  get finished(): readonly FinishedGroup<T>[] {
    return this.#finished;
  }

  get running(): readonly AdmittedGroup[] {
    return [...this.#running.values()].map(({ admitted }) => admitted);
  }

  get size(): number {
    return this.#running.size + this.#finished.length;
  }

  /** How many groups were ever admitted, those left out aside. */
  get admitted(): number {
    return this.#admitted - this.#leftOut;
  }

  /** Groups left out since the last step. */
  get evicted(): Evicted {
    return this.#evicted;
  }

  /** Starts groups of the next tasks; those that wait to begin again go first. */
  admit(count: number, step: number, attempts = this.#parts.attemptsPerTask): void {
    if (count <= 0 || this.#error) return; // a run that must stop starts nothing more
    const again = this.#waiting.splice(0, count);
    this.admitPlaces([...again, ...this.#parts.tasks.next(count - again.length)], step, attempts);
  }

  admitPlaces(places: readonly number[], step: number, attempts = this.#parts.attemptsPerTask): void {
    const version = this.#parts.version();
    for (const place of places) {
      const firstAttempt = this.#number(step, place, attempts);
      this.#start({ order: this.#admitted++, place, step, version, firstAttempt, attempts });
    }
  }

  /** Takes finished groups out, in the order in which they were admitted. */
  remove(groups: readonly FinishedGroup<T>[]): FinishedGroup<T>[] {
    const orders = new Set(groups.map(({ order }) => order));
    this.#finished = this.#finished.filter(({ order }) => !orders.has(order));
    return [...groups].sort((one, other) => one.order - other.order);
  }

  replace(finished: FinishedGroup<T>): void {
    this.#finished = this.#finished.map((one) => (one.order === finished.order ? finished : one));
  }

  /** Takes a group without spread out for good: as if it had not been admitted. */
  evict(finished: FinishedGroup<T>): void {
    this.remove([finished]);
    this.#leftOut++;
    const { groups, tokens } = this.#evicted;
    this.#evicted = { groups: groups + 1, tokens: tokens + tokensOf(finished.group) };
  }

  /** What was left out, as metrics; counted from 0 again. */
  takeEvicted(): Metrics {
    const { groups, tokens } = this.#evicted;
    this.#evicted = NONE;
    if (!this.#parts.dynamicSampling) return {};
    return {
      'training/filter_groups/evicted_samples': groups,
      'training/filter_groups/evicted_tokens': tokens,
    };
  }

  /** Ends all groups in progress, and says which they were. */
  cancelAll(why: string): AdmittedGroup[] {
    const cancelled = [...this.#running.values()];
    this.#running.clear();
    for (const { controller, ended } of cancelled) {
      controller.abort(why);
      this.#cancelled.add(ended);
      void ended.finally(() => this.#cancelled.delete(ended));
    }
    return cancelled.map(({ admitted }) => admitted);
  }

  /** Tasks that go before new ones, the first of them first. */
  putFirst(places: readonly number[]): void {
    this.#waiting.unshift(...places);
  }

  /** Resolves when a group has ended since the call. Throws what stops the run. */
  async changed(): Promise<void> {
    this.throwIfFailed();
    await new Promise<void>((resolve) => this.#wake.push(resolve));
    this.throwIfFailed();
  }

  throwIfFailed(): void {
    this.#parts.signal?.throwIfAborted();
    if (this.#error) throw this.#error.cause;
  }

  state(): ScheduleState<T> {
    const { tasksPerStep, attemptsPerTask } = this.#parts;
    return {
      of: { mode: this.#mode, tasksPerStep, attemptsPerTask },
      admitted: this.#admitted,
      leftOut: this.#leftOut,
      running: this.running,
      finished: [...this.#finished],
      waiting: [...this.#waiting],
      putOff: [],
      evicted: this.#evicted,
    };
  }

  async close(): Promise<void> {
    this.#error ??= { cause: new Error('the groups of this run were closed') };
    this.cancelAll('the run has ended');
    await Promise.allSettled(this.#cancelled);
  }

  /** Takes the next `count` numbers of attempts at a task in a step, and says the first: ids and seeds never repeat. */
  #number(step: number, place: number, count: number): number {
    if (step > this.#step) {
      this.#step = step;
      this.#numbered.clear();
    }
    if (step < this.#step) return 0; // no group of an earlier step is admitted any more
    const first = this.#numbered.get(place) ?? 0;
    this.#numbered.set(place, first + count);
    return first;
  }

  #start(admitted: AdmittedGroup): void {
    const { order } = admitted;
    const controller = new AbortController();
    const ended = this.#rollOut(admitted, controller.signal)
      .then(
        (group) => {
          if (!this.#running.delete(order)) return;
          const finished = { ...admitted, group };
          this.#finished.push(finished);
          this.#onFinished(finished);
        },
        (cause: unknown) => {
          if (this.#running.delete(order)) this.#error ??= { cause };
        },
      )
      .catch((cause: unknown) => {
        this.#error ??= { cause };
      })
      .finally(() => {
        const waiting = this.#wake;
        this.#wake = [];
        for (const resolve of waiting) resolve();
      });
    this.#running.set(order, { admitted, controller, ended });
  }

  async #rollOut(admitted: AdmittedGroup, signal: AbortSignal): Promise<Group<T>> {
    const { attemptsPerTask, tasks, rollout } = this.#parts;
    const { place, step, firstAttempt, attempts } = admitted;
    const { index, task } = await tasks.at(place);
    return rollout.group({ index, task, step, firstAttempt, attempts, wanted: attemptsPerTask, signal });
  }
}

const NONE: Evicted = { groups: 0, tokens: 0 };

const tokensOf = <T>({ attempts }: Group<T>) =>
  attempts.reduce(
    (sum, { trajectory }) => trajectory.segments.reduce((tokens, { ids }) => tokens + ids.length, sum),
    0,
  );
