import type { Metrics, Scored } from '../types.ts';

/**
 * A tracker is told of a run: its numbers step by step, its trajectories as traces, or both. It may throw, hang or be
 * gone: `startTracking` calls it beside the run, one call at a time, with a time limit, and again after a failure. So
 * a call may come twice with the same lines, and an implementation must not count them twice.
 */
export interface Tracker {
  /** As in `loggers`, and in what is said about it. */
  readonly name: string;
  /** What sends the run later, if this tracker misses some of it. */
  readonly exportHint?: string;
  /** Before anything else; again until it succeeds. */
  open?(run: TrackedRun, signal: AbortSignal): Promise<void>;
  /** Lines in order of step. */
  log?(lines: readonly TrackedLine[], signal: AbortSignal): Promise<void>;
  /** All attempts at so many tasks of a step and of each validation set, chosen at random; absent: all tasks. */
  readonly tracedTasksPerStep?: number | undefined;
  trace?(trajectories: readonly Scored[], signal: AbortSignal): Promise<void>;
  /** After the last line. `stopped` can be resumed. */
  close?(end: 'finished' | 'stopped', signal: AbortSignal): Promise<void>;
}

/** The run as a tracker needs to know it. */
export interface TrackedRun {
  readonly directory: string;
  /** What `options.json` holds. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The last step before this start, if the run was resumed. */
  readonly resumedAt: number | undefined;
  /** Milliseconds since 1970 at which the clock of the trajectories' spans began. */
  readonly clockBegan: number;
  readonly decode: (ids: Int32Array) => string;
  /** What a tracker wants to find again when the run is resumed or exported: the id it was given, for one. */
  readonly memory: TrackerMemory;
}

/** What a tracker keeps between a run and its resumption. */
export interface TrackerMemory {
  read(key: string): Promise<Readonly<Record<string, string>> | undefined>;
  write(key: string, value: Readonly<Record<string, string>>): Promise<void>;
}

/** The metrics of one step, as a tracker gets them. */
export interface TrackedLine {
  readonly step: number;
  /** Since the run's first start. */
  readonly seconds: number;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly metrics: Metrics;
}

/** What a tracker refuses for good: sending it again would not help. */
export class TrackerRefusal extends Error {
  override readonly name = 'TrackerRefusal';
}
