/** A cluster that takes runs as jobs. One file a launcher: ray.ts, slurm.ts. */
import { type Clock, sleep } from '../lib/clock.ts';

export type JobState = 'waiting' | 'running' | 'succeeded' | 'failed' | 'stopped';

export interface Job {
  readonly id: string;
  readonly state: JobState;
  /** What the cluster says about it, in its own words. */
  readonly message: string;
}

export interface Launcher {
  /** The cluster, in words: `Ray at http://head:8265`. */
  readonly name: string;
  status(id: string, signal?: AbortSignal): Promise<Job>;
  /** Everything the job has printed so far. */
  logs(id: string, signal?: AbortSignal): Promise<string>;
  /** Asks the job to end; it has ended when its state says so. */
  stop(id: string, signal?: AbortSignal): Promise<void>;
}

export const hasEnded = ({ state }: Job) => state !== 'waiting' && state !== 'running';

interface FollowOptions {
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  /** Receives what the job prints, as it comes. */
  write(text: string): void;
}

const POLL_MS = 2000;

/** What the job prints until it has ended, from its beginning. */
export async function followJob(
  launcher: Launcher,
  id: string,
  { clock, signal, write }: FollowOptions,
): Promise<Job> {
  let printed = 0;
  for (;;) {
    const job = await launcher.status(id, signal); // before the logs, so that the last of them is seen
    const text = job.state === 'waiting' ? '' : await launcher.logs(id, signal);
    if (text.length > printed) write(text.slice(printed));
    printed = Math.max(printed, text.length);
    if (hasEnded(job)) return job;
    await sleep(clock, POLL_MS, signal);
  }
}
