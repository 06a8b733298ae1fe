import { ConfigError, EngineError } from '../../errors.ts';
import type { Connection, Outgoing, Receiver } from './connection.ts';
import type { Connections, Rank, Taker } from './connections.ts';
import type { HttpReply, OnBody } from './reply-reader.ts';

export interface StartOptions {
  readonly rank: Rank;
  /** Takes the reply's body as it comes. */
  readonly onBody?: OnBody;
}

/**
 * One request and its reply. Thousands wait at once, so it is one object and one promise, and does not keep what was sent:
 * `write` makes it again where it must be sent again, on a connection that the server had just closed as idle.
 */
export class Exchange<R> implements Receiver, Taker {
  readonly reply: Promise<R>;
  readonly rank: Rank;
  readonly onBody: OnBody | undefined;
  readonly #connections: Connections;
  /** Undefined while it waits for one. */
  #connection: Connection | undefined;
  readonly #write: () => Outgoing;
  readonly #where: string;
  readonly #read: (reply: HttpReply) => R;
  #resolve!: (reply: R) => void;
  #reject!: (reason: unknown) => void;
  #settled = false;
  #wasRefused = false;

  /** `where` is for errors: server and path. `read` makes of a reply what is wanted of it, or throws. */
  constructor(
    connections: Connections,
    write: () => Outgoing,
    where: string,
    read: (reply: HttpReply) => R,
    { rank, onBody }: StartOptions,
  ) {
    this.#connections = connections;
    this.#write = write;
    this.#where = where;
    this.#read = read;
    this.rank = rank;
    this.onBody = onBody;
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    connections.take(this);
  }

  connected(connection: Connection): void {
    this.#connection = connection;
    connection.send(this.#write, this);
  }

  /** The reply is not wanted any more: it is rejected with the reason at once, and the server sees its connection close. */
  cancel(reason: unknown): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#reject(reason);
    if (this.#connection) this.#connections.drop(this.#connection, CANCELLED);
    else this.#connections.leave(this);
  }

  replied(reply: HttpReply): void {
    this.#settled = true;
    this.#connections.giveBack(this.#connection!, reply.idleMs);
    try {
      this.#resolve(this.#read(reply));
    } catch (error) {
      this.#reject(error);
    }
  }

  failed(cause: Error & { readonly code?: string }, unheard?: 'idle' | 'new'): void {
    if (this.#settled) return;
    if (this.#connection) this.#connections.drop(this.#connection, cause);
    this.#connection = undefined;
    if (unheard === 'idle') {
      this.#connections.takeNew(this);
      return;
    }
    const isRefused = unheard === 'new' && !this.#wasRefused;
    this.#wasRefused ||= isRefused;
    if (isRefused && this.#connections.takeFreed(this)) return;
    this.#settled = true;
    if (cause instanceof ConfigError) this.#reject(cause);
    else this.#reject(new EngineError(`${this.#where}: ${cause.code ?? cause.message}`, { cause }));
  }
}

const CANCELLED = new EngineError('the request was given up');
