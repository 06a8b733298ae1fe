/**
 * The door's HTTP server. Bodies are read and answers written here, without `Request` and `Response` between: they would take
 * more time than everything else that a turn needs of the door.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { parseJson, tooLarge } from '../read-body.ts';
import type { Answer } from './answer.ts';

/** A request as the door reads it. */
export interface DoorRequest {
  readonly method: string;
  readonly path: string;
  /** `name` is in lower case. */
  header(name: string): string | undefined;
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal;
  body(): Promise<unknown>;
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  readonly secondsPerBody: number;
  answer(request: DoorRequest): Promise<Answer>;
}

/** Longer than clients keep a connection for their next request (90 s at most): the side that closes first must be theirs. */
const KEEP_ALIVE_MS = 120_000;
/** Thousands of attempts connect at once; Node's own 511 would have the kernel drop some of them. */
const BACKLOG = 4096;

export function listen({ host, port, secondsPerBody, answer }: ListenOptions): Promise<Server> {
  const limits = {
    requestTimeout: 1000 * secondsPerBody,
    headersTimeout: 1000 * secondsPerBody,
    connectionsCheckingInterval: Math.min(30_000, 250 * secondsPerBody),
    keepAliveTimeout: KEEP_ALIVE_MS,
  };
  return new Promise((resolve, reject) => {
    const server = createServer(limits, (incoming, outgoing) => {
      const gone = new AbortController();
      outgoing.once('close', () => {
        if (!outgoing.writableFinished) gone.abort(new Error('the client hung up'));
      });
      void answer({
        method: incoming.method!,
        path: incoming.url!.split('?', 1)[0]!,
        header: (name) => [incoming.headers[name]].flat()[0],
        signal: gone.signal,
        body: () => readIncoming(incoming),
      })
        .then((made) => write(made, outgoing))
        .catch(() => outgoing.destroy());
    });
    server.once('error', reject);
    server.listen({ host, port, backlog: BACKLOG }, () => resolve(server));
    server.unref();
  });
}

async function readIncoming(incoming: IncomingMessage): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  tooLarge(Number(incoming.headers['content-length'] ?? 0));
  for await (const chunk of incoming as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    tooLarge(bytes);
    chunks.push(chunk);
  }
  return parseJson(chunks.length === 1 ? String(chunks[0]) : Buffer.concat(chunks).toString('utf8'));
}

async function write({ status, headers, body }: Answer, outgoing: ServerResponse): Promise<void> {
  if (typeof body === 'string') {
    outgoing.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
    outgoing.end(body);
    return;
  }
  outgoing.writeHead(status, headers);
  const reader = body.getReader();
  outgoing.once('close', () => void reader.cancel().catch(() => {}));
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    if (!outgoing.write(next.value) && !outgoing.destroyed) {
      await new Promise<void>((resolve) => {
        outgoing.once('drain', resolve).once('close', resolve);
      });
    }
  }
  outgoing.end();
}
