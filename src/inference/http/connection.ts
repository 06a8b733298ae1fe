import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { EngineError } from '../../errors.ts';

import { type HttpReply, type OnBody, ReplyReader } from './reply-reader.ts';

/** The address of a server. */
export interface Address {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

export interface Opening {
  /** Time limit. */
  readonly openMs: number;
  /** Its first body asks for "100 Continue". */
  readonly asks: boolean;
  /** Once: it is open, or will never be; `failure` says why, unless it was destroyed here. */
  onOpened(failure?: Error): void;
  /** Once: the server has said something. An open connection may still wait in the kernel for a server to accept it. */
  onHeard(): void;
}

/** Who waits for a reply. */
export interface Receiver {
  readonly onBody: OnBody | undefined;
  /** The reply's body must be read at once. */
  replied(reply: HttpReply): void;
  /** `unheard`: the server closed the connection before it said anything, one that had been idle or one that was new. */
  failed(error: Error, unheard?: 'idle' | 'new'): void;
}

/**
 * The body follows at once, so a server need not answer; one that says "100 Continue" as soon as it reads (uvicorn, Node)
 * shows long before its reply that it has accepted the connection.
 */
const EXPECT = 'expect: 100-continue\r\n';

/** What every connection reads into: a reply that comes in one piece is never copied. */
const INCOMING = Buffer.allocUnsafeSlow(256 * 1024);

/**
 * One connection to a server: a request at a time, and its reply. undici keeps each request's body and about forty
 * objects alive until the server replies; with thousands in flight that doubles the cost (docs/benchmarks.md).
 */
export class Connection {
  readonly #socket: Socket;
  readonly #reader = new ReplyReader();
  #receiver: Receiver | undefined;
  /** Makes what is sent as soon as the connection is open. */
  #unsent: (() => Outgoing) | undefined;
  #isOpen = false;
  readonly #opening: Opening;
  /** Something has come on it. */
  #isOld = false;
  /** Something has come since the last request. */
  #hasHeard = false;
  /** Why it is of no use any more. */
  #broken: Error | undefined;

  constructor({ host, port, tls }: Address, opening: Opening) {
    this.#opening = opening;
    const options = {
      host,
      port,
      noDelay: true,
      keepAlive: true, // a machine that vanished says nothing else
      keepAliveInitialDelay: 60_000,
      onread: { buffer: INCOMING, callback: (size: number) => this.#read(size) },
    };
    this.#socket = tls
      ? connectTls({ ...options, ...(isIP(host) ? {} : { servername: host }) })
      : connectPlain(options);
    const late = () => this.#fail(new EngineError(`no connection in ${opening.openMs} ms`));
    const timer = setTimeout(late, opening.openMs);
    this.#socket.once(tls ? 'secureConnect' : 'connect', () => {
      clearTimeout(timer);
      if (this.#broken) return;
      this.#isOpen = true;
      if (this.#unsent) this.#write(this.#unsent);
      this.#unsent = undefined;
      opening.onOpened();
    });
    this.#socket.on('error', (error) => this.#fail(error));
    this.#socket.on('end', () => this.#ended());
    this.#socket.on('close', () => {
      clearTimeout(timer);
      this.#ended();
    });
  }

  /** A server that answers before it has read the whole request may take the rest for another. */
  get isUsable(): boolean {
    return this.#broken === undefined && this.#socket.writableLength === 0;
  }

  /** The one before has been answered. What `make` throws is told to the receiver. */
  send(make: () => Outgoing, receiver: Receiver): void {
    this.#receiver = receiver;
    this.#hasHeard = false;
    this.#socket.ref();
    if (this.#isOpen) this.#write(make);
    else this.#unsent = make;
  }

  /** No request is on it: it does not keep the process alive. */
  rest(): void {
    this.#socket.unref();
  }

  /** Rejects the reply that is being waited for, with the reason. */
  destroy(why: Error): void {
    this.#break(why, undefined);
  }

  /** The server, or the way to it, ended the connection. */
  #fail(why: Error): void {
    this.#break(why, why);
  }

  #break(why: Error, failure: Error | undefined): void {
    if (this.#broken) return;
    this.#broken = why;
    this.#unsent = undefined;
    this.#socket.destroy();
    const receiver = this.#receiver;
    this.#receiver = undefined;
    const isUnheard = failure !== undefined && this.#isOpen && !this.#hasHeard;
    receiver?.failed(why, isUnheard ? (this.#isOld ? 'idle' : 'new') : undefined);
    if (!this.#isOpen) this.#opening.onOpened(failure);
  }

  #write(make: () => Outgoing): void {
    let message: Outgoing;
    try {
      message = make();
    } catch (error) {
      this.destroy(error as Error);
      return;
    }
    const { head, body } = message;
    const asks = this.#opening.asks && !this.#isOld && body.length > 0;
    this.#socket.cork();
    this.#socket.write(asks ? `${head.slice(0, -2)}${EXPECT}\r\n` : head, 'latin1');
    if (body.length > 0) this.#socket.write(body);
    this.#socket.uncork();
  }

  #read(size: number): boolean {
    try {
      if (!this.#receiver) throw new EngineError('the server speaks without being asked');
      this.#hasHeard = true;
      if (!this.#isOld) {
        this.#isOld = true;
        this.#opening.onHeard();
      }
      this.#answer(this.#reader.feed(INCOMING.subarray(0, size), this.#receiver.onBody));
    } catch (error) {
      this.destroy(error as Error);
    }
    return true;
  }

  #ended(): void {
    if (this.#broken) return;
    this.#answer(this.#reader.end());
    this.#fail(new EngineError('the server closed the connection'));
  }

  #answer(reply: HttpReply | undefined): void {
    if (!reply) return;
    const receiver = this.#receiver;
    this.#receiver = undefined;
    receiver?.replied(reply);
  }
}

/** What goes out: the head with the empty line at its end, and bytes behind it. */
export interface Outgoing {
  readonly head: string;
  readonly body: Uint8Array;
}
