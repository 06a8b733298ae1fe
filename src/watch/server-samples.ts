import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, sleep } from '../lib/clock.ts';
import { makeFolder, writeFileAtomically } from '../lib/files.ts';
import { withTimeLimit } from '../lib/time-limit.ts';
import { RUN_FORMAT, runPaths } from './run-directory.ts';

/** A server as the run sees it now, and the question what it says itself. */
export interface SampledServer {
  readonly name: string;
  /** Requests sent and not answered. */
  readonly inFlight: number;
  load?(signal: AbortSignal): Promise<{ readonly running: number; readonly queued: number } | undefined>;
}

/** How servers stood during a step: a row of `at` per sample, a column per server. Null: not known then. */
export interface ServerSamples {
  /** Milliseconds of the run's clock, as in spans. */
  readonly at: readonly number[];
  readonly servers: readonly {
    readonly name: string;
    readonly inFlight: readonly (number | null)[];
    /** Requests running and queued, as the server reports them. */
    readonly running: readonly (number | null)[];
    readonly queued: readonly (number | null)[];
  }[];
}

export interface ServerWatch {
  /** What was sampled since the last call. */
  take(): ServerSamples;
  close(): void;
}

const FIRST_MS = 50;
/** A step has at most this many samples: when there are more, every other one is dropped and the next come half as often. */
const MOST_SAMPLES = 256;
/** A server behind a URL is asked no more often than this; one in this process at every sample. */
const ASK_REMOTE_MS = 1000;
/** A server's answer is valid for this long: until it has been asked twice more. */
const FRESH_MS = { remote: 2500, local: 500 };
const kindOf = (name: string) => (/^https?:/.test(name) ? 'remote' : 'local');

type Sample = Map<string, SampledNumbers>;
interface SampledNumbers {
  readonly inFlight: number;
  readonly running: number | null;
  readonly queued: number | null;
}

/** Samples the servers' load during a run. It does not wait for one that does not answer. */
export function watchServers(servers: () => readonly SampledServer[], clock: Clock): ServerWatch {
  const stop = new AbortController();
  const said = new Map<string, { running: number; queued: number; at: number }>();
  const asked = new Map<string, number>();
  const asking = new Set<string>();
  let samples: { at: number; servers: Sample }[] = [];
  let everyMs = FIRST_MS;

  async function ask({ name, load }: SampledServer): Promise<void> {
    const now = clock.now();
    const pause = kindOf(name) === 'remote' ? ASK_REMOTE_MS : 0;
    if (!load || asking.has(name) || now - (asked.get(name) ?? -Infinity) < pause) return;
    asking.add(name);
    asked.set(name, now);
    try {
      const limit = { milliseconds: FRESH_MS.remote, clock, signal: stop.signal };
      const answer = await withTimeLimit((signal) => load(signal), limit);
      if (!answer) return;
      const { running, queued } = answer;
      said.set(name, { running, queued, at: clock.now() });
      // A server in this process has answered before the next sample: what it says is of this one.
      const latest = samples.at(-1)?.servers;
      const numbers = latest?.get(name);
      if (numbers) latest!.set(name, { ...numbers, running, queued });
    } catch {
      // Whether a server is up is the gateway's question.
    } finally {
      asking.delete(name);
    }
  }

  function sample(): void {
    const now = clock.now();
    const seen = servers();
    samples.push({
      at: now,
      servers: new Map(
        seen.map(({ name, inFlight }) => {
          const known = said.get(name);
          const fresh = known && now - known.at < FRESH_MS[kindOf(name)] ? known : undefined;
          const { running = null, queued = null } = fresh ?? {};
          return [name, { inFlight, running, queued }];
        }),
      ),
    });
    for (const server of seen) void ask(server);
    if (samples.length <= MOST_SAMPLES) return;
    samples = samples.filter((_, at) => at % 2 === 0);
    everyMs *= 2;
  }

  async function watch(): Promise<void> {
    while (!stop.signal.aborted) {
      sample();
      await sleep(clock, everyMs, stop.signal).catch(() => {});
    }
  }
  void watch();

  return {
    take: () => {
      const taken = samples;
      samples = [];
      everyMs = FIRST_MS;
      return columnsOf(taken);
    },
    close: () => stop.abort(),
  };
}

function columnsOf(samples: readonly { at: number; servers: Sample }[]): ServerSamples {
  const names = [...new Set(samples.flatMap(({ servers }) => [...servers.keys()]))].sort();
  return {
    at: samples.map(({ at }) => Math.round(at)),
    servers: names.map((name) => {
      const rows = samples.map(({ servers }) => servers.get(name));
      const column = (of: 'inFlight' | 'running' | 'queued') => rows.map((row) => row?.[of] ?? null);
      return {
        name,
        inFlight: column('inFlight'),
        running: column('running'),
        queued: column('queued'),
      };
    }),
  };
}

const fileOf = (directory: string, step: number) =>
  join(runPaths(directory).trajectories, `step_${step}.servers.json`);

export async function writeServerSamples(
  directory: string,
  step: number,
  samples: ServerSamples,
): Promise<void> {
  await makeFolder(runPaths(directory).trajectories);
  const text = JSON.stringify({ format: RUN_FORMAT, step, ...samples });
  await writeFileAtomically(fileOf(directory, step), `${text}\n`);
}

/** Undefined where there are none: a fork, an evaluation, a run of another program. */
export async function readServerSamples(directory: string, step: number): Promise<ServerSamples | undefined> {
  try {
    const { at, servers } = JSON.parse(await readFile(fileOf(directory, step), 'utf8')) as ServerSamples;
    return { at, servers };
  } catch {
    return undefined;
  }
}
