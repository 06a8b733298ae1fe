import { GroupPool } from './group-pool.ts';
import type { Mode } from './mode.ts';
import type { FinishedTicket, GroupSource, ScheduleParts, ScheduleState, Ticket } from './schedule.ts';

/**
 * Over-sampling and tail rounds: more is started than a step needs, the first groups to end are trained on, and the
 * rest is cancelled. Its tasks are not lost: they go before new ones in the next step (over-sample), or wait until there
 * are enough for a long round, in which just so many are started and all are waited for (tail-rounds: RollPacker,
 * 2509.21009). Everything is sampled by the weights it trains.
 */
export class Race<T> implements GroupSource<T> {
  readonly #mode: Mode;
  readonly #parts: ScheduleParts<T>;
  readonly #pool: GroupPool<T>;
  #putOff: number[];

  constructor(mode: Mode, parts: ScheduleParts<T>, state: ScheduleState<T> | undefined) {
    this.#mode = mode;
    this.#parts = parts;
    this.#putOff = [...(state?.putOff ?? [])];
    this.#pool = new GroupPool(mode, parts, state, (ticket) => this.#judge(ticket));
  }

  async take(step: number) {
    const { begin, tasksPerStep, attemptsPerTask, scoreBatch } = this.#parts;
    const { maxRefills = Number.POSITIVE_INFINITY } = this.#parts;
    const { extraTasks, extraAttempts } = this.#mode;
    begin?.(step);
    const isLong = this.#pool.size === 0 && this.#putOff.length >= tasksPerStep;
    if (isLong) this.#pool.admitPlaces(this.#putOff.splice(0, tasksPerStep), step);
    else this.#pool.admit(tasksPerStep + extraTasks - this.#pool.size, step, attemptsPerTask + extraAttempts);
    while (this.#pool.finished.length < tasksPerStep) {
      const mayRefill = this.#pool.evicted.groups <= maxRefills * tasksPerStep;
      if (mayRefill) this.#pool.admit(tasksPerStep - this.#pool.size, step);
      else if (this.#pool.running.length === 0) break;
      await this.#pool.changed();
    }
    this.#pool.throwIfFailed();
    const winners = this.#pool.remove(this.#pool.finished.slice(0, tasksPerStep));
    const losers = this.#cancelRest();
    const plain = winners.map(({ group }) => group);
    return {
      groups: (await scoreBatch?.(plain)) ?? plain,
      metrics: {
        ...this.#pool.takeEvicted(),
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
  state = () => ({ ...this.#pool.state(), putOff: [...this.#putOff] });
  close = () => this.#pool.close();

  /** Those that ended with the last winner are surplus: on-policy no more after this step. */
  #cancelRest(): Ticket[] {
    const losers = [
      ...this.#pool.remove(this.#pool.finished),
      ...this.#pool.cancelAll('enough groups of this step are done'),
    ].sort((one, other) => one.order - other.order);
    const places = losers.map(({ place }) => place);
    if (this.#mode.kind === 'tail-rounds') this.#putOff.push(...places);
    else this.#pool.putFirst(places);
    return losers;
  }

  #judge(ticket: FinishedTicket<T>): void {
    if (this.#parts.keep && !this.#parts.keep(ticket.group)) this.#pool.evict(ticket);
  }
}
