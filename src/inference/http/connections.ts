import { EngineError } from '../../errors.ts';
import { type Address, Connection } from './connection.ts';

interface Idle {
  readonly connection: Connection;
  readonly until: number;
}

/**
 * The connections to one server, each with one request at a time, as many as there are requests: the gateway limits how
 * many a server gets. Connections are reused last-in, first-out, so surplus ones go idle and close.
 */
export class Connections {
  readonly #address: Address;
  readonly #connectMs: number;
  readonly #busy = new Set<Connection>();
  #idle: Idle[] = [];
  #sweeper: NodeJS.Timeout | undefined;

  constructor(address: Address, connectMs: number) {
    this.#address = address;
    this.#connectMs = connectMs;
  }

  /** To be given back or dropped. */
  take(): Connection {
    const now = performance.now();
    let connection: Connection | undefined;
    while (!connection && this.#idle.length > 0) {
      const last = this.#idle.pop()!;
      if (last.connection.isUsable && last.until > now) connection = last.connection;
      else last.connection.destroy(IDLE);
    }
    if (!connection) return this.open();
    this.#busy.add(connection);
    return connection;
  }

  /** A new one, to be given back or dropped. */
  open(): Connection {
    const connection = new Connection(this.#address, this.#connectMs);
    this.#busy.add(connection);
    return connection;
  }

  /** Its reply has been read; `idleMs` is how long it may wait for another request. */
  giveBack(connection: Connection, idleMs: number): void {
    const isKept = this.#busy.delete(connection) && idleMs > 0 && connection.isUsable;
    if (!isKept) {
      connection.destroy(IDLE);
      return;
    }
    connection.rest();
    this.#idle.push({ connection, until: performance.now() + idleMs });
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS).unref();
  }

  drop(connection: Connection, why: Error): void {
    this.#busy.delete(connection);
    connection.destroy(why);
  }

  close(): void {
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
    const open = [...this.#busy, ...this.#idle.map(({ connection }) => connection)];
    this.#busy.clear();
    this.#idle = [];
    for (const connection of open) connection.destroy(CLOSED);
  }

  #sweep(): void {
    const now = performance.now();
    const stays = ({ connection, until }: Idle) => connection.isUsable && until > now;
    for (const idle of this.#idle) if (!stays(idle)) idle.connection.destroy(IDLE);
    this.#idle = this.#idle.filter(stays);
    if (this.#idle.length > 0) return;
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }
}

const SWEEP_MS = 1000;
const IDLE = new EngineError('the connection was idle');
const CLOSED = new EngineError('the client was closed');
