import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { LOCALHOST_CERTIFICATE } from '../../../testing/localhost-certificate.ts';
import { ConfigError, EngineError } from '../../errors.ts';
import { HttpClient, HttpStatusError } from './client.ts';

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
  const COUNT = 300;
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

test('a connection that the server closed is not used again', async () => {
  const { http, sockets } = await serve((_request, response) => response.end('{}'));
  await http.json('/a');
  for (const socket of sockets) socket.destroy();
  await wait(50);
  expect(await http.json('/b')).toEqual({});
  expect(sockets.size).toBe(2);
});

test('a request that meets the closing of an idle connection goes out again on a new one', async () => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
      socket.once('data', () => socket.destroy()); // the second request, unanswered
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push(() => server.close());
  const http = new HttpClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  for (let call = 0; call < 6; call++) expect(await http.json('/a', { body: { call } })).toEqual({});
  await http.close();
});

test('of many new connections the later ones ask to go on, once; bodies follow at once, and any answer will do', async () => {
  const requests: string[] = [];
  let answer = () => {};
  const all = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const server = createTcpServer((socket) => {
    socket.on('data', async (bytes) => {
      const count = requests.push(bytes.toString());
      if (count % 2 === 1) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
      if (count === 40) answer();
      await all;
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
    });
  }).listen({ port: 0, host: '127.0.0.1', backlog: 100 });
  await once(server, 'listening');
  open.push(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const http = new HttpClient(url);
  const together = Array.from({ length: 40 }, (_, call) => http.json('/a', { body: { call } }));
  expect(await Promise.all(together)).toEqual(together.map(() => ({})));
  const asks = (request: string) => /expect: 100-continue\r\n\r\n\{"call":\d+\}$/.test(request);
  expect(requests.filter(asks).length).toBe(40 - 32);
  expect(requests.every((request) => request.endsWith('}'))).toBe(true);
  expect(await http.json('/a', { body: {} })).toEqual({});
  expect(asks(requests.at(-1)!)).toBe(false);
  await http.close();
});

test('a path and credentials in the address are used', async () => {
  const { http: plain } = await serve((request, response) => {
    response.end(JSON.stringify({ url: request.url, authorization: request.headers.authorization }));
  });
  const http = new HttpClient(`${plain.url.replace('//', '//ann:p%40ss@')}/engine-7/`);
  const basic = `Basic ${Buffer.from('ann:p@ss').toString('base64')}`;
  expect(await http.json('/generate')).toEqual({ url: '/engine-7/generate', authorization: basic });
  expect(http.url).toBe(`${plain.url}/engine-7`);
  await http.close();
});

test('a connection whose request was answered before it was read is not used again', async () => {
  const { http, sockets } = await serve((_request, response) => {
    response.writeHead(503).end('busy'); // and the body is left where it is
  });
  const body = { text: 'x'.repeat(30_000_000) };
  await expect(http.json('/a', { body })).rejects.toThrow('answered 503: busy');
  await expect(http.json('/b', { body: {} })).rejects.toThrow('answered 503: busy');
  expect(sockets.size).toBe(2);
});

test('bodies of megabytes go and come whole', async () => {
  const { http } = await serve((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => response.end(Buffer.concat(parts)));
  });
  const text = Array.from({ length: 400_000 }, (_, at) => `${at} é`).join('');
  expect(await http.json('/echo', { body: { text } })).toEqual({ text });
});

test('replies of a stream are passed on as they come, until it is cut', async () => {
  const { http } = await serve((request, response) => {
    response.write('data: {"n":1}\n\ndata: {"n":');
    setTimeout(() => {
      response.write('2}\n\n');
      if (request.url === '/cut') response.end();
      else response.end('data: [DONE]\n\n');
    }, 20);
  });
  const read = async (path: string, seen: unknown[]) => {
    for await (const event of http.events(path, { body: {}, rank: 2 })) seen.push(event);
    return seen;
  };
  expect(await read('/whole', [])).toEqual([{ n: 1 }, { n: 2 }]);
  const seen: unknown[] = [];
  await expect(read('/cut', seen)).rejects.toThrow('/cut: the stream was cut before its end');
  expect(seen).toEqual([{ n: 1 }, { n: 2 }]);
});

