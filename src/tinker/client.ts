/**
 * Calls of the Tinker protocol: JSON over HTTP. A call that takes long answers with the name of a future, which is asked
 * for until it is there. A server that is away is waited for.
 */
import { fileURLToPath } from 'node:url';
import { ConfigError, TrainerError } from '../errors.ts';
import { type Clock, sleep } from '../lib/clock.ts';

export interface ClientOptions {
  /** Without `/api/v1`. */
  readonly url: string;
  readonly apiKey: string | undefined;
  readonly clock: Clock;
  /** How long a server that does not answer, or has no room, is waited for. */
  readonly patienceSeconds: number;
  /** How long one future may take. */
  readonly secondsPerCall: number;
  /** Receives one line when the server is lost and when it is back. */
  readonly log: (line: string) => void;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** The call changes something, so it must not be sent again when it may have arrived. */
  readonly once?: boolean;
}

/**
 * The server does not have what the call named: it was started again. Or the connection broke so that nobody knows
 * whether a call arrived that must not arrive twice. Either way the model is built again from its last saved state.
 */
export class StateLost extends Error {}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 8000;
/** A server that fails so often in a row with a 5xx is not busy but broken. */
const MOST_SERVER_ERRORS = 6;
/** Longer than servers hold a question for a future open (SkyRL: 300 s). */
const SECONDS_PER_EXCHANGE = 330;

type Bytes = Buffer<ArrayBuffer>;
type Answer = Readonly<Record<string, unknown>>;

