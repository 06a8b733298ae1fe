import { EngineError } from '../../../src/errors.ts';
import { type HttpReply, ReplyReader } from '../../../src/inference/http/reply-reader.ts';
import type { FuzzTarget } from '../target.ts';

/** The first reply of a connection, its bytes cut into pieces of `size`; undefined where it is refused. */
function read(bytes: Buffer, size: number): string | undefined {
  const reader = new ReplyReader();
  let reply: HttpReply | undefined;
  try {
    for (let at = 0; at < bytes.length && !reply; at += size)
      reply = reader.feed(bytes.subarray(at, at + size));
    reply ??= reader.end();
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    return undefined;
  }
  return JSON.stringify(reply && [reply.status, reply.body.toString('latin1'), reply.idleMs, reply.location]);
}

const reply = (head: string, body: string) => `HTTP/1.1 ${head}\r\n\r\n${body}`;

/** The reader of HTTP replies. How the network cuts a single reply must make no difference. */
export const target: FuzzTarget = {
  name: 'http-reply',
  seeds: () => [
    reply('200 OK\r\nContent-Length: 5', 'hello'),
    reply('200 OK\r\nTransfer-Encoding: chunked', '5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: a\r\n\r\n'),
    reply('503 Busy\r\nRetry-After: 1\r\nConnection: close', 'until the end'),
    reply('100 Continue', reply('204 None\r\nKeep-Alive: timeout=5', '')),
    reply('307 There\r\nLocation: http://x/y\r\nContent-Length: 0', ''),
  ],
  words: [
    '\r\n',
    '\r\n\r\n',
    'Content-Length: ',
    'Transfer-Encoding: chunked',
    'HTTP/1.1 200',
    '0\r\n\r\n',
    'ffffffff',
  ],
  run: (bytes) => {
    const ways = [1, 3, bytes.length].map((size) => read(bytes, Math.max(1, size)));
    const different = new Set(ways.filter((way) => way !== undefined)); // bytes after the end are refused if they come with it
    if (different.size > 1)
      throw new TypeError(`it depends on how it is cut: ${[...different].join(' or ')}`);
  },
};
