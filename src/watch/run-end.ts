import { readFile, stat } from 'node:fs/promises';
import { messageOf } from '../lib/error-message.ts';
import { writeFileAtomically } from '../lib/files.ts';
import { RUN_FORMAT, runPaths } from './run-directory.ts';
import { runOwner } from './run-lock.ts';

/** How a run ended: end.json. A run that was killed leaves none. */
export interface RunEnd {
  /** `stopped`: by its user or its program; it can be resumed. */
  readonly state: 'finished' | 'stopped' | 'failed';
  /** The last step that is done. */
  readonly step: number;
  /** Version of the weights, and seconds since the first start; absent for a run that did not start. */
  readonly version?: number;
  readonly seconds?: number;
  /** Why it stopped or failed, in the words of the error. */
  readonly reason?: string;
  /** The error's class, which names the boundary: `EngineError`, `ConfigError`. */
  readonly error?: string;
}

export async function writeRunEnd(directory: string, end: RunEnd): Promise<void> {
  await writeFileAtomically(
    runPaths(directory).end,
    `${JSON.stringify({ format: RUN_FORMAT, ...end }, null, 2)}\n`,
  );
}

export async function readRunEnd(directory: string): Promise<RunEnd | undefined> {
  try {
    return JSON.parse(await readFile(runPaths(directory).end, 'utf8')) as RunEnd;
  } catch {
    return undefined; // the run lives, or was killed
  }
}

/** What an error says of the run's end. */
export function reasonOf(error: unknown): Pick<RunEnd, 'reason' | 'error'> {
  return { reason: messageOf(error), ...(error instanceof Error ? { error: error.name } : {}) };
}

export interface RunState {
  /** `killed`: its process is gone and said nothing. `empty`: nothing was ever written. */
  readonly state: RunEnd['state'] | 'live' | 'killed' | 'empty';
  readonly reason: string | null;
}

/** A run on another machine that was not written to for this long is not live. */
const LIVE_MS = 60_000;

/** Whether a run lives, and if not, how it ended. `now` is the time of day, in milliseconds. */
export async function readRunState(directory: string, now: number): Promise<RunState> {
  const end = await readRunEnd(directory);
  if (end) return { state: end.state, reason: end.reason ?? null };
  const written = await stat(runPaths(directory).metrics).catch(() => undefined);
  if (!written) return { state: 'empty', reason: null };
  const owner = await runOwner(directory);
  const alive = owner?.alive ?? (owner !== undefined && now - (await lastWrite(directory)) < LIVE_MS);
  if (alive) return { state: 'live', reason: null };
  const who = owner
    ? `its process (${owner.pid} on ${owner.host}) is gone and left no reason`
    : 'it left no reason';
  return {
    state: 'killed',
    reason: `${who}: it was killed, ran out of memory, or its machine went down; continue it with --resume`,
  };
}

async function lastWrite(directory: string): Promise<number> {
  const { metrics, status } = runPaths(directory);
  const times = await Promise.all([metrics, status].map((path) => stat(path).catch(() => undefined)));
  return Math.max(...times.map((found) => found?.mtimeMs ?? 0));
}
