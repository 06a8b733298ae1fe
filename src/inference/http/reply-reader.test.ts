import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type HttpReply, ReplyReader } from './reply-reader.ts';

/** Feeds a reply cut at the given places, each piece in a buffer that is overwritten afterwards, as a socket's is. */
function read(bytes: Buffer, cuts: readonly number[] = [], onBody?: (bytes: Buffer) => void) {
  const reader = new ReplyReader();
  const places = [0, ...[...cuts].sort((a, b) => a - b), bytes.length];
  let reply: HttpReply | undefined;
  for (let piece = 1; piece < places.length; piece++) {
    const fed = Buffer.from(bytes.subarray(places[piece - 1], places[piece]));
    const whole = reader.feed(fed, onBody);
    if (whole) reply = { ...whole, body: Buffer.from(whole.body) };
    fed.fill(0);
  }
  return reply ?? reader.end();
}

const framing = fc.constantFrom('length', 'chunks', 'end');
const reply = fc
  .record({
    framing,
    status: fc.constantFrom(200, 404, 429, 503),
    body: fc.uint8Array({ minLength: 1, maxLength: 300 }),
    chunk: fc.integer({ min: 1, max: 80 }),
    interim: fc.boolean(),
    upper: fc.boolean(),
  })
  .map(({ framing: by, status, body, chunk, interim, upper }) => {
    const name = (text: string) => (upper ? text.toUpperCase() : text);
    const head = (extra: string) =>
      Buffer.from(`HTTP/1.1 ${status} Said\r\n${name('Date')}: now\r\n${extra}\r\n`);
    const parts = [interim ? Buffer.from('HTTP/1.1 100 Continue\r\n\r\n') : Buffer.alloc(0)];
    if (by === 'length') parts.push(head(`${name('Content-Length')}: ${body.length}\r\n`), Buffer.from(body));
    else if (by === 'end') parts.push(head(''), Buffer.from(body));
    else {
      parts.push(head(`${name('Transfer-Encoding')}: chunked\r\n`));
      for (let from = 0; from < body.length; from += chunk) {
        const part = body.subarray(from, from + chunk);
        parts.push(
          Buffer.from(`${part.length.toString(16)};x=1\r\n`),
          Buffer.from(part),
          Buffer.from('\r\n'),
        );
      }
      parts.push(Buffer.from('0\r\nA-Trailer: 1\r\n\r\n'));
    }
    return { framing: by, status, body: Buffer.from(body), bytes: Buffer.concat(parts) };
  });

describe('a reply', () => {
  test('is the same however it is framed and its bytes are cut', () => {
    fc.assert(
      fc.property(
        reply,
        fc.array(fc.nat(400), { maxLength: 12 }),
        ({ bytes, status, body, framing }, cuts) => {
          const inside = cuts.map((cut) => Math.min(cut, bytes.length));
          const got = read(bytes, inside)!;
          expect(got.status).toBe(status);
          expect(got.body.equals(body)).toBe(true);
          expect(got.idleMs > 0).toBe(framing !== 'end');
          const everywhere = Array.from({ length: bytes.length }, (_, at) => at);
          expect(read(bytes, everywhere)!.body.equals(body)).toBe(true);
        },
      ),
    );
  });

  test('that is wanted as it comes is told in pieces, unless it is a refusal', () => {
    fc.assert(
      fc.property(reply, fc.array(fc.nat(400), { maxLength: 12 }), ({ bytes, status, body }, cuts) => {
        const told: Buffer[] = [];
        const inside = cuts.map((cut) => Math.min(cut, bytes.length));
        const got = read(bytes, inside, (piece) => told.push(Buffer.from(piece)))!;
        const [streamed, kept] = status === 200 ? [body, Buffer.alloc(0)] : [Buffer.alloc(0), body];
        expect(Buffer.concat(told).equals(streamed)).toBe(true);
        expect(got.body.equals(kept)).toBe(true);
      }),
    );
  });

  test('follows another on the same connection', () => {
    const reader = new ReplyReader();
    const one = (text: string) =>
      Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\n\r\n${text}`);
    expect(reader.feed(one('first'))?.body.toString()).toBe('first');
    expect(reader.feed(one('second'))?.body.toString()).toBe('second');
    expect(reader.feed(Buffer.from('HTTP/1.1 204 Nothing\r\n\r\n'))).toMatchObject({ status: 204 });
    expect(reader.feed(Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))?.body.length).toBe(0);
    const chunked =
      'HTTP/1.1 200 OK\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n';
    expect(reader.feed(Buffer.from(chunked))?.body.toString()).toBe('hi'); // the coding goes before the length
    expect(reader.end()).toBeUndefined();
  });

  test.each([
    ['', 4000],
    ['connection: close\r\n', 0],
    ['Connection: Keep-Alive\r\nKeep-Alive: max=9, timeout=3\r\n', 2000],
    ['keep-alive: timeout=60\r\n', 4000],
    ['keep-alive: timeout=1\r\n', 0],
  ])('says how long its connection may be idle: %j', (lines, idleMs) => {
    const bytes = Buffer.from(`HTTP/1.1 200 OK\r\n${lines}content-length: 2\r\n\r\n{}`);
    expect(read(bytes)!.idleMs).toBe(idleMs);
    expect(read(Buffer.from(bytes.toString().replace('1.1', '1.0')))!.idleMs).toBe(0);
  });

  test.each([
    ['SSH-2.0-OpenSSH_9.6\r\n\r\n', 'is not HTTP: "SSH-2.0'],
    ['HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\n{}', 'a length of "-4"'],
    ['HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1', 'goes on after its end'],
    ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n', 'has the size "zz"'],
    ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n', 'goes on after its end'],
    [`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}`, 'has no end'],
  ])('that breaks the rules is refused: %j', (text, what) => {
    expect(() => read(Buffer.from(text))).toThrow(what);
  });

  test('that was cut is none', () => {
    expect(read(Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf'))).toBeUndefined();
    expect(read(Buffer.from('HTTP/1.1 200'))).toBeUndefined();
  });
});
