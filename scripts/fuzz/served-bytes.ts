import { createServer } from 'node:net';
import type { GenerateRequest } from '../../src/inference/server.ts';

export interface ServedBytes {
  readonly url: string;
  /** What the next requests are answered with. */
  set(type: string, body: Uint8Array): void;
}

/** A server that answers every POST with the same bytes and hangs up; what a GET asks about it is answered soundly. */
export async function servedBytes(): Promise<ServedBytes> {
  const answerOf = (type: string, body: Uint8Array) =>
    Buffer.concat([
      Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\nconnection: close\r\n\r\n`),
      body,
    ]);
  const named = answerOf('application/json', Buffer.from('{"data":[{"id":"m","max_model_len":4096}]}'));
  let answer = named;
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {});
    socket.once('data', (bytes) => socket.end(bytes.toString('latin1', 0, 4) === 'GET ' ? named : answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    set: (type, body) => {
      answer = answerOf(type, body);
    },
  };
}

export function askedOf(streams: boolean): GenerateRequest {
  return {
    id: 'request',
    trajectory: 'trajectory',
    prompt: Int32Array.of(1, 2, 3),
    sampling: {
      ...{ temperature: 1, topP: 1, topK: -1, minP: 0, repetitionPenalty: 1 },
      ...{ presencePenalty: 0, frequencyPenalty: 0, maxTokens: 8, stopIds: [0], stopStrings: [], seed: 1 },
    },
    scorePrompt: true,
    ...(streams ? { onTokens: () => {} } : {}),
  };
}

export const events = (...parts: readonly unknown[]) =>
  parts.map((part) => `data: ${typeof part === 'string' ? part : JSON.stringify(part)}\n\n`).join('');
