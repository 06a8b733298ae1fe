import { Continuous } from './continuous.ts';
import type { GroupSource, ScheduleParts, ScheduleState } from './group-source.ts';
import type { Mode } from './mode.ts';
import { OneStepOff } from './one-step-off.ts';
import { Race } from './race.ts';
import { Synchronous } from './synchronous.ts';

/** The source of groups of a mode. `saved` is what a checkpoint of the run holds. */
export function schedule<T>(mode: Mode, parts: ScheduleParts<T>, saved?: ScheduleState<T>): GroupSource<T> {
  const state = saved && carriedOver(saved, mode, parts);
  switch (mode.kind) {
    case 'synchronous':
      return new Synchronous(mode, parts, state);
    case 'one-step-off':
      return new OneStepOff(mode, parts, state);
    case 'asynchronous':
    case 'partial':
      return new Continuous(mode, parts, state);
    case 'over-sample':
    case 'tail-rounds':
      return new Race(mode, parts, state);
  }
}

/** A run resumed in another mode, or with other numbers, begins the groups in progress again: no task is lost. */
function carriedOver<T>(state: ScheduleState<T>, mode: Mode, parts: ScheduleParts<T>): ScheduleState<T> {
  const { tasksPerStep, attemptsPerTask } = parts;
  const isSame =
    state.of.tasksPerStep === tasksPerStep &&
    state.of.attemptsPerTask === attemptsPerTask &&
    (Object.keys(mode) as (keyof Mode)[]).every((name) => state.of.mode[name] === mode[name]);
  if (isSame) return state;
  const inProgress = [...state.running, ...state.finished].sort((one, other) => one.order - other.order);
  return {
    of: { mode, tasksPerStep, attemptsPerTask },
    admitted: parts.version() * tasksPerStep,
    leftOut: 0,
    running: [],
    finished: [],
    waiting: [...inProgress.map(({ place }) => place), ...state.waiting, ...state.putOff],
    putOff: [],
    evicted: { groups: 0, tokens: 0 },
  };
}
