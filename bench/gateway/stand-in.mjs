/**
 * Answers `/generate` as SGLang does, after a set time, with replies made beforehand: as cheap as a server can be, so
 * that the bench measures its clients. Shares nothing with src/. `PUT /latency/MS` sets the time; a trajectory's own
 * (by its routing key) is 0.5 to 1.49 times that.
 */
import { createServer } from 'node:net';

const replyTokens = Number(process.argv[2] ?? 300);
let state = 1;
const random = () => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
};

const response = (body) =>
  Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
const replies = Array.from({ length: 64 }, () => {
  const ids = Array.from({ length: replyTokens }, () => Math.floor(random() * 150_000));
  // As a float32 of the engine prints in Python.
  const logprobs = ids.map((id) => [Math.fround(Math.log(1 - random()) / 3), id, null]);
  return response(
    JSON.stringify({
      text: '',
      output_ids: ids,
      meta_info: {
        id: 'bench',
        finish_reason: { type: 'length', length: replyTokens },
        prompt_tokens: 2000,
        weight_version: 'default',
        output_token_logprobs: logprobs,
        completion_tokens: replyTokens,
        cached_tokens: 0,
        e2e_latency: 1.5,
      },
    }),
  );
});
const ok = response('{}');
const goOn = 'HTTP/1.1 100 Continue\r\n\r\n';
let latency = 0;
let answered = 0;

const server = createServer({ noDelay: true }, (socket) => {
  let head = '';
  let left = -1; // bytes of the body still to come; -1 before its head is whole
  let path = '';
  let wait = 0;
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    let from = 0;
    if (left < 0) {
      const end = chunk.indexOf('\r\n\r\n');
      if (end < 0) {
        head += chunk.latin1Slice();
        return;
      }
      head += chunk.latin1Slice(0, end);
      from = end + 4;
      path = head.slice(0, head.indexOf(' HTTP'));
      left = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      const number = Number(/x-smg-routing-key: \D*(\d+)/i.exec(head)?.[1] ?? 50);
      wait = (latency * (50 + ((number * 61) % 100))) / 100;
      if (/\r\nexpect: 100-continue/i.test(head)) socket.write(goOn);
      head = '';
    }
    left -= chunk.length - from;
    if (left > 0) return;
    left = -1;
    if (path.startsWith('PUT /latency/')) {
      latency = Number(path.slice('PUT /latency/'.length));
      socket.write(ok);
    } else if (path === 'POST /generate') {
      const reply = replies[answered++ % replies.length];
      if (wait === 0) socket.write(reply);
      else setTimeout(() => socket.write(reply), wait);
    } else socket.write(ok);
  });
});
server.listen({ port: 0, host: '127.0.0.1', backlog: 8192 }, () =>
  console.log(`listening ${server.address().port}`),
);
