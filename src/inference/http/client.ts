/** HTTP as servers need it: JSON in and out, a time limit on every call, errors that name the server and the call. */
import { ConfigError, EngineError } from '../../errors.ts';
import { keepNamedSecrets, keepSecret } from '../../lib/secrets.ts';
import { Connection, type Opening, type Outgoing } from './connection.ts';
import { Connections, type Rank } from './connections.ts';
import { Exchange, type StartOptions } from './exchange.ts';
import { proxyOf } from './proxy.ts';
import type { HttpReply } from './reply-reader.ts';

export interface HttpOptions {
  /** Time limit of calls other than replies; a reply ends only by its request's signal. */
  readonly timeoutMs?: number;
  /** For a socket to open. */
  readonly connectMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as `authorization: Bearer KEY`, as SGLang and vLLM want theirs. */
  readonly apiKey?: string | undefined;
}

export interface CallOptions {
  readonly method?: 'GET' | 'POST';
  /** Bytes go as they are, everything else as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** `Infinity` waits as long as the signal lets it. */
  readonly timeoutMs?: number;
}

type Outbound = Omit<CallOptions, 'signal' | 'timeoutMs'>;

/** One server's address and the connections to it. */
export class HttpClient {
  readonly url: string;
  /** Before every path. */
  readonly #prefix: string;
  readonly #connections: Connections;
  readonly #timeoutMs: number;
  /** Headers of every request: host, and those that were given. */
  readonly #headers: string;

  constructor(url: string, options: HttpOptions = {}) {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:') {
      throw new ConfigError(`server url is ${JSON.stringify(url)}; use one such as http://127.0.0.1:30000`);
    }
    keepSecret(options.apiKey);
    keepSecret(decodeURIComponent(parsed.password));
    keepNamedSecrets(options.headers ?? {});
    const path = parsed.pathname.replace(/\/+$/, '');
    const proxy = proxyOf(parsed, process.env);
    this.#prefix = proxy ? parsed.origin + path : path; // a proxy needs the whole address
    this.url = parsed.origin + path;
    this.#timeoutMs = options.timeoutMs ?? 60_000;
    this.#headers = headerLines({
      host: parsed.host,
      ...credentialsOf('authorization', parsed),
      ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
      ...(proxy ? credentialsOf('proxy-authorization', proxy) : {}),
      ...options.headers,
    });
    const { hostname, port, protocol } = proxy ?? parsed;
    const tls = protocol === 'https:';
    const address = {
      host: hostname.replace(/^\[|\]$/g, ''), // of IPv6
      port: port === '' ? (tls ? 443 : 80) : Number(port),
      tls,
    };
    const connect = (opening: Opening) => new Connection(address, opening);
    this.#connections = new Connections(connect, options.connectMs ?? 10_000);
  }

  /** The reply whatever its status; only a server that cannot be reached throws. */
  call(path: string, options: CallOptions = {}): Promise<{ readonly status: number; readonly text: string }> {
    return this.#exchange(path, options, ({ status, body }) => ({ status, text: body.toString() }));
  }

  /** The reply's JSON; any status but 200 throws what the server said. */
  json<R>(path: string, options: CallOptions = {}): Promise<R> {
    return this.#exchange(path, options, (reply) => this.parse<R>(path, this.accept(path, reply).toString()));
  }

  /** For replies that say nothing but their status; another than 200 throws what the server said. */
  tell(path: string, options: CallOptions = {}): Promise<void> {
    return this.#exchange(path, options, (reply) => void this.accept(path, reply));
  }

  /**
   * Without time limit or signal: the caller can cancel it. `read` must `accept` the reply. `call` may be called
   * twice for the same request.
   */
  start<R>(
    path: string,
    call: () => Outbound,
    read: (reply: HttpReply) => R,
    options: StartOptions,
  ): Exchange<R> {
    const write = () => this.#outgoing(path, call());
    return new Exchange(this.#connections, write, `${this.url}${path}`, read, options);
  }

  /** What a reply says; any status but 200 throws it. */
  accept(path: string, { status, body, location }: HttpReply): Buffer {
    if (status >= 200 && status <= 299) return body;
    if (location !== undefined) {
      throw new ConfigError(
        `${this.url}${path} answered ${status}, a redirect to ${location}, which is not followed; give that address as the server's`,
      );
    }
    const text = body.toString();
    if (status === 401 || status === 403) {
      const key =
        status === 401
          ? '; give the key it was started with (ROLLCALL_API_KEY, --api-key, or apiKey in code)'
          : '';
      throw new ConfigError(`${this.url}${path} answered ${status}: ${excerpt(text)}${key}`);
    }
    throw new HttpStatusError(this.url, path, status, text);
  }

  parse<R>(path: string, text: string): R {
    try {
      return JSON.parse(text) as R;
    } catch {
      throw new EngineError(`${this.url}${path} answered with something that is not JSON: ${excerpt(text)}`);
    }
  }

  /** The JSON of each server-sent event until `[DONE]`. A stream that ends before that throws. */
  async *events(
    path: string,
    { signal, rank, ...options }: CallOptions & { readonly rank: Rank },
  ): AsyncGenerator<unknown, void, void> {
    signal?.throwIfAborted();
    const decoder = new TextDecoder();
    let rest = '';
    let wake = () => {};
    const onBody = (bytes: Buffer) => {
      rest += decoder.decode(bytes, { stream: true });
      wake();
    };
    const read = (reply: HttpReply) => this.accept(path, reply);
    const exchange = this.start(path, () => options, read, { rank, onBody });
    const onAbort = () => exchange.cancel(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    let hasEnded = false;
    const end = exchange.reply.finally(() => {
      hasEnded = true;
      wake();
    });
    end.catch(() => {}); // awaited below, once what came before has been read
    try {
      for (;;) {
        const lines = rest.split('\n');
        rest = lines.pop()!;
        for (const line of lines) {
          if (!line.startsWith('data:')) continue;
          const data = line.slice(5).trim();
          if (data === '[DONE]') return;
          yield this.parse(path, data);
        }
        if (rest.includes('\n')) continue; // came while the reader was busy
        if (hasEnded) break;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      await end;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      exchange.cancel(new EngineError('its reader has left'));
    }
    throw new EngineError(`${this.url}${path}: the stream was cut before its end`);
  }

  close(): Promise<void> {
    this.#connections.close();
    return Promise.resolve();
  }

  #outgoing(path: string, { method = 'POST', body, headers = {} }: Outbound): Outgoing {
    const bytes =
      body === undefined ? NO_BODY : body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body));
    const type = body === undefined ? '' : 'content-type: application/json\r\n';
    const length = method === 'POST' ? `content-length: ${bytes.length}\r\n` : '';
    const lines = `${this.#headers}${headerLines(headers)}${type}${length}`;
    return { head: `${method} ${this.#prefix}${path} HTTP/1.1\r\n${lines}\r\n`, body: bytes };
  }

  async #exchange<R>(
    path: string,
    { signal, timeoutMs = this.#timeoutMs, ...options }: CallOptions,
    read: (reply: HttpReply) => R,
  ): Promise<R> {
    signal?.throwIfAborted();
    const exchange = this.start(path, () => options, read, { rank: 0 }); // its time is limited
    const onAbort = () => exchange.cancel(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    const late = () => exchange.cancel(new EngineError(`${this.url}${path}: no answer in ${timeoutMs} ms`));
    const timer = Number.isFinite(timeoutMs) ? setTimeout(late, timeoutMs) : undefined;
    try {
      return await exchange.reply;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    }
  }
}

