/** Slurm by its own commands (sbatch, scontrol, scancel), as every login node has them. Seen on Slurm 22.05. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { ConfigError, EngineError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';
import type { Job, JobState, Launcher } from './launcher.ts';

const execute = promisify(execFile);

const STATES: Readonly<Record<string, JobState>> = {
  PENDING: 'waiting',
  CONFIGURING: 'waiting',
  REQUEUED: 'waiting',
  REQUEUE_HOLD: 'waiting',
  RESV_DEL_HOLD: 'waiting',
  SPECIAL_EXIT: 'waiting',
  SUSPENDED: 'waiting',
  STOPPED: 'waiting', // held with SIGSTOP
  PREEMPTED: 'waiting', // it has gone back into the queue
  RUNNING: 'running',
  COMPLETING: 'running',
  RESIZING: 'running',
  SIGNALING: 'running',
  STAGE_OUT: 'running',
  COMPLETED: 'succeeded',
  CANCELLED: 'stopped',
  REVOKED: 'stopped',
  BOOT_FAIL: 'failed',
  DEADLINE: 'failed',
  FAILED: 'failed',
  NODE_FAIL: 'failed',
  OUT_OF_MEMORY: 'failed',
  TIMEOUT: 'failed',
};

/** Job ids of Slurm are numbers. */
export const isSlurmJob = (id: string) => /^\d+$/.test(id);

export class SlurmCluster implements Launcher {
  readonly name = 'Slurm';
  readonly #milliseconds: number;

  constructor({ secondsPerCall = 60 }: { readonly secondsPerCall?: number } = {}) {
    this.#milliseconds = 1000 * secondsPerCall;
  }

  /** Submits a script; the id of its job. */
  async submit(file: string, signal?: AbortSignal): Promise<string> {
    const printed = await this.#run('sbatch', ['--parsable', file], signal);
    const id = printed.trim().split(';')[0] ?? '';
    if (!isSlurmJob(id))
      throw new EngineError(`sbatch printed ${JSON.stringify(printed)}; a job id was expected`);
    return id;
  }

  async status(id: string, signal?: AbortSignal): Promise<Job> {
    const fields = await this.#describe(id, signal);
    const said = fields.get('JobState') ?? '';
    const state = STATES[said];
    if (state === undefined) {
      throw new EngineError(
        `Slurm says that job ${id} is ${said}; known are ${Object.keys(STATES).join(', ')}`,
      );
    }
    const nodes = fields.get('NodeList');
    const reason = fields.get('Reason');
    const restarts = Number(fields.get('Restarts') ?? 0);
    const more = [
      said,
      nodes && nodes !== '(null)' ? `on ${nodes}` : '',
      reason && reason !== 'None' ? reason : '',
      restarts > 0 ? `restarted ${restarts} times` : '',
    ];
    return { id, state, message: more.filter(Boolean).join(', ') };
  }

  /** The file that the job prints to, which this machine must see. */
  async logs(id: string, signal?: AbortSignal): Promise<string> {
    const file = (await this.#describe(id, signal)).get('StdOut') ?? '';
    return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return ''; // it has printed nothing yet
      throw new EngineError(`what job ${id} prints is in ${file}, which cannot be read: ${error.message}`);
    });
  }

  /** The script, too, is told (SIGTERM): the run saves itself within Slurm's KillWait, and is not requeued. */
  async stop(id: string, signal?: AbortSignal): Promise<void> {
    await this.#run('scancel', [id], signal);
  }

  /** The first line of `scontrol show job`: `JobId=7 JobName=… JobState=RUNNING …`. */
  async #describe(id: string, signal?: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const printed = await this.#run('scontrol', ['show', 'job', '--oneliner', id], signal);
    const [first = ''] = printed.split('\n');
    return new Map(
      [...first.matchAll(/(?:^| )(\w+)=(.*?)(?= \w+=| *$)/g)].map(([, name, value]) => [name!, value!]),
    );
  }

  async #run(program: string, words: readonly string[], signal?: AbortSignal): Promise<string> {
    try {
      const { stdout } = await execute(program, words, {
        timeout: this.#milliseconds,
        maxBuffer: 16 * 2 ** 20,
        ...(signal && { signal }),
      });
      return stdout;
    } catch (error) {
      signal?.throwIfAborted();
      const { code, stderr, killed } = error as { code?: unknown; stderr?: string; killed?: boolean };
      if (code === 'ENOENT')
        throw new ConfigError(`there is no ${program} here; run this on a login node of the cluster`);
      const why = killed ? `no answer in ${this.#milliseconds / 1000} s` : stderr?.trim() || messageOf(error);
      if (/Invalid job id/i.test(why)) {
        throw new ConfigError(
          `Slurm knows no job ${words.at(-1)} (any more: it forgets ended jobs after MinJobAge); sacct may know it`,
        );
      }
      throw new EngineError(`${program} ${words.join(' ')}: ${why}`, { cause: error });
    }
  }
}
