import type { ChatFormat } from '../chat/format.ts';
import type { Gateway } from '../gateway/gateway.ts';
import type { Clock } from '../lib/clock.ts';
import type { UpdateResult } from '../training/update-policy.ts';
import type { Group, Metrics, Scored } from '../types.ts';
import { writeEvaluations } from '../watch/evaluation-store.ts';
import { watchMachine } from '../watch/machine-use.ts';
import { appendMetrics, writeSummary } from '../watch/run-directory.ts';
import {
  type SampledServer,
  type ServerWatch,
  watchServers,
  writeServerSamples,
} from '../watch/server-samples.ts';
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
  readonly resumedAt: number | undefined;
}

/** What is written of a run: trajectories, evaluations and metrics, in its directory and to its trackers. */
export class Records {
  readonly #runDir: string;
  readonly #described: Readonly<Record<string, unknown>>;
  readonly #tracking: Tracking;
  readonly #machine: ReturnType<typeof watchMachine>;
  readonly #servers: ServerWatch;
  /** What evaluations have sampled since the last step was recorded. */
  #evaluated: Scored[] = [];

  constructor({ runDir, described, trackers, format, server, clock, resumedAt }: RecordsOptions) {
    this.#runDir = runDir;
    this.#described = described;
    this.#tracking = startTracking(trackers, {
      directory: runDir,
      options: described,
      resumedAt,
      clockBegan: Date.now() - clock.now(),
      decode: (ids) => format.decode(ids),
      memory: trackerMemory(runDir),
    });
    this.#machine = watchMachine(clock);
    this.#servers = watchServers(() => sampledServers(server), clock);
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
    await appendMetrics(this.#runDir, line);
    this.#tracking.log({ ...line, time: Date.now() });
    this.#tracking.trace([...groups.flatMap(({ attempts }) => attempts), ...this.#evaluated]);
    this.#evaluated = [];
  }

  async writeSummary(summary: { readonly step: number; readonly version: number; readonly seconds: number }) {
    await writeSummary(this.#runDir, { ...summary, finished: true });
  }

  async close(end: 'finished' | 'stopped'): Promise<void> {
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
