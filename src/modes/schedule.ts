/**
 * Which groups are rolled out when, and which of them a step trains on. The loop in train.ts asks for one step's groups
 * at a time; each mode answers in its own file. Nothing here knows engines, agents or files: what it needs is passed in.
 */
import type { Group, Metrics } from '../types.ts';
import { Continuous } from './continuous.ts';
import type { Mode } from './mode.ts';
import { OneStepOff } from './one-step-off.ts';
import { Race } from './race.ts';
import { Synchronous } from './synchronous.ts';

/** A group on its way. It is rolled out again with the same coordinates when a run is resumed. */
export interface Ticket {
  /** How many groups were admitted before. */
  readonly order: number;
  /** Of the task, in its dataset. */
  readonly place: number;
  /** In ids and seeds of its attempts. */
  readonly step: number;
  /** Of the weights when it was admitted. */
  readonly version: number;
  /** Number of its first attempt; above 0 if the same task comes twice in a step. */
  readonly firstAttempt: number;
  /** Attempts to start. */
  readonly attempts: number;
}

export interface FinishedTicket<T> extends Ticket {
  readonly group: Group<T>;
  /** It has been judged worth training on. */
  readonly judged?: boolean;
}

export interface GroupRequest<T> extends Omit<Ticket, 'order' | 'place' | 'version'> {
  readonly index: number;
  readonly task: T;
  /** Attempts of the group: the first to end without failing; the rest is cancelled. */
  readonly wanted: number;
  /** Ends the attempts as cancelled. */
  readonly signal: AbortSignal;
}

export interface ScheduleParts<T> {
  readonly tasksPerStep: number;
  readonly attemptsPerTask: number;
  /** The last step there will be. */
  readonly steps: number;
  /** Of the weights that are trained next. */
  version(): number;
  /** Places of the next tasks in their dataset. Synchronous, so that a checkpoint sees all of an admission or none. */
  nextPlaces(count: number): readonly number[];
  taskAt(place: number): Promise<{ readonly index: number; readonly task: T }>;
  /** Rejects if the run must stop. A failed attempt is data, and resolves. */
  rollOut(request: GroupRequest<T>): Promise<Group<T>>;
  /** Rewards that see all groups of a step. */
  scoreBatch?(groups: readonly Group<T>[]): Promise<readonly Group<T>[]>;
  /** Dynamic sampling: whether a group can teach. One that cannot is replaced. */
  keep?(group: Group<T>): boolean;
  /** Rounds of replacement before a step goes on with what it has; absent: no limit. */
  readonly maxRefills?: number;
  /** Servers stop in the middle of replies, which go on when they resume: for partial. */
  pause?(): Promise<void>;
  resume?(): Promise<void>;
  /** A step's groups are asked for. */
  begin?(step: number): void;
  readonly signal?: AbortSignal;
}

/** What a checkpoint must hold so that no group is lost and none comes twice. */
export interface ScheduleState<T> {
  readonly of: ScheduleSetting;
  /** Groups ever admitted, and how many of them were left out for want of spread. */
  readonly admitted: number;
  readonly leftOut: number;
  readonly running: readonly Ticket[];
  readonly finished: readonly FinishedTicket<T>[];
  /** Places of tasks that go before new ones. */
  readonly waiting: readonly number[];
  /** Places of tasks put off to a long round. */
  readonly putOff: readonly number[];
  /** Of those left out, since the last step. */
  readonly evicted: Evicted;
}

/** Groups in progress are of use only to a schedule of the same setting. */
export interface ScheduleSetting {
  readonly mode: Mode;
  readonly tasksPerStep: number;
  readonly attemptsPerTask: number;
}

export interface Evicted {
  readonly groups: number;
  readonly tokens: number;
}

export interface GroupSource<T> {
  /** The groups that step trains on, in the order in which they were admitted. */
  take(step: number): Promise<{ readonly groups: readonly Group<T>[]; readonly metrics: Metrics }>;
  /** Called when the trainer is done, before new weights are sent: resolves when that suits. */
  settle(): Promise<void>;
  /** Called when the servers have new weights. */
  renew(): Promise<void>;
  /** As of now; what `take` has handed out is no longer in it. */
  state(): ScheduleState<T>;
  /** Cancels what runs, and waits for it to end. */
  close(): Promise<void>;
}

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
