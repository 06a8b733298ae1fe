import { AdmittedGroups } from './admitted-groups.ts';
import type {
  AdmittedGroup,
  FinishedGroup,
  GroupSource,
  ScheduleParts,
  ScheduleState,
} from './group-source.ts';
import type { Mode } from './mode.ts';

/**
 * Over-sampling and tail rounds: more is started than a step needs, the first groups to end are trained on, and the
 * rest is cancelled. Its tasks are not lost: they go before new ones in the next step (over-sample), or wait until there
 * are enough for a long round, which starts only as many as it needs and waits for all of them (tail-rounds: RollPacker,
 * 2509.21009). Everything is sampled by the weights it trains.
 */
export class Race<T> implements GroupSource<T> {
  readonly #mode: Mode;
  readonly #parts: ScheduleParts<T>;
  readonly #groups: AdmittedGroups<T>;
  #putOff: number[];

  constructor(mode: Mode, parts: ScheduleParts<T>, state: ScheduleState<T> | undefined) {
    this.#mode = mode;
    this.#parts = parts;
    this.#putOff = [...(state?.putOff ?? [])];
    this.#groups = new AdmittedGroups(mode, parts, state, (finished) => this.#judge(finished));
  }

  async take(step: number) {
    const { rollout, tasksPerStep, attemptsPerTask, dynamicSampling } = this.#parts;
    const { extraTasks, extraAttempts } = this.#mode;
    const mostEvicted = (dynamicSampling?.maxRefills ?? 0) * tasksPerStep;
    rollout.begin(step, (tasksPerStep + extraTasks) * (attemptsPerTask + extraAttempts));
    const isLong = this.#groups.size === 0 && this.#putOff.length >= tasksPerStep;
    if (isLong) this.#groups.admitPlaces(this.#putOff.splice(0, tasksPerStep), step);
    else
      this.#groups.admit(
        tasksPerStep + extraTasks - this.#groups.size,
        step,
        attemptsPerTask + extraAttempts,
      );
    while (this.#groups.finished.length < tasksPerStep) {
      if (this.#groups.evicted.groups <= mostEvicted)
        this.#groups.admit(tasksPerStep - this.#groups.size, step);
      else if (this.#groups.running.length === 0) break;
      await this.#groups.changed();
    }
    this.#groups.throwIfFailed();
    const winners = this.#groups.remove(this.#groups.finished.slice(0, tasksPerStep));
    const losers = this.#cancelRest();
    return {
      groups: await rollout.scoreBatch(winners.map(({ group }) => group)),
      metrics: {
        ...this.#groups.takeEvicted(),
        'rollout/groups_cancelled': losers.length,
        'rollout/attempts_cancelled': winners.reduce(
          (sum, { attempts, group }) => sum + attempts - group.attempts.length,
          0,
        ),
        ...(this.#mode.kind === 'tail-rounds'
          ? { 'rollout/long_round': isLong ? 1 : 0, 'rollout/tasks_put_off': this.#putOff.length }
          : {}),
      },
    };
  }

  async settle() {}
  async renew() {}
  state = () => ({ ...this.#groups.state(), putOff: [...this.#putOff] });
  close = () => this.#groups.close();

  /** Those that ended with the last winner are surplus: on-policy no more after this step. */
  #cancelRest(): AdmittedGroup[] {
    const losers = [
      ...this.#groups.remove(this.#groups.finished),
      ...this.#groups.cancelAll('enough groups of this step are done'),
    ].sort((one, other) => one.order - other.order);
    const places = losers.map(({ place }) => place);
    if (this.#mode.kind === 'tail-rounds') this.#putOff.push(...places);
    else this.#groups.putFirst(places);
    return losers;
  }

  #judge(finished: FinishedGroup<T>): void {
    const { dynamicSampling } = this.#parts;
    if (dynamicSampling && !dynamicSampling.keep(finished.group)) this.#groups.evict(finished);
  }
}
