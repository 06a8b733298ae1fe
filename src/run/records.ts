import type { ChatFormat } from '../chat/format.ts';
import type { Gateway } from '../gateway/gateway.ts';
import type { Activity } from '../lib/activity.ts';
import type { Clock } from '../lib/clock.ts';
import type { UpdateResult } from '../training/update-options.ts';
import type { Group, Metrics, Scored } from '../types.ts';
import { writeEvaluations } from '../watch/evaluation-store.ts';
import { watchMachine } from '../watch/machine-use.ts';
import { appendMetrics } from '../watch/run-directory.ts';
import { type RunEnd, writeRunEnd } from '../watch/run-end.ts';
import { describeActivity, writeStatus } from '../watch/run-status.ts';
import {
  type SampledServer,
  type ServerWatch,
  watchServers,
  writeServerSamples,
} from '../watch/server-samples.ts';
import { trackedImages } from '../watch/shown-images.ts';
import { trajectoryText } from '../watch/shown-text.ts';
import { appendChecksums } from '../watch/step-checksums.ts';
import type { Tracker } from '../watch/tracker.ts';
import { trackerMemory } from '../watch/trackers/memory.ts';
import { startTracking, type Tracking } from '../watch/trackers/tracking.ts';
import { writeTrajectories } from '../watch/trajectory-store.ts';

interface RecordsOptions {
  readonly runDir: string;
  /** The run's options, as `options.json` has them. */
  readonly described: Readonly<Record<string, unknown>>;
  readonly trackers: readonly Tracker[];
  readonly format: ChatFormat;
  readonly server: Gateway;
  readonly clock: Clock;
  readonly activity: Activity;
  readonly steps: number;
  readonly resumedAt: number | undefined;
}

/** How often the run writes what it is doing. */
const STATUS_MS = 2_000;

/** What is written of a run: trajectories, evaluations and metrics, in its directory and to its trackers. */
export class Records {
  readonly #runDir: string;
  readonly #described: Readonly<Record<string, unknown>>;
  readonly #tracking: Tracking;
  /** Whether anyone would look. */
  readonly #showsMore: boolean;
  readonly #decode: (ids: Int32Array) => string;
  readonly #machine: ReturnType<typeof watchMachine>;
  readonly #servers: ServerWatch;
  readonly #writeStatus: () => Promise<void>;
  #status: { readonly written: Promise<void>; readonly cancel: () => void } = {
    written: Promise.resolve(),
    cancel: () => {},
  };
  #closed = false;
  /** What evaluations have sampled since the last step was recorded. */
  #evaluated: Scored[] = [];

  constructor(options: RecordsOptions) {
    const { runDir, described, trackers, format, server, clock, activity, steps, resumedAt } = options;
    this.#runDir = runDir;
    this.#described = described;
    this.#showsMore = trackers.length > 0;
    this.#decode = (ids) => format.decode(ids);
    this.#tracking = startTracking(
      trackers,
      {
        directory: runDir,
        options: described,
        resumedAt,
        clockBegan: Date.now() - clock.now(),
        decode: this.#decode,
        memory: trackerMemory(runDir),
      },
      { clock },
    );
    this.#machine = watchMachine(clock);
    this.#servers = watchServers(() => sampledServers(server), clock);
    this.#writeStatus = () =>
      writeStatus(runDir, describeActivity(activity, server, { clock, steps, at: new Date() }));
    this.#keepStatus(clock);
  }

  /** A status that cannot be written must not end the run: the next one may. */
  #keepStatus(clock: Clock): void {
    const cancel = clock.timer(STATUS_MS, async () => {
      await this.#status.written;
      if (!this.#closed) this.#keepStatus(clock);
    });
    this.#status = { written: this.#writeStatus().catch(() => {}), cancel };
  }

  /** A trajectory of an evaluation has ended. */
  addEvaluated(scored: Scored): void {
    this.#evaluated.push(scored);
  }

  /** The step's trajectories, with what the update computed for their tokens, and those of its evaluations. */
  async writeTrajectories(step: number, groups: readonly Group[], update?: UpdateResult): Promise<void> {
    const samples = this.#servers.take();
    if (groups.length > 0) {
      await writeServerSamples(this.#runDir, step, samples);
      const computed = new Map(
        update?.tokens.map((record) => [`${record.trajectory}/${record.segment}`, record]),
      );
      await writeTrajectories(this.#runDir, step, groups, (id, segment) => {
        const record = computed.get(`${id}/${segment}`);
        return {
          ...(record ? { advantages: record.advantages } : {}),
          ...(record?.logprobs ? { trainerLogprobs: record.logprobs } : {}),
          ...(record?.entropy ? { entropies: record.entropy } : {}),
        };
      });
    }
    await writeEvaluations(this.#runDir, step, this.#evaluated, this.#described);
  }

  /** Use of this machine since the last call. */
  takeMachineUse(): Metrics {
    return this.#machine.take();
  }

  /** What trackers have to say to the user. */
  takeTrackerNotices(): string[] {
    return this.#tracking.takeNotices();
  }

  /** The step's line in the run directory and in the trackers; then its trajectories go to the trackers too. */
  async writeMetrics(
    line: { readonly step: number; readonly seconds: number; readonly metrics: Metrics },
    groups: readonly Group[],
  ): Promise<void> {
    await appendChecksums(this.#runDir, line.step);
    await appendMetrics(this.#runDir, line);
    const first = groups[0]?.attempts[0]?.trajectory;
    const images = this.#showsMore ? trackedImages(this.#runDir, first) : [];
    const text = this.#showsMore ? trajectoryText(first, this.#decode) : undefined;
    this.#tracking.log({
      ...line,
      time: Date.now(),
      ...(images.length > 0 && { images }),
      ...(text !== undefined && { text }),
    });
    this.#tracking.trace([...groups.flatMap(({ attempts }) => attempts), ...this.#evaluated]);
    this.#evaluated = [];
  }

  async writeEnd(end: RunEnd): Promise<void> {
    await writeRunEnd(this.#runDir, end);
  }

  async close(end: 'finished' | 'stopped'): Promise<void> {
    this.#closed = true;
    this.#status.cancel();
    await this.#status.written;
    await this.#writeStatus().catch(() => {}); // with the failures of the last step
    this.#machine.close();
    this.#servers.close();
    await this.#tracking.close(end);
    // There is no further step whose report could carry them.
    for (const notice of this.#tracking.takeNotices()) process.emitWarning(notice, 'TrackerWarning');
  }
}

function sampledServers(server: Gateway): SampledServer[] {
  const answering = new Map(server.servers().map((one) => [one.name, one.server]));
  return server.status().map(({ name, inFlight }) => {
    const asked = answering.get(name);
    return { name, inFlight, ...(asked?.load && { load: (signal) => asked.load!(signal) }) };
  });
}
