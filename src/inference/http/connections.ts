import { EngineError } from '../../errors.ts';
import type { Connection, Opening } from './connection.ts';

interface Idle {
  readonly connection: Connection;
  readonly until: number;
}

/** Whose turn it is where connections are waited for: the lower first, then who came first. */
export type Rank = 0 | 1 | 2;

/** Who wants a connection. */
export interface Taker {
  readonly rank: Rank;
  /** Now it has one, to be given back or dropped. It may not be open yet. */
  connected(connection: Connection): void;
  /** None could be opened. */
  failed(why: Error): void;
}

/**
 * The connections to one server, each with one request at a time, as many as there are requests: the gateway limits how
 * many a server gets. Few are new at once: of those that a busy server has not accepted yet, it refuses or forgets what
 * is beyond its queue (uvicorn's holds 2,048), though Linux may call them open. One on which the server has said something
 * was accepted, and so were those that opened before it: servers accept in order. Who waits gets the first that is opened
 * or free. Connections are reused last-in, first-out, so surplus ones go idle and close.
 */
export class Connections {
  readonly #connect: (opening: Opening) => Connection;
  readonly #connectMs: number;
  readonly #busy = new Set<Connection>();
  readonly #opening = new Set<Connection>();
  /** Open for all we know, but perhaps not accepted; in the order in which they opened. */
  readonly #unheard = new Set<Connection>();
  /** By rank, each in order of arrival. */
  readonly #waiting = [new Set<Taker>(), new Set<Taker>(), new Set<Taker>()] as const;
  /** Their new connections were closed at once: they wait for one that works. */
  readonly #refused = new Set<Taker>();
  #idle: Idle[] = [];
  #sweeper: NodeJS.Timeout | undefined;

  constructor(connect: (opening: Opening) => Connection, connectMs: number) {
    this.#connect = connect;
    this.#connectMs = connectMs;
  }

  take(taker: Taker): void {
    if (!this.#takeIdle(taker)) this.takeNew(taker);
  }

  /** One that no request has used before, or that has just answered one. */
  takeNew(taker: Taker): void {
    if (this.#hasRoom()) this.#open(taker);
    else this.#waiting[taker.rank].add(taker);
  }

  /**
   * The next that is free: the server closed a new one at once, as one without open files left does, and others are in use.
   * False where none is.
   */
  takeFreed(taker: Taker): boolean {
    if (this.#takeIdle(taker)) return true;
    if (this.#busy.size <= this.#opening.size) return false;
    this.#refused.add(taker);
    return true;
  }

  /** It does not want a connection any more. */
  leave(taker: Taker): void {
    this.#waiting[taker.rank].delete(taker);
    this.#refused.delete(taker);
  }

  /** Its reply has been read; `idleMs` is how long it may wait for another request. */
  giveBack(connection: Connection, idleMs: number): void {
    const isKept = this.#busy.has(connection) && idleMs > 0 && connection.isUsable;
    if (!isKept) {
      this.drop(connection, IDLE);
      return;
    }
    const [next = this.#next()] = this.#refused;
    if (next) {
      this.leave(next);
      next.connected(connection);
      return;
    }
    this.#busy.delete(connection);
    connection.rest();
    this.#idle.push({ connection, until: performance.now() + idleMs });
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS).unref();
  }

  drop(connection: Connection, why: Error): void {
    this.#busy.delete(connection);
    this.#unheard.delete(connection);
    connection.destroy(why);
    this.#openNext();
    if (this.#refused.size === 0 || this.#busy.size > this.#opening.size) return;
    // None is left that could be freed.
    const refused = [...this.#refused];
    this.#refused.clear();
    for (const taker of refused) this.takeNew(taker);
  }

  close(): void {
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
    const waiting = this.#allWaiting();
    const open = [...this.#busy, ...this.#idle.map(({ connection }) => connection)];
    this.#busy.clear();
    this.#unheard.clear();
    this.#idle = [];
    for (const connection of open) connection.destroy(CLOSED);
    for (const taker of waiting) taker.failed(CLOSED);
  }

  #takeIdle(taker: Taker): boolean {
    const now = performance.now();
    while (this.#idle.length > 0) {
      const { connection, until } = this.#idle.pop()!;
      if (connection.isUsable && until > now) {
        this.#busy.add(connection);
        taker.connected(connection);
        return true;
      }
      connection.destroy(IDLE);
    }
    return false;
  }

  #open(taker: Taker): void {
    const connection = this.#connect({
      // Where others are open the server is there, and only slow to accept.
      openMs: this.#connectMs * (this.#hasOpen() ? PATIENCE : 1),
      asks: this.#opening.size + this.#unheard.size >= MANY_NEW,
      onOpened: (why) => this.#opened(connection, why),
      onHeard: () => this.#heard(connection),
    });
    this.#busy.add(connection);
    this.#opening.add(connection);
    taker.connected(connection);
  }

  /** `why` it could not be opened. */
  #opened(connection: Connection, why: Error | undefined): void {
    this.#opening.delete(connection);
    if (why) this.#busy.delete(connection);
    else if (this.#busy.has(connection)) this.#unheard.add(connection);
    if (why && !this.#hasOpen()) {
      // The server is gone: thousands do not find that out one after another.
      for (const taker of this.#allWaiting()) taker.failed(why);
      return;
    }
    this.#openNext();
  }

  #heard(connection: Connection): void {
    if (!this.#unheard.has(connection)) return; // known since a later one was heard
    for (const accepted of this.#unheard) {
      this.#unheard.delete(accepted);
      if (accepted === connection) break;
    }
    this.#openNext();
  }

  #hasRoom(): boolean {
    return this.#opening.size < OPENING_AT_ONCE && this.#opening.size + this.#unheard.size < NEW_AT_ONCE;
  }

  #openNext(): void {
    for (let next = this.#next(); next && this.#hasRoom(); next = this.#next()) {
      this.leave(next);
      this.#open(next);
    }
  }

  #next(): Taker | undefined {
    for (const waiting of this.#waiting) for (const taker of waiting) return taker;
    return undefined;
  }

  #hasOpen(): boolean {
    return this.#busy.size > this.#opening.size || this.#idle.length > 0;
  }

  #allWaiting(): Taker[] {
    const all = [this.#refused, ...this.#waiting];
    const takers = all.flatMap((waiting) => [...waiting]);
    for (const waiting of all) waiting.clear();
    return takers;
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

const OPENING_AT_ONCE = 64;
/** A quarter of uvicorn's queue: other clients may use the server too. */
const NEW_AT_ONCE = 512;
/** Fewer need not ask to be answered early: some proxies cannot pass that on. */
const MANY_NEW = 32;
/** How many times longer a connection may take to open where others are open. */
const PATIENCE = 6;
const SWEEP_MS = 1000;
const IDLE = new EngineError('the connection was idle');
const CLOSED = new EngineError('the client was closed');
