import { buildConnector, Client } from 'undici';

/**
 * The sockets to one server, each with one request at a time, as many as there are requests: how many a server gets at
 * once is the gateway's business. The one used last is used next, so that those too many fall idle and close. (A `Pool`
 * of undici searches all its sockets for a free one, which at thousands costs more than the request.)
 */
export class Sockets {
  readonly #origin: string;
  readonly #options: Client.Options;
  readonly #open = new Set<Client>();
  readonly #free: Client[] = [];

  constructor(origin: string, connectMs: number) {
    this.#origin = origin;
    this.#options = {
      connect: buildConnector({ timeout: connectMs }), // one for all: each has a cache of sessions
      headersTimeout: 0, // a reply may take minutes; calls bring their own limits
      bodyTimeout: 0,
      keepAliveTimeout: 4000, // below the 5 s after which uvicorn closes an idle socket
    };
  }

  /** To be given back or dropped. */
  take(): Client {
    const free = this.#free.pop();
    if (free) return free;
    const socket = new Client(this.#origin, this.#options);
    this.#open.add(socket);
    return socket;
  }

  /** Its reply has been read to the end. */
  giveBack(socket: Client): void {
    if (this.#open.has(socket)) this.#free.push(socket);
  }

  drop(socket: Client): void {
    if (this.#open.delete(socket)) socket.destroy().catch(() => {});
  }

  async close(): Promise<void> {
    const open = [...this.#open];
    this.#open.clear();
    this.#free.length = 0;
    await Promise.all(open.map((socket) => socket.destroy()));
  }
}
