/** Answers as a recorded server did: the same call with the same body gets the same answer, and no other call gets any. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Recording } from './recorder.ts';

export async function startReplay({ pairs }: Recording): Promise<{
  readonly url: string;
  /** Calls that the recording does not have. */
  readonly unknown: readonly string[];
  close(): Promise<void>;
}> {
  const answers = new Map<string, { readonly status: number; readonly answer: unknown }[]>();
  const unknown: string[] = [];
  for (const { call, body, ...rest } of pairs) {
    const key = keyOf(call, body);
    answers.set(key, [...(answers.get(key) ?? []), rest]);
  }
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const part of request) text += part;
    const call = `${request.method} ${request.url}`;
    const left = answers.get(keyOf(call, text === '' ? undefined : JSON.parse(text)));
    const found = left && left.length > 1 ? left.shift() : left?.[0];
    if (!found) {
      unknown.push(`${call} ${text.slice(0, 400)}`);
      response.writeHead(501).end('not recorded');
      return;
    }
    const isText = typeof found.answer === 'string';
    response.writeHead(found.status, { 'content-type': isText ? 'text/event-stream' : 'application/json' });
    response.end(isText ? (found.answer as string) : JSON.stringify(found.answer));
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    unknown,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

const keyOf = (call: string, body: unknown) => `${call} ${JSON.stringify(body) ?? ''}`;