export class TinkerClient {
  readonly url: string;
  readonly #options: ClientOptions;
  /** Told once, however many calls wait. */
  #isAway = false;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.url = options.url.replace(/\/+$/, '').replace(/\/api\/v1$/, '');
  }

  /** A call that answers at once. Bytes are sent as protobuf. */
  async call<T>(path: string, body: unknown, options: CallOptions = {}): Promise<T> {
    const sent = Buffer.isBuffer(body) ? (body as Bytes) : JSON.stringify(body);
    const request = { method: 'POST', path: `/api/v1/${path}`, body: sent };
    return (await this.#exchange(request, options)) as T;
  }

  async get<T>(path: string, options: CallOptions = {}): Promise<T> {
    return (await this.#exchange({ method: 'GET', path }, options)) as T;
  }

  /**
   * The bytes behind a path. Where it leads elsewhere, as to a store of files, the key stays here. A server that hands out its
   * own disk (TuFT) names a folder.
   */
  async download(path: string): Promise<Buffer | { readonly folder: string }> {
    const signal = AbortSignal.timeout(1000 * this.#options.secondsPerCall);
    const told = await fetch(this.url + path, { headers: this.#headers(), redirect: 'manual', signal });
    const there = told.headers.get('location');
    if (there?.startsWith('file:')) return { folder: fileURLToPath(there) };
    const reply = there === null ? told : await fetch(new URL(there, this.url), { signal });
    if (reply.ok) return Buffer.from(await reply.arrayBuffer());
    throw failure(`${this.url}${path} answered ${reply.status}`, detailOf(await reply.text()));
  }

  /** Whether the server answers now. */
  async answers(signal?: AbortSignal): Promise<boolean> {
    const limit = AbortSignal.timeout(5000);
    try {
      const given = signal ? AbortSignal.any([signal, limit]) : limit;
      return (await fetch(`${this.url}/api/v1/healthz`, { headers: this.#headers(), signal: given })).ok;
    } catch {
      signal?.throwIfAborted();
      return false;
    }
  }

  /** Begins a call that takes long; the returned function waits for its result. */
  async begin<T>(path: string, body: unknown, options: CallOptions = {}): Promise<() => Promise<T>> {
    const { request_id: id } = await this.call<{ request_id?: string }>(path, body, options);
    if (id === undefined) throw new TrainerError(`${this.url}/api/v1/${path} answered without a request_id`);
    return () => this.#result<T>(path, id, options.signal);
  }

  async future<T>(path: string, body: unknown, options: CallOptions = {}): Promise<T> {
    return (await this.begin<T>(path, body, options))();
  }

  async #result<T>(path: string, id: string, signal: AbortSignal | undefined): Promise<T> {
    const { clock, secondsPerCall } = this.#options;
    const deadline = clock.now() + 1000 * secondsPerCall;
    while (clock.now() < deadline) {
      const answer = await this.call<Answer>('retrieve_future', { request_id: id }, { signal });
      if (answer['type'] === 'try_again') continue;
      if (typeof answer['error'] === 'string')
        throw failure(`${path} failed: ${answer['error']}`, answer['error']);
      return answer as T;
    }
    throw new TrainerError(`${this.url}: ${path} took longer than ${secondsPerCall} s`);
  }

  async #exchange(
    {
      method,
      path,
      body,
    }: { readonly method: string; readonly path: string; readonly body?: string | Bytes },
    { signal, once = false }: CallOptions,
  ): Promise<unknown> {
    const { clock, patienceSeconds, log } = this.#options;
    let since: number | undefined;
    let serverErrors = 0;
    for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
      signal?.throwIfAborted();
      const outcome = await this.#try(method, path, body, signal, once);
      if (outcome.kind === 'answer') {
        if (this.#isAway) log(`${this.url} answers again`);
        this.#isAway = false;
        return outcome.answer;
      }
      if (!this.#isAway && !outcome.busy) log(`${this.url}: ${outcome.why}; waiting for it`);
      this.#isAway ||= !outcome.busy;
      since ??= clock.now();
      if (outcome.status >= 500 && outcome.status !== 503 && ++serverErrors >= MOST_SERVER_ERRORS)
        throw new TrainerError(`${this.url}${path}: ${outcome.why}`);
      if (clock.now() - since > 1000 * patienceSeconds)
        throw new TrainerError(`${this.url}${path}: ${outcome.why}; it was waited for ${patienceSeconds} s`);
      await sleep(clock, outcome.afterMs ?? wait, signal);
    }
  }

  async #try(
    method: string,
    path: string,
    body: string | Bytes | undefined,
    signal: AbortSignal | undefined,
    once: boolean,
  ): Promise<Outcome> {
    const limit = AbortSignal.timeout(1000 * SECONDS_PER_EXCHANGE);
    let response: Response;
    let text: string;
    try {
      response = await fetch(this.url + path, {
        method,
        headers: {
          ...this.#headers(),
          ...(Buffer.isBuffer(body) ? { 'content-type': 'application/x-protobuf' } : {}),
        },
        ...(body === undefined ? {} : { body }),
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      });
      text = await response.text();
    } catch (error) {
      signal?.throwIfAborted();
      const why = `no answer (${reasonOf(error)})`;
      if (once && !neverArrived(error)) throw new StateLost(`${this.url}${path}: ${why}`);
      return { kind: 'again', status: 0, why, busy: false };
    }
    return this.#judge(path, response, text);
  }

  #judge(path: string, { status, headers, ok }: Response, text: string): Outcome {
    if (ok) return { kind: 'answer', answer: parse(this.url + path, text) };
    // It held the question as long as it holds any.
    if (status === 408) return { kind: 'answer', answer: { type: 'try_again' } };
    const detail = detailOf(text);
    if (status === 401 || status === 403) {
      const has = this.#options.apiKey ? 'is not accepted' : 'is not set';
      throw new ConfigError(`${this.url} answered ${status}: TINKER_API_KEY ${has} (${detail})`);
    }
    if (status === 425 || status === 429 || status >= 500) {
      const seconds = Number(headers.get('retry-after') ?? Number.NaN);
      const afterMs = Number.isFinite(seconds) ? 1000 * seconds : undefined;
      return { kind: 'again', status, why: `answered ${status}: ${detail}`, busy: status < 500, afterMs };
    }
    if (status === 410) throw new StateLost(`${this.url}${path} answered 410: ${detail}`);
    throw failure(`${this.url}${path} answered ${status}: ${detail}`, detail);
  }

  #headers(): Record<string, string> {
    const { apiKey } = this.#options;
    return { 'content-type': 'application/json', ...(apiKey ? { 'x-api-key': apiKey } : {}) };
  }
}

type Outcome =
  | { readonly kind: 'answer'; readonly answer: unknown }
  | {
      readonly kind: 'again';
      /** 0 where there was no answer. */
      readonly status: number;
      readonly why: string;
      readonly busy: boolean;
      readonly afterMs?: number | undefined;
    };

/** How servers say that they do not know a model, session or future: SkyRL's words, which others took over. */
const UNKNOWN = /\b(model|session|sampler|future|request)\b[^:]*\bnot (found|loaded)\b/i;

const failure = (message: string, detail: string) =>
  UNKNOWN.test(detail) ? new StateLost(message) : new TrainerError(message);

function parse(where: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new TrainerError(`${where} answered with something that is not JSON: ${text.slice(0, 200)}`);
  }
}

/** FastAPI's `detail`, else the text. */
function detailOf(text: string): string {
  try {
    const { detail } = JSON.parse(text) as { detail?: unknown };
    if (detail !== undefined)
      return typeof detail === 'string' ? detail : JSON.stringify(detail).slice(0, 500);
  } catch {
    // not JSON: a proxy's page
  }
  return text.slice(0, 200) || 'no reason given';
}

const codeOf = (error: unknown): string | undefined => {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown };
  return typeof code === 'string' ? code : cause === undefined ? undefined : codeOf(cause);
};

const reasonOf = (error: unknown) => codeOf(error) ?? (error as Error).message;

/** The connection could not be made, so nothing was sent. */
const neverArrived = (error: unknown) =>
  [
    'ECONNREFUSED',
    'ENOTFOUND',
    'EAI_AGAIN',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'UND_ERR_CONNECT_TIMEOUT',
  ].includes(codeOf(error) ?? '');
