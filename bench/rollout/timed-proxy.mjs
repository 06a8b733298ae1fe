/**
 * Passes connections on to a server and notes how long it took for each request: from the last byte of the request to the last
 * byte of the reply. A separate process, so that a client that is late does not look like a slow server. Shares nothing with
 * src/. `timed-proxy.mjs HOST PORT`; `GET /times` answers when each trajectory's requests were sent (in ms since 1970) and
 * how many milliseconds they took, in order. It passes on what the server says at once, also that it has accepted a connection.
 */
import { createServer, Socket } from 'node:net';

const [host, port] = process.argv.slice(2);
/** By trajectory, which clients name in a header: pairs of numbers. */
const times = {};
const TRAJECTORY = /\r\n(?:x-session-id|x-smg-routing-key): ([^\r]*)/i;
const LENGTH = /\r\ncontent-length: (\d+)/i;
/** One for each open connection: notes the reply that came last. */
const notes = new Set();

const server = createServer({ noDelay: true }, (client) => {
  const upstream = new Socket(); // holds what is written until it is open
  let head = '';
  let left = -1; // bytes of the body still to come; -1 before its head is whole
  let trajectory;
  let askedAt = 0;
  let answeredAt = 0;
  const note = () => {
    if (trajectory !== undefined && answeredAt > 0) {
      times[trajectory] ??= [];
      times[trajectory].push([performance.timeOrigin + askedAt, answeredAt - askedAt]);
    }
    trajectory = undefined;
  };
  notes.add(note);
  client.on('data', (chunk) => {
    let from = 0;
    if (left < 0) {
      note();
      const text = chunk.latin1Slice();
      const end = (head + text).indexOf('\r\n\r\n');
      if (end < 0) {
        head += text;
        upstream.write(chunk);
        return;
      }
      from = end + 4 - head.length;
      head = (head + text).slice(0, end);
      if (head.startsWith('GET /times ')) {
        client.end(answer());
        return;
      }
      trajectory = TRAJECTORY.exec(head)?.[1];
      left = Number(LENGTH.exec(head)?.[1] ?? 0);
      head = '';
    }
    left -= chunk.length - from;
    upstream.write(chunk);
    if (left > 0) return;
    left = -1;
    askedAt = performance.now();
    answeredAt = 0;
  });
  upstream.on('data', (chunk) => {
    answeredAt = performance.now();
    client.write(chunk);
  });
  const end = () => {
    note();
    notes.delete(note);
    client.destroy();
    upstream.destroy();
  };
  for (const socket of [client, upstream]) {
    socket.on('close', end);
    socket.on('error', end);
  }
  upstream.connect({ host, port: Number(port), noDelay: true });
});

function answer() {
  for (const note of notes) note();
  const body = JSON.stringify(times);
  return `HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`;
}

server.listen({ port: 0, host: '127.0.0.1', backlog: 16_384 }, () =>
  console.log(`listening ${server.address().port}`),
);
