/** One connection to a PyTorch worker: calls go out, replies come back in order. */
import { connect, type Socket } from 'node:net';
import { ConfigError, TrainerError } from '../errors.ts';
import type { Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { encodeFrame, type Frame, FrameReader, PROTOCOL, type WireArray } from './frames.ts';

export interface WorkerAddress {
  readonly host: string;
  readonly port: number;
  readonly token: string;
}

export interface Reply {
  readonly values: Readonly<Record<string, unknown>>;
  readonly arrays: ReadonlyMap<string, WireArray>;
}

type Arrays = ReadonlyMap<string, WireArray>;

interface Waiting {
  resolve(reply: Reply): void;
  reject(error: Error): void;
}

const NO_ARRAYS: Arrays = new Map();

export interface ConnectionOptions {
  /** A worker that takes longer for one call is hung. */
  readonly secondsPerCall: number;
  readonly clock: Clock;
  readonly onNotice: (line: string) => void;
}

/** Connects and proves itself with the token. */
export async function connectWorker(
  { host, port, token }: WorkerAddress,
  options: ConnectionOptions,
): Promise<WorkerConnection> {
  const socket = connect({ host, port, noDelay: true });
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', (error) =>
      reject(new TrainerError(`no PyTorch worker at ${host}:${port}: ${error.message}`)),
    );
  });
  const connection = new WorkerConnection(socket, options);
  const welcome = await connection.call('hello', { protocol: PROTOCOL, token });
  connection.description = describe(welcome.values);
  return connection;
}

interface Lost {
  readonly error: TrainerError;
  /** How many tokens at once did not fit, where that was the cause. */
  readonly tokensTooMany: number | undefined;
}

export class WorkerConnection {
  /** One line: versions, device and number of ranks. */
  description = '';
  /** Why no more calls are answered; undefined as long as they are. */
  lost: Lost | undefined;
  readonly #socket: Socket;
  readonly #reader = new FrameReader();
  readonly #waiting = new Map<number, Waiting>();
  readonly #options: ConnectionOptions;
  #calls = 0;
  #tokensTooMany: number | undefined;

  constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.removeAllListeners('error');
    socket.on('data', (chunk) => this.#receive(chunk));
    socket.on('error', (error) => this.#end(error.message));
    socket.on('close', () => this.#end('the connection ended'));
    socket.unref();
  }

  /** An aborted call ends at the worker's next micro-batch. */
  async call(
    call: string,
    params: Readonly<Record<string, unknown>>,
    arrays: Arrays = NO_ARRAYS,
    signal?: AbortSignal,
  ): Promise<Reply> {
    signal?.throwIfAborted();
    if (this.lost) throw this.lost.error;
    const id = ++this.#calls;
    const abandon = () => this.#send({ header: { call: 'abandon', params: { id } }, arrays: NO_ARRAYS });
    signal?.addEventListener('abort', abandon, { once: true });
    const { clock, secondsPerCall } = this.#options;
    const hung = () => this.#end(`${call} took longer than ${secondsPerCall} s`);
    const inTime = clock.timer(1000 * secondsPerCall, hung);
    try {
      return await new Promise<Reply>((resolve, reject) => {
        this.#waiting.set(id, { resolve, reject });
        this.#socket.ref();
        this.#send({ header: { id, call, params }, arrays });
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      inTime();
      signal?.removeEventListener('abort', abandon);
    }
  }

  close(): void {
    this.#end('the trainer is closed');
  }

  #send(frame: Frame): void {
    this.#socket.cork();
    for (const part of encodeFrame(frame)) this.#socket.write(part);
    this.#socket.uncork();
  }

  #receive(chunk: Uint8Array): void {
    try {
      for (const frame of this.#reader.push(chunk)) this.#deliver(frame);
    } catch (error) {
      this.#end(messageOf(error));
    }
  }

  #deliver({ header, arrays }: Frame): void {
    if (typeof header['notice'] === 'string') {
      this.#options.onNotice(header['notice']);
      return;
    }
    const error = header['error'] as Readonly<Record<string, unknown>> | undefined;
    const waiting = this.#waiting.get(Number(header['id']));
    this.#waiting.delete(Number(header['id']));
    if (this.#waiting.size === 0) this.#socket.unref();
    if (error) {
      if (error['kind'] === 'OutOfMemory') this.#tokensTooMany = Number(error['tokens']);
      const failure = toError(String(error['kind']), String(error['message']));
      waiting?.reject(failure);
      if (error['ends'] === true || !waiting) this.#end(failure.message);
    } else waiting?.resolve({ values: (header['reply'] ?? {}) as Reply['values'], arrays });
  }

  #end(why: string): void {
    if (this.lost) return;
    this.lost = {
      error: new TrainerError(`the PyTorch worker is gone: ${why}`),
      tokensTooMany: this.#tokensTooMany,
    };
    this.#socket.destroy();
    for (const { reject } of this.#waiting.values()) reject(this.lost.error);
    this.#waiting.clear();
  }
}

function toError(kind: string, message: string): Error {
  if (kind === 'ConfigError') return new ConfigError(message);
  if (kind === 'TrainerError') return new TrainerError(message);
  return new TrainerError(`the PyTorch trainer failed: ${kind}: ${message}`);
}

function describe({ version, torch, transformers, ranks, device }: Reply['values']): string {
  return `rollcall-torch ${version}, torch ${torch}, transformers ${transformers}, ${ranks} × ${device}`;
}
