/**
 * Ray's Jobs REST API, as the head's dashboard serves it (port 8265). Seen on Ray 2.60:
 * dashboard/modules/job/job_head.py for the routes, pydantic_models.py for what a job says about itself.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import http, { type RequestOptions } from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { ConfigError, EngineError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';
import { keepSecret } from '../lib/secrets.ts';
import type { Job, JobState, Launcher } from './launcher.ts';

/** Where the dashboard listens, and what proves who asks. */
export interface RayOptions {
  /** `http://HOST:8265`. */
  readonly address: string;
  /** Of a cluster with token authentication (`RAY_AUTH_TOKEN`). */
  readonly token?: string | undefined;
  readonly secondsPerCall?: number;
}

export interface RayJob {
  readonly id: string;
  readonly entrypoint: string;
  /** A package that `upload` returned. */
  readonly workingDir: string;
  /** Ray keeps these with the job, and tells them to whoever may ask its API. */
  readonly environment: Readonly<Record<string, string>>;
  readonly metadata: Readonly<Record<string, string>>;
}

const STATES: Readonly<Record<string, JobState>> = {
  PENDING: 'waiting',
  RUNNING: 'running',
  SUCCEEDED: 'succeeded',
  FAILED: 'failed',
  STOPPED: 'stopped',
};

/** A failed job's message ends with its log, which `logs` tells as well. */
const LOGS_AGAIN = /, last available logs [\s\S]*$/;

export class RayCluster implements Launcher {
  readonly name: string;
  readonly #address: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #milliseconds: number;

  constructor({ address, token, secondsPerCall = 60 }: RayOptions) {
    const { protocol } = URL.canParse(address) ? new URL(address) : { protocol: '' };
    if (protocol !== 'http:' && protocol !== 'https:') {
      throw new ConfigError(
        `the address of Ray is ${JSON.stringify(address)}; use that of its dashboard, such as http://head:8265`,
      );
    }
    keepSecret(token);
    this.#address = address.replace(/\/+$/, '');
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    this.#milliseconds = 1000 * secondsPerCall;
    this.name = `Ray at ${this.#address}`;
  }

  async version(signal?: AbortSignal): Promise<string> {
    const { ray_version: version } = await this.#json<{ ray_version: string }>('GET', '/api/version', signal);
    return version;
  }

  /** A zip of the working directory, kept by the cluster under the hash of its content. */
  async upload(zip: Uint8Array, signal?: AbortSignal): Promise<string> {
    const name = `_ray_pkg_${createHash('sha1').update(zip).digest('hex')}.zip`;
    const path = `/api/packages/gcs/${name}`;
    const known = await this.#call('GET', path, signal);
    if (known.status === 404) {
      const sent = await this.#call('PUT', path, signal, zip);
      if (sent.status !== 200) throw this.#refusal('PUT', path, sent);
    } else if (known.status !== 200) throw this.#refusal('GET', path, known);
    return `gcs://${name}`;
  }

  async submit(job: RayJob, signal?: AbortSignal): Promise<string> {
    const body = {
      entrypoint: job.entrypoint,
      submission_id: job.id,
      runtime_env: { working_dir: job.workingDir, env_vars: job.environment },
      metadata: job.metadata,
    };
    const { submission_id: id } = await this.#json<{ submission_id: string }>(
      'POST',
      '/api/jobs/',
      signal,
      JSON.stringify(body),
    );
    return id;
  }

  async status(id: string, signal?: AbortSignal): Promise<Job> {
    const { status, message } = await this.#json<{ status: string; message?: string | null }>(
      'GET',
      jobPath(id),
      signal,
    );
    const state = STATES[status];
    if (state === undefined) {
      throw new EngineError(
        `${this.name} says that job ${id} is ${status}; known are ${Object.keys(STATES).join(', ')}`,
      );
    }
    return { id, state, message: (message ?? '').replace(LOGS_AGAIN, '') };
  }

  async logs(id: string, signal?: AbortSignal): Promise<string> {
    const { logs } = await this.#json<{ logs: string }>('GET', `${jobPath(id)}/logs`, signal);
    return logs;
  }

  async stop(id: string, signal?: AbortSignal): Promise<void> {
    await this.#json('POST', `${jobPath(id)}/stop`, signal);
  }

  async #json<R>(method: string, path: string, signal?: AbortSignal, body?: string): Promise<R> {
    const reply = await this.#call(method, path, signal, body);
    if (reply.status !== 200) throw this.#refusal(method, path, reply);
    try {
      return JSON.parse(reply.text) as R;
    } catch {
      throw new EngineError(
        `${this.#address}${path} answered with something that is not JSON: ${lastLine(reply.text)}; is it the dashboard of Ray?`,
      );
    }
  }

  async #call(method: string, path: string, signal?: AbortSignal, body?: string | Uint8Array) {
    const limit = AbortSignal.timeout(this.#milliseconds);
    const type = typeof body === 'string' ? { 'content-type': 'application/json' } : {};
    try {
      return await exchange(new URL(this.#address + path), body, {
        method,
        headers: { ...this.#headers, ...type },
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      });
    } catch (error) {
      signal?.throwIfAborted();
      const why = limit.aborted ? `no answer in ${this.#milliseconds / 1000} s` : messageOf(error);
      throw new EngineError(`${this.#address}${path}: ${why}`, { cause: error });
    }
  }

  #refusal(method: string, path: string, { status, text }: { status: number; text: string }): Error {
    const said = `${method} ${this.#address}${path} answered ${status}: ${lastLine(text)}`;
    if (status === 401 || status === 403) return new ConfigError(`${said}; set RAY_AUTH_TOKEN`);
    return status === 404 || status === 400 ? new ConfigError(said) : new EngineError(said);
  }
}

const jobPath = (id: string) => `/api/jobs/${encodeURIComponent(id)}`;

/** Of a Python traceback the last line says what is wrong. */
const lastLine = (text: string) => text.trim().split('\n').at(-1)?.slice(0, 300) || '(nothing)';

/** Not `fetch`: Ray takes its `sec-fetch-mode` for a browser's, which may not upload. */
async function exchange(url: URL, body: string | Uint8Array | undefined, options: RequestOptions) {
  const request = (url.protocol === 'https:' ? https : http).request(url, options);
  request.end(body);
  const [reply] = (await once(request, 'response')) as [http.IncomingMessage];
  return { status: reply.statusCode ?? 0, text: await text(reply) };
}
