/** Stands before a server, hands everything on, and keeps what was asked and answered. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Pair {
  readonly step: string;
  /** `POST /generate`, with its query. */
  readonly call: string;
  readonly body?: unknown;
  readonly status: number;
  /** JSON where it is; the text of a stream or a page of metrics otherwise. */
  readonly answer: unknown;
}

/** A server as it was recorded. */
export interface Recording {
  readonly engine: 'sglang' | 'vllm';
  readonly release: string;
  /** How the server was started. */
  readonly flags: string;
  readonly pairs: readonly Pair[];
}

export async function startRecorder(target: string): Promise<{
  readonly url: string;
  readonly pairs: readonly Pair[];
  begin(step: string): void;
  close(): Promise<void>;
}> {
  const pairs: Pair[] = [];
  let step = 'before';
  const proxy = createServer(async (request, response) => {
    const at = step;
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const text = Buffer.concat(parts).toString();
    const { host: _, connection: __, 'content-length': ___, expect: ____, ...headers } = request.headers;
    try {
      const reply = await fetch(target + request.url, {
        method: request.method ?? 'GET',
        headers: headers as Record<string, string>,
        ...(text === '' ? {} : { body: text }),
      });
      const said = await reply.text();
      pairs.push({
        step: at,
        call: `${request.method} ${request.url}`,
        ...(text === '' ? {} : { body: JSON.parse(text) }),
        status: reply.status,
        answer: jsonOr(said),
      });
      response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type') ?? 'text/plain' });
      response.end(said);
    } catch {
      response.destroy();
    }
  });
  proxy.listen(0, '127.0.0.1');
  await new Promise((resolve) => proxy.once('listening', resolve));
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    pairs,
    begin: (name) => {
      step = name;
    },
    close: () => {
      proxy.closeAllConnections();
      return new Promise((resolve) => proxy.close(() => resolve()));
    },
  };
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