const NO_BODY = Buffer.alloc(0);

/** `http://user:password@host`. */
function credentialsOf(header: string, { username, password }: URL): Record<string, string> {
  if (username === '' && password === '') return {};
  const both = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { [header]: `Basic ${Buffer.from(both).toString('base64')}` };
}

function headerLines(headers: Readonly<Record<string, string>>): string {
  let lines = '';
  for (const name in headers) {
    const value = headers[name]!;
    if (!/^[\w-]+$/.test(name) || /[^\t\x20-\x7e]/.test(value)) {
      throw new ConfigError(`header ${JSON.stringify(name)} has a character that a header cannot have`);
    }
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** A server that answered, and said no. */
export class HttpStatusError extends EngineError {
  readonly status: number;
  readonly text: string;
  constructor(url: string, path: string, status: number, text: string) {
    super(`${url}${path} answered ${status}: ${excerpt(text)}`, { reason: reasonOf(status, text) });
    this.status = status;
    this.text = text;
  }
}

/** A restarted server no longer has its adapters: another server may have them. */
function reasonOf(status: number, text: string): EngineError['reason'] {
  if (status === 429 || (status === 503 && /queue|full|busy|overload/i.test(text))) return 'busy';
  const isRefusal = status === 400 || status === 413 || status === 422;
  return isRefusal && !/lora|adapter/i.test(text) ? 'refused' : 'failed';
}

function excerpt(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line === '' ? '(nothing)' : line.length > 300 ? `${line.slice(0, 300)}…` : line;
}
