import { type Clock, realClock, sleep } from '../../lib/clock.ts';
import { withoutSecrets } from '../../lib/secrets.ts';
import { withTimeLimit } from '../../lib/time-limit.ts';
import type { Scored } from '../../types.ts';
import { type TrackedLine, type TrackedRun, type Tracker, TrackerRefusal } from '../tracker.ts';
import { someTasks } from './some-tasks.ts';
import { troubleOf } from './trouble.ts';

/** Each with its reason; a test passes shorter ones. */
export const TRACKING_LIMITS = {
  /** A server that has not answered by then has hung. */
  callMs: 30_000,
  /** Waits between tries double from the first to the last. */
  firstWaitMs: 1_000,
  longestWaitMs: 60_000,
  /** The end of a run does not wait longer than this for its trackers, all together. */
  closeMs: 20_000,
  /** Some 50 MB of numbers: a tracker may be gone for a day. The oldest go first. */
  queuedLines: 10_000,
  /** Trajectories are large; more than these are not kept for a tracker that is behind. */
  queuedTrajectories: 4_096,
  linesPerCall: 200,
  /** Trajectories sent in one request. */
  trajectoriesPerCall: 32,
};

/** Tries of a tracker that fails when the run closes. */
const LAST_TRIES = 2;

/** The trackers of a run. `log` and `trace` return at once, whatever the trackers do. */
export interface Tracking {
  log(line: TrackedLine): void;
  trace(trajectories: readonly Scored[]): void;
  /** Sentences for the user that were not taken yet; a tracker says at most one. */
  takeNotices(): string[];
  /** Waits, within a limit, for what is queued. */
  close(end: 'finished' | 'stopped'): Promise<void>;
}

export function startTracking(
  trackers: readonly Tracker[],
  run: TrackedRun,
  { limits = TRACKING_LIMITS, clock = realClock() }: { limits?: typeof TRACKING_LIMITS; clock?: Clock } = {},
): Tracking {
  const notices: string[] = [];
  const deliveries = trackers.map(
    (tracker) => new Delivery(tracker, run, limits, clock, (notice) => notices.push(notice)),
  );
  return {
    log: (line) => {
      for (const delivery of deliveries) delivery.log(line);
    },
    trace: (trajectories) => {
      if (deliveries.length === 0) return;
      // What the model read and wrote holds none; the task's own fields may.
      const shown = trajectories.map((scored) => {
        const { trajectory } = scored;
        return { ...scored, trajectory: { ...trajectory, task: withoutSecrets(trajectory.task) } };
      });
      for (const delivery of deliveries) delivery.trace(shown);
    },
    takeNotices: () => notices.splice(0),
    close: async (end) => {
      await Promise.all(deliveries.map((delivery) => delivery.close(end)));
    },
  };
}

/** One tracker's queue, and the loop that empties it. */
class Delivery {
  readonly #tracker: Tracker;
  readonly #run: TrackedRun;
  readonly #limits: typeof TRACKING_LIMITS;
  readonly #clock: Clock;
  readonly #notify: (notice: string) => void;
  readonly #lines: TrackedLine[] = [];
  readonly #trajectories: Scored[] = [];
  readonly #abort = new AbortController();
  /** Aborted when the run closes: no more waiting between tries. */
  readonly #hurry = new AbortController();
  readonly #loop: Promise<void>;
  #wake: () => void = () => {};
  #opened = false;
  #notified = false;

  constructor(
    tracker: Tracker,
    run: TrackedRun,
    limits: typeof TRACKING_LIMITS,
    clock: Clock,
    notify: (notice: string) => void,
  ) {
    this.#tracker = tracker;
    this.#run = run;
    this.#limits = limits;
    this.#clock = clock;
    this.#notify = notify;
    this.#loop = this.#deliver();
  }

  log(line: TrackedLine): void {
    if (this.#tracker.log === undefined) return;
    this.#lines.push(line);
    if (this.#lines.length > this.#limits.queuedLines) this.#lines.shift();
    this.#wake();
  }

  trace(trajectories: readonly Scored[]): void {
    if (this.#tracker.trace === undefined) return;
    this.#trajectories.push(
      ...someTasks(trajectories, ({ trajectory }) => trajectory, this.#tracker.tracedTasksPerStep),
    );
    const over = this.#trajectories.length - this.#limits.queuedTrajectories;
    if (over > 0) {
      this.#trajectories.splice(0, over);
      this.#say(`is behind; the oldest ${over} traces were left out`);
    }
    this.#wake();
  }

  async close(end: 'finished' | 'stopped'): Promise<void> {
    this.#hurry.abort();
    this.#wake();
    try {
      await withTimeLimit(
        async () => {
          await this.#loop;
          if (this.#opened) await this.#tracker.close?.(end, this.#abort.signal);
        },
        { milliseconds: this.#tracker.patienceMs ?? this.#limits.closeMs, clock: this.#clock },
      );
    } catch (error) {
      this.#say(troubleOf(error));
    } finally {
      this.#abort.abort(new Error('the run is over'));
    }
  }

  async #deliver(): Promise<void> {
    let wait = this.#limits.firstWaitMs;
    let triesAtTheEnd = LAST_TRIES;
    while (!this.#abort.signal.aborted) {
      try {
        if (!this.#opened) await this.#open();
        else if (this.#lines.length > 0) await this.#sendLines();
        else if (this.#trajectories.length > 0) await this.#sendTrajectories();
        else if (this.#hurry.signal.aborted) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
        wait = this.#limits.firstWaitMs;
      } catch (error) {
        this.#say(troubleOf(error));
        if (this.#hurry.signal.aborted && --triesAtTheEnd < 0) return;
        await sleep(this.#clock, wait, this.#hurry.signal).catch(() => {});
        wait = Math.min(2 * wait, this.#limits.longestWaitMs);
      }
    }
  }

  async #open(): Promise<void> {
    await this.#call(async (signal) => this.#tracker.open?.(this.#run, signal));
    this.#opened = true;
  }

  async #sendLines(): Promise<void> {
    const lines = this.#lines.slice(0, this.#limits.linesPerCall);
    await this.#callOrDrop((signal) => this.#tracker.log!(lines, signal));
    // By identity: the oldest may have been dropped meanwhile.
    const sent = this.#lines.indexOf(lines.at(-1)!) + 1;
    this.#lines.splice(0, sent);
  }

  async #sendTrajectories(): Promise<void> {
    const some = this.#trajectories.slice(0, this.#limits.trajectoriesPerCall);
    await this.#callOrDrop((signal) => this.#tracker.trace!(some, signal));
    const sent = this.#trajectories.indexOf(some.at(-1)!) + 1;
    this.#trajectories.splice(0, sent);
  }

  /** What a tracker refuses for good must not hold up what follows. */
  async #callOrDrop(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    try {
      await this.#call(work);
    } catch (error) {
      if (!(error instanceof TrackerRefusal)) throw error;
      this.#say(troubleOf(error));
    }
  }

  #call(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const callMs = this.#tracker.patienceMs ?? this.#limits.callMs;
    return withTimeLimit(work, { milliseconds: callMs, clock: this.#clock, signal: this.#abort.signal });
  }

  /** Only the first problem is reported; later ones would only repeat it. */
  #say(trouble: string): void {
    if (this.#notified || this.#abort.signal.aborted) return;
    this.#notified = true;
    const { name, exportHint } = this.#tracker;
    this.#notify(
      `The tracker ${name} ${trouble}. Training goes on and the run directory has everything; it is tried again` +
        `${exportHint === undefined ? '' : `, and what it misses can be sent later: ${exportHint}`}.`,
    );
  }
}
