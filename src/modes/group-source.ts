/**
 * The port of the modes: which groups are rolled out when, and which of them a step trains on. The loop in train.ts asks
 * for one step's groups at a time; each mode answers in its own file. Nothing here knows engines, agents or files: what
 * a mode needs is passed in.
 */
import type { InferenceServer } from '../inference/server.ts';
import type { Group, Metrics } from '../types.ts';
import type { Mode } from './mode.ts';

/** Where a step takes its groups from; each mode is one. */
export interface GroupSource<T> {
  /** The groups that the step trains on, in the order in which they were admitted. */
  take(step: number): Promise<{ readonly groups: readonly Group<T>[]; readonly metrics: Metrics }>;
  /** Called when the trainer is done, before new weights are sent. Resolves when they may be sent. */
  settle(): Promise<void>;
  /** Called when the servers have new weights. */
  renew(): Promise<void>;
  /** What is in progress now. Groups that `take` has handed out are no longer in it. */
  state(): ScheduleState<T>;
  /** Cancels the groups in progress, and waits for them to end. */
  close(): Promise<void>;
}

/** Rolls out groups. */
export interface GroupRollout<T> {
  /** A step begins, which is going to start at least this number of attempts. */
  begin(step: number, attempts: number): void;
  /** Rejects if the run must stop. A failed attempt is data, and resolves. */
  group(request: GroupRequest<T>): Promise<Group<T>>;
  /** Adds the rewards that see all groups of a step. */
  scoreBatch(groups: readonly Group<T>[]): Promise<readonly Group<T>[]>;
}

/** What a mode is wired to: tasks, rollouts and versions. */
export interface ScheduleParts<T> {
  readonly tasksPerStep: number;
  readonly attemptsPerTask: number;
  /** Number of the last step. */
  readonly steps: number;
  /** Version of the weights that are trained next. */
  version(): number;
  readonly tasks: TaskOrder<T>;
  readonly rollout: GroupRollout<T>;
  readonly dynamicSampling?: KeepRule<T> | undefined;
  /** Pausing stops servers in the middle of replies, which continue when they resume. Only the mode partial pauses. */
  readonly servers?: Pick<InferenceServer, 'pause' | 'resume'> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The tasks in the order in which they are rolled out. */
export interface TaskOrder<T> {
  /** Places of the next tasks in their dataset. Synchronous, so that a checkpoint sees all of an admission or none. */
  next(count: number): readonly number[];
  at(place: number): Promise<{ readonly index: number; readonly task: T }>;
}

/** Dynamic sampling: a group that cannot teach is replaced by the group of another task. */
export interface KeepRule<T> {
  keep(group: Group<T>): boolean;
  /** Rounds of replacement before a step continues with the groups it has; Infinity: no limit. */
  readonly maxRefills: number;
}

/** A group that is rolled out. It is rolled out again with the same coordinates when a run is resumed. */
export interface AdmittedGroup {
  /** How many groups were admitted before. */
  readonly order: number;
  /** Place of the task in its dataset. */
  readonly place: number;
  /** Part of the ids and seeds of its attempts. */
  readonly step: number;
  /** Version of the weights when it was admitted. */
  readonly version: number;
  /** Number of its first attempt; above 0 if the same task comes twice in a step. */
  readonly firstAttempt: number;
  /** Attempts to start. */
  readonly attempts: number;
}

export interface FinishedGroup<T> extends AdmittedGroup {
  readonly group: Group<T>;
  /** It has been judged worth training on. */
  readonly judged?: boolean;
}

/** One group to roll out: its task, how many attempts are wanted, and what cancels it. */
export interface GroupRequest<T> extends Omit<AdmittedGroup, 'order' | 'place' | 'version'> {
  readonly index: number;
  readonly task: T;
  /** Attempts of the group: the first to end without failing. The others are cancelled. */
  readonly wanted: number;
  /** Ends the attempts as cancelled. */
  readonly signal: AbortSignal;
}

/** What a checkpoint must hold so that no group is lost and none comes twice. */
export interface ScheduleState<T> {
  readonly of: ScheduleSetting;
  /** Groups ever admitted, and how many of them were left out because all attempts got the same reward. */
  readonly admitted: number;
  readonly leftOut: number;
  readonly running: readonly AdmittedGroup[];
  readonly finished: readonly FinishedGroup<T>[];
  /** Places of tasks that go before new ones. */
  readonly waiting: readonly number[];
  /** Places of tasks put off to a long round. */
  readonly putOff: readonly number[];
  /** Groups left out since the last step. */
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