test('a server that is not there, or speaks no HTTP, is named with the reason', async () => {
  const server = createTcpServer((socket) => socket.resume().end('220 mail.example ESMTP\r\n\r\n'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await expect(new HttpClient(`http://127.0.0.1:${port}`).json('/a')).rejects.toThrow(
    `http://127.0.0.1:${port}/a: its reply is not HTTP: "220 mail.example ESMTP"`,
  );
  server.close();
  await once(server, 'close');
  await expect(new HttpClient(`http://localhost:${port}`).json('/a')).rejects.toThrow(
    `http://localhost:${port}/a: ECONNREFUSED`,
  );
});

test('a header that could end its line is refused', () => {
  const headers = { authorization: 'Bearer a\r\nx: y' };
  expect(() => new HttpClient('http://127.0.0.1:1', { headers })).toThrow(ConfigError);
});

test('https is spoken, with a certificate that the machine trusts', async () => {
  const server = createTlsServer(LOCALHOST_CERTIFICATE, (_request, response) =>
    response.end('{"secure":true}'),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push(() => server.close());
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await expect(new HttpClient(url).json('/a')).rejects.toThrow('DEPTH_ZERO_SELF_SIGNED_CERT');
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-tls-'));
  await writeFile(join(directory, 'cert.pem'), LOCALHOST_CERTIFICATE.cert);
  const script = `import { HttpClient } from '${new URL('./client.ts', import.meta.url).href}';
    const http = new HttpClient('${url}');
    console.log(JSON.stringify([await http.json('/a'), await http.json('/b')]));`;
  const register = fileURLToPath(new URL('../../../bin/register.js', import.meta.url));
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: join(directory, 'cert.pem') };
  const words = ['--import', register, '--input-type=module', '-e', script];
  const { stdout } = await promisify(execFile)(process.execPath, words, { env });
  expect(JSON.parse(stdout)).toEqual([{ secure: true }, { secure: true }]);
  await rm(directory, { recursive: true });
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

test('a redirect and a missing key are refused with what to do; a full queue and a wrong request are told apart', async () => {
  const answers: Record<string, [number, string, Record<string, string>?]> = {
    '/moved': [307, '', { location: 'http://gpu-2:30000/moved' }],
    '/secret': [401, '{"error":"Unauthorized"}'],
    '/full': [503, '{"error":{"message":"The request queue is full."}}'],
    '/down': [503, 'no backend'],
    '/wrong': [400, '{"error":{"message":"Token id 996 is out of vocabulary"}}'],
    '/adapter': [400, '{"error":{"message":"LoRA adapter policy@3 is not loaded"}}'],
  };
  const { http } = await serve(({ url }, response) => {
    const [status, text, headers = {}] = answers[url!]!;
    response.writeHead(status, headers).end(text);
  });
  await expect(http.tell('/moved')).rejects.toThrow(
    new ConfigError(
      `${http.url}/moved answered 307, a redirect to http://gpu-2:30000/moved, which is not followed; give that address as the server's`,
    ),
  );
  await expect(http.tell('/secret')).rejects.toThrow(/answered 401: .*give the key it was started with/);
  await expect(http.tell('/secret')).rejects.toThrow(ConfigError);
  await expect(http.tell('/full')).rejects.toMatchObject({ reason: 'busy' });
  await expect(http.tell('/down')).rejects.toMatchObject({ reason: 'failed' });
  await expect(http.tell('/wrong')).rejects.toMatchObject({ reason: 'refused' });
  await expect(http.tell('/adapter')).rejects.toMatchObject({ reason: 'failed' });
});

test('a key goes with every call', async () => {
  const { http } = await serve(({ headers }, response) =>
    response.end(JSON.stringify(headers['authorization'] ?? null)),
  );
  const keyed = new HttpClient(http.url, { apiKey: 'secret' });
  open.push(() => keyed.close());
  expect(await http.json('/')).toBe(null);
  expect(await keyed.json('/')).toBe('Bearer secret');
});
