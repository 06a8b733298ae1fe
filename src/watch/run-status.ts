import { open, readFile } from 'node:fs/promises';
import type { Activity, FailedAttempts, Wait } from '../lib/activity.ts';
import type { Clock } from '../lib/clock.ts';
import { isDiskFull, replaceFile } from '../lib/files.ts';
import { RUN_FORMAT, runPaths } from './run-directory.ts';

/** Trajectories that wait for the same thing, and the one that has waited longest. */
export interface WaitingFor {
  readonly stage: Wait['stage'];
  /** Which tool, user, reward or part of the step; for `generate` the server, or that none is free. */
  readonly name: string;
  readonly count: number;
  readonly oldest: {
    readonly seconds: number;
    readonly trajectory?: string;
    readonly turn?: number;
    /** How often the request was sent. */
    readonly tries?: number;
  };
}

export interface ServerStatus {
  readonly name: string;
  readonly inFlight: number;
  /** Why it gets no requests; null while it does. */
  readonly down: string | null;
}

/** What a run was doing when it wrote this: status.json. */
export interface RunStatus {
  readonly format: number;
  /** Time of day, ISO. */
  readonly at: string;
  readonly pid: number;
  readonly step: number;
  readonly steps: number;
  readonly waits: readonly WaitingFor[];
  readonly servers: readonly ServerStatus[];
  /** Attempts of the step in progress. */
  readonly failures: readonly FailedAttempts[];
}

/** What is asked of the servers of a run. */
export interface StatusSource {
  requests(): readonly {
    readonly trajectory: string;
    readonly turn: number | undefined;
    readonly waitedMs: number;
    readonly tries: number;
    readonly server: string | undefined;
  }[];
  status(): readonly {
    readonly name: string;
    readonly inFlight: number;
    readonly down: string | undefined;
  }[];
}

export function describeActivity(
  activity: Activity,
  servers: StatusSource,
  { clock, steps, at }: { readonly clock: Clock; readonly steps: number; readonly at: Date },
): RunStatus {
  const requests = servers.requests();
  const asking = new Set(requests.map(({ trajectory }) => trajectory));
  const all = activity.waits();
  const busy = new Set(all.filter(({ stage }) => stage !== 'agent').map(({ trajectory }) => trajectory));
  const waits = all.filter(
    ({ stage, trajectory = '' }) =>
      // An agent waits for itself only where nothing else is known; a request is told with its server.
      (stage !== 'agent' || !busy.has(trajectory)) && (stage !== 'generate' || !asking.has(trajectory)),
  );
  return {
    format: RUN_FORMAT,
    at: at.toISOString(),
    pid: process.pid,
    step: activity.step,
    steps,
    waits: grouped([
      ...waits.map(({ since, ...wait }) => ({ ...wait, seconds: (clock.now() - since) / 1000 })),
      ...requests.map(({ trajectory, turn, waitedMs, tries, server }) => ({
        stage: 'generate' as const,
        name: server ?? 'no server is free',
        trajectory,
        ...(turn === undefined ? {} : { turn }),
        tries,
        seconds: waitedMs / 1000,
      })),
    ]),
    servers: servers.status().map(({ name, inFlight, down }) => ({ name, inFlight, down: down ?? null })),
    failures: activity.failures(),
  };
}

type OneWait = Omit<Wait, 'since'> & { readonly seconds: number; readonly tries?: number };

function grouped(waits: readonly OneWait[]): WaitingFor[] {
  const groups = new Map<string, OneWait[]>();
  for (const wait of waits) {
    const key = `${wait.stage} ${wait.name}`;
    groups.set(key, [...(groups.get(key) ?? []), wait]);
  }
  return [...groups.values()].map((members) => {
    const { stage, name, ...oldest } = members.reduce((one, other) =>
      other.seconds > one.seconds ? other : one,
    );
    return { stage, name, count: members.length, oldest: { ...oldest, seconds: round(oldest.seconds) } };
  });
}

const round = (seconds: number) => Math.round(seconds * 10) / 10;

/** A status of seconds ago is worth no wait for the disk: it is not synced. */
export async function writeStatus(directory: string, status: RunStatus): Promise<void> {
  const path = runPaths(directory).status;
  const text = `${JSON.stringify(status)}\n`;
  await replaceFile(path, text).catch(async (error: unknown) => {
    if (!isDiskFull(error)) throw error;
    // That the disk is full must be told: the blocks of the last status are there to be written over.
    const file = await open(path, 'r+');
    try {
      await file.write(text, 0);
      await file.truncate(Buffer.byteLength(text));
    } finally {
      await file.close();
    }
  });
}

/** Undefined where the run has written none, or it cannot be read. */
export async function readStatus(directory: string): Promise<RunStatus | undefined> {
  try {
    return JSON.parse(await readFile(runPaths(directory).status, 'utf8')) as RunStatus;
  } catch {
    return undefined;
  }
}

const STAGE_WORDS: Readonly<Record<Wait['stage'], string>> = {
  step: 'step',
  agent: 'agents',
  generate: 'replies',
  tool: 'tools',
  user: 'users',
  reward: 'rewards',
};

const PARTS: Readonly<Record<string, string>> = {
  gen: 'rolling out',
  update_actor: 'training',
  update_weights: 'sending the new weights to the servers',
  testing: 'evaluating',
  save_checkpoint: 'writing a checkpoint',
  disk_full: 'waiting for room on the disk, which is full,',
};

/** One line for each thing that the run waits for, the longest wait first; what is behind comes with the step. */
export function statusLines({ step, steps, waits, servers, failures }: RunStatus): string[] {
  const parts = waits.filter(({ stage }) => stage === 'step');
  const others = waits
    .filter(({ stage }) => stage !== 'step')
    .sort((a, b) => b.oldest.seconds - a.oldest.seconds);
  const doing = parts.map(({ name, oldest }) => `${PARTS[name] ?? name} for ${inTime(oldest.seconds)}`);
  return [
    `step ${step} of ${steps}: ${doing.join(', ') || 'between two parts of the step'}`,
    ...others.map(({ stage, name, count, oldest }) => {
      const { trajectory, turn, tries = 1 } = oldest;
      const place = [trajectory, turn ? `turn ${turn}` : '', tries > 1 ? `try ${tries}` : ''].filter(Boolean);
      const from = stage === 'generate' ? `${count} from ${name}` : `${count} of ${name}`;
      return `${STAGE_WORDS[stage].padEnd(8)} ${from}; the oldest waits ${inTime(oldest.seconds)}: ${place.join(', ')}`;
    }),
    ...servers.flatMap(({ name, inFlight, down }) =>
      down === null ? `server   ${name}: ${inFlight} requests` : `server   ${name}: gets none, ${down}`,
    ),
    ...failures.map(
      ({ boundary, count, message, trajectory }) =>
        `failed   ${count} (${boundary}): ${message}; for example ${trajectory}`,
    ),
  ];
}

/** 4.2 s, 3 min, 1.5 h */
function inTime(seconds: number): string {
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
