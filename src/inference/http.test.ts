import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { ConfigError, EngineError } from '../errors.ts';
import { HttpClient, HttpStatusError } from './http.ts';

const open: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of open) await close();
});

async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const sockets = new Set<Socket>();
  const server = createServer(answer).on('connection', (socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const http = new HttpClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {
    timeoutMs: 5000,
  });
  open.push(
    () => http.close(),
    () => server.closeAllConnections(),
    () => server.close(),
  );
  return { http, sockets };
}

test('every request has a socket at once, and later ones use the sockets that are there', async () => {
  const COUNT = 700;
  const waiting: ServerResponse[] = [];
  const { http, sockets } = await serve((_request, response) => {
    waiting.push(response);
    if (waiting.length === COUNT) for (const one of waiting) one.end('{"ok":true}');
    if (waiting.length > COUNT) response.end('{"ok":true}');
  });
  const replies = await Promise.all(Array.from({ length: COUNT }, () => http.json('/a', { body: {} })));
  expect(replies).toEqual(replies.map(() => ({ ok: true })));
  expect(sockets.size).toBe(COUNT);
  for (let request = 0; request < 20; request++) await http.json('/b');
  expect(sockets.size).toBe(COUNT);
});

test('a socket on which a request failed is not used again, and the error names server, path and cause', async () => {
  let cut = true;
  const { http, sockets } = await serve((request, response) => {
    if (cut) request.socket.destroy();
    else response.end('{}');
  });
  await expect(http.json('/generate')).rejects.toThrow(EngineError);
  await expect(http.json('/generate')).rejects.toThrow(`${http.url}/generate: `);
  cut = false;
  expect(await http.json('/generate')).toEqual({});
  expect(sockets.size).toBe(3);
});

test('a call ends when its signal aborts or its time is over, with the right reason', async () => {
  const { http } = await serve(() => {});
  const stop = new AbortController();
  const why = new Error('enough');
  const call = http.json('/slow', { signal: stop.signal });
  await wait(20);
  stop.abort(why);
  await expect(call).rejects.toBe(why);
  await expect(http.json('/slow', { signal: stop.signal })).rejects.toBe(why);
  await expect(http.json('/slow', { timeoutMs: 50 })).rejects.toThrow('/slow: no answer in 50 ms');
});

test('a refusal carries its status and what the server said', async () => {
  const { http } = await serve((_request, response) => {
    response.writeHead(503).end('too  busy\n');
  });
  await expect(http.json('/x')).rejects.toThrow(HttpStatusError);
  await expect(http.json('/x')).rejects.toMatchObject({
    status: 503,
    message: `${http.url}/x answered 503: too busy`,
  });
  expect(await http.call('/x')).toEqual({ status: 503, text: 'too  busy\n' });
  expect(() => new HttpClient('gpu-1:30000')).toThrow(ConfigError);
});
