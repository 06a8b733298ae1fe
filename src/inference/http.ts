/** HTTP as servers need it: JSON in and out, a time limit on every call, errors that name the server and the call. */
import { ConfigError, EngineError } from '../errors.ts';
import { type Exchanged, exchange } from './http-exchange.ts';
import { Sockets } from './sockets.ts';

export interface HttpOptions {
  /** Of calls that change or ask something; a reply has no limit of its own but its request's signal. */
  readonly timeoutMs?: number;
  /** For a socket to open. */
  readonly connectMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
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

export interface HttpReply {
  readonly status: number;
  readonly text: string;
}

/** One server's address and its sockets. */
export class HttpClient {
  readonly url: string;
  readonly #sockets: Sockets;
  readonly #timeoutMs: number;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(url: string, options: HttpOptions = {}) {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:') {
      throw new ConfigError(`server url is ${JSON.stringify(url)}; use one such as http://127.0.0.1:30000`);
    }
    this.url = parsed.origin;
    this.#timeoutMs = options.timeoutMs ?? 60_000;
    this.#headers = options.headers ?? {};
    this.#sockets = new Sockets(this.url, options.connectMs ?? 10_000);
  }

  /** The reply whatever its status; only a server that cannot be reached throws. */
  async call(path: string, options: CallOptions = {}): Promise<HttpReply> {
    const { status, bytes } = await this.#exchange(path, options);
    return { status, text: bytes.toString() };
  }

  /** The reply's JSON; another status than 200 throws what the server said. */
  async json<R>(path: string, options: CallOptions = {}): Promise<R> {
    return this.parse<R>(path, (await this.bytes(path, options)).toString());
  }

  /** The reply's bytes; another status than 200 throws what the server said. */
  async bytes(path: string, options: CallOptions = {}): Promise<Buffer> {
    const { status, bytes } = await this.#exchange(path, options);
    if (status < 200 || status > 299) throw new HttpStatusError(this.url, path, status, bytes.toString());
    return bytes;
  }

  parse<R>(path: string, text: string): R {
    try {
      return JSON.parse(text) as R;
    } catch {
      throw new EngineError(`${this.url}${path} answered with something that is not JSON: ${excerpt(text)}`);
    }
  }

  /** The JSON of each server-sent event until `[DONE]`. A stream that ends before that throws. */
  async *events(path: string, options: CallOptions): AsyncGenerator<unknown, void, void> {
    const { signal, ...request } = this.#request(path, { timeoutMs: Number.POSITIVE_INFINITY, ...options });
    const socket = this.#sockets.take();
    try {
      const { statusCode, body } = await socket.request({ ...request, ...(signal ? { signal } : {}) });
      if (statusCode !== 200) throw new HttpStatusError(this.url, path, statusCode, await body.text());
      const decoder = new TextDecoder();
      let rest = '';
      for await (const chunk of body) {
        rest += decoder.decode(chunk as Uint8Array, { stream: true });
        const lines = rest.split('\n');
        rest = lines.pop()!;
        for (const line of lines) {
          if (!line.startsWith('data:')) continue;
          const data = line.slice(5).trim();
          if (data === '[DONE]') return;
          yield this.parse(path, data);
        }
      }
    } catch (cause) {
      if (cause instanceof EngineError) throw cause;
      throw this.#broken(path, cause, options);
    } finally {
      this.#sockets.drop(socket);
    }
    throw new EngineError(`${this.url}${path}: the stream was cut before its end`);
  }

  async close(): Promise<void> {
    await this.#sockets.close();
  }

  async #exchange(path: string, options: CallOptions): Promise<Exchanged> {
    const { signal, ...request } = this.#request(path, options);
    const socket = this.#sockets.take();
    try {
      const reply = await exchange(socket, request, signal);
      this.#sockets.giveBack(socket);
      return reply;
    } catch (cause) {
      this.#sockets.drop(socket);
      throw this.#broken(path, cause, options);
    }
  }

  #request(
    path: string,
    { method = 'POST', body, headers, signal, timeoutMs = this.#timeoutMs }: CallOptions,
  ) {
    const limits = [signal, Number.isFinite(timeoutMs) ? AbortSignal.timeout(timeoutMs) : undefined];
    const given = limits.filter((one) => one !== undefined);
    const json = body === undefined ? {} : { 'content-type': 'application/json' };
    return {
      path,
      method,
      headers: { ...this.#headers, ...headers, ...json },
      body: body === undefined ? null : body instanceof Uint8Array ? body : JSON.stringify(body),
      signal: given.length > 1 ? AbortSignal.any(given) : given[0],
    };
  }

  #broken(path: string, cause: unknown, { signal, timeoutMs = this.#timeoutMs }: CallOptions): unknown {
    if (signal?.aborted) return signal.reason;
    const error = cause as Error & { code?: string };
    const what =
      error.name === 'TimeoutError' ? `no answer in ${timeoutMs} ms` : (error.code ?? error.message);
    return new EngineError(`${this.url}${path}: ${what}`, { cause });
  }
}

/** A server that answered, and said no. */
export class HttpStatusError extends EngineError {
  readonly status: number;
  constructor(url: string, path: string, status: number, text: string) {
    super(`${url}${path} answered ${status}: ${excerpt(text)}`);
    this.status = status;
  }
}

function excerpt(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line === '' ? '(nothing)' : line.length > 300 ? `${line.slice(0, 300)}…` : line;
}
