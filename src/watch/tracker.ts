import type { Metrics, Scored } from '../types.ts';

/**
 * A tracker receives a run: its metrics step by step, its trajectories as traces, or both. It may throw, hang or be
 * gone: `startTracking` calls it beside the run, one call at a time, with a time limit, and again after a failure. So
 * a call may come twice with the same lines, and an implementation must not count them twice.
 */
export interface Tracker {
  /** The tracker's name in `loggers` and in notices. */
  readonly name: string;
  /** What the user should know before the run: this tracker is experimental, and why. */
  readonly experimental?: string;
  /** The command that sends the run later, if this tracker misses some of it. */
  readonly exportHint?: string;
  /** How long a call, and the end of a run, may wait for it, where it has to start a program first. */
  readonly patienceMs?: number | undefined;
  /** Called before anything else, and again until it succeeds. */
  open?(run: TrackedRun, signal: AbortSignal): Promise<void>;
  /** Sends lines of metrics, in order of step. */
  log?(lines: readonly TrackedLine[], signal: AbortSignal): Promise<void>;
  /** Trace all attempts at this many tasks of a step and of each validation set, chosen at random; absent: all tasks. */
  readonly tracedTasksPerStep?: number | undefined;
  trace?(trajectories: readonly Scored[], signal: AbortSignal): Promise<void>;
  /** Called after the last line. A run that was `stopped` can be resumed. */
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
  /** What a tracker needs again when the run is resumed or exported, such as the id it was given. */
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
  /** Seconds since the run's first start. */
  readonly seconds: number;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly metrics: Metrics;
  /** What the model saw in the first trajectory of the step. */
  readonly images?: readonly TrackedImage[];
  /** The first trajectory of the step, decoded from its tokens, for trackers that show it (verl: token2text). */
  readonly text?: string;
}

/** An image of a step, for trackers that show some. */
export interface TrackedImage {
  /** `images/1` and so on: the same place of every step. */
  readonly name: string;
  readonly caption: string;
  /** Hash of its bytes. */
  readonly blob: string;
  readonly width: number;
  readonly height: number;
  /** Its bytes as PNG; undefined for what cannot be shown so. */
  png(): Promise<Uint8Array | undefined>;
}

/** What a tracker refuses for good: sending it again would not help. */
export class TrackerRefusal extends Error {
  override readonly name = 'TrackerRefusal';
}
