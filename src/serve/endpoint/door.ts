/**
 * The door for clients from outside: one HTTP server for all trajectories of a run, opened by the first that needs it. Each
 * trajectory has a path and a key of its own. A key is a hash of the path, so none has to be kept.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Door, Endpoint, EndpointOptions, EndpointSetup, OpenEndpoint } from '../../agent/endpoint.ts';
import { dialectOf } from '../dialects/by-path.ts';
import { readBody } from '../read-body.ts';
import { type Answer, responseOf } from './answer.ts';
import { type DoorRequest, listen } from './listen.ts';
import { Refusal, refuse, trajectoryEnded } from './refusal.ts';
import { Session, type SessionOptions } from './session.ts';

/** Where the door listens, and what it does with requests that training cannot simply obey. */
export interface DoorOptions extends SessionOptions {
  readonly host?: string;
  /** 0 takes a free one. */
  readonly port?: number;
  /** How clients elsewhere reach it; by default `http://HOST:PORT`. */
  readonly publicUrl?: string | null;
  /** A request whose body is not there by then is cut; long, because a busy machine may be the slow one. */
  readonly secondsPerBody?: number;
}

/** How each of the latest trajectories ended, for clients that come too late. */
const REMEMBERED_ENDS = 4096;

/** Opens a door; it listens once the first endpoint is opened. */
export function openDoor(options: DoorOptions): Door & { close(): Promise<void> } {
  return new EndpointDoor(options);
}

class EndpointDoor implements Door {
  readonly #options: DoorOptions;
  readonly #secret = randomBytes(32);
  readonly #sessions = new Map<string, Session>();
  readonly #ends = new Map<string, string>();
  #count = 0;
  #listening: Promise<Server> | undefined;

  constructor(options: DoorOptions) {
    this.#options = options;
  }

  async open(setup: EndpointSetup): Promise<OpenEndpoint> {
    const origin = await this.#origin();
    const name = `${setup.id.replace(/[^\w-]+/g, '.')}.${++this.#count}`;
    const apiKey = this.#keyOf(name);
    const session = new Session(name, apiKey, setup, this.#options);
    this.#sessions.set(name, session);
    const url = `${origin}/t/${name}`;
    const shared = {
      apiKey,
      fetch: async (input: string | URL | Request, init?: RequestInit) =>
        responseOf(await this.#answer(requestOf(new Request(input, init)))),
      completed: session.completed,
    };
    return {
      of: ({ agent }: EndpointOptions): Endpoint => {
        const base = agent === undefined ? url : `${url}/agents/${encodeURIComponent(agent)}`;
        return { ...shared, url, openai: `${base}/v1`, anthropic: base };
      },
      use: () => session.use(),
      close: () => {
        this.#sessions.delete(name);
        this.#ends.set(name, setup.ended() ?? 'closed');
        if (this.#ends.size > REMEMBERED_ENDS) this.#ends.delete(this.#ends.keys().next().value!);
      },
    };
  }

  async close(): Promise<void> {
    const server = await this.#listening;
    this.#listening = undefined;
    if (!server) return;
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  }

  async #answer(request: DoorRequest): Promise<Answer> {
    const { path: whole } = request;
    let dialect = dialectOf('');
    try {
      const [, name, named, path] = /^\/t\/([^/]+)(?:\/agents\/([^/]+))?(\/.*)$/.exec(whole) ?? [];
      if (name === undefined) throw new Refusal(404, 'not_found', `${whole} is not served here`);
      dialect = dialectOf(path!);
      const session = this.#sessions.get(name);
      this.#checkKey(name, session?.apiKey ?? this.#keyOf(name), request);
      if (!session) throw trajectoryEnded(this.#ends.get(name) ?? 'some time ago');
      return await session.handle({
        method: request.method,
        path: path!,
        agent: agentOf(named, request),
        signal: request.signal,
        body: request.body,
      });
    } catch (error) {
      return refuse(error, dialect);
    }
  }

  #keyOf(name: string): string {
    return `rc-${createHmac('sha256', this.#secret).update(name).digest('base64url')}`;
  }

  #checkKey(name: string, key: string, { header }: DoorRequest): void {
    const bearer = /^Bearer (.*)$/i.exec(header('authorization') ?? '')?.[1];
    const given = Buffer.from(header('x-api-key') ?? bearer ?? '');
    const right = Buffer.from(key);
    if (given.length === right.length && timingSafeEqual(given, right)) return;
    throw new Refusal(
      401,
      'invalid_api_key',
      `the key does not open ${name}; send the apiKey of its endpoint`,
    );
  }

  async #origin(): Promise<string> {
    this.#listening ??= this.#listen();
    const server = await this.#listening;
    const { publicUrl, host = '127.0.0.1' } = this.#options;
    if (publicUrl) return publicUrl.replace(/\/$/, '');
    const { port } = server.address() as AddressInfo;
    return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  }

  #listen(): Promise<Server> {
    const { host = '127.0.0.1', port = 0, secondsPerBody = 300 } = this.#options;
    return listen({ host, port, secondsPerBody, answer: (request) => this.#answer(request) });
  }
}

/** A request of a client in this process. */
function requestOf(request: Request): DoorRequest {
  return {
    method: request.method,
    path: new URL(request.url).pathname,
    header: (name) => request.headers.get(name) ?? undefined,
    signal: request.signal,
    body: () => readBody(request),
  };
}

function agentOf(named: string | undefined, { header }: DoorRequest): string | undefined {
  const agent = named === undefined ? header('x-rollcall-agent') : decodeURIComponent(named);
  if (agent === undefined) return undefined;
  if (/^[\w.-]{1,64}$/.test(agent)) return agent;
  throw new Refusal(
    400,
    'invalid_request',
    `the agent's name is ${JSON.stringify(agent)}; use letters, digits, - and _`,
  );
}
