/** Who may ask our servers: each attack is refused by the guard, and succeeds on the same routes without it. */
import { Hono } from 'hono';
import { virtualClock } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { type GuardOptions, guardRequests, keyFor } from '../../src/lib/http-guard.ts';
import { guardPage } from '../../src/watch/dashboard/guard.ts';

const KEY = 'a-key-of-the-server';

function routes(guard?: Partial<GuardOptions>): Hono {
  const app = new Hono();
  if (guard) {
    const usual = { key: KEY, clock: virtualClock(), bodyBytes: 1000, requestsPerMinute: 50 };
    app.use(guardRequests({ ...usual, ...guard }));
  }
  app.get('/runs', (context) => context.text('the runs'));
  app.post('/update', async (context) => context.text(`took ${(await context.req.text()).length}`));
  return app;
}

interface Attack {
  readonly name: string;
  readonly guard: Partial<GuardOptions>;
  readonly path?: string;
  readonly request: RequestInit;
  readonly status: number;
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const local = { key: undefined };

const ATTACKS: readonly Attack[] = [
  { name: 'asks without a key', guard: {}, request: {}, status: 401 },
  {
    name: 'asks with a wrong key',
    guard: {},
    request: { headers: bearer('a-key-of-the-serveR') },
    status: 401,
  },
  {
    name: 'asks with the beginning of the key',
    guard: {},
    request: { headers: bearer(KEY.slice(0, -1)) },
    status: 401,
  },
  { name: 'asks with more than the key', guard: {}, request: { headers: bearer(`${KEY}x`) }, status: 401 },
  {
    name: 'asks with the key in another scheme',
    guard: {},
    request: { headers: { authorization: KEY } },
    status: 401,
  },
  {
    name: 'reaches loopback by a name that was made to point there',
    guard: local,
    request: { headers: { host: 'evil.example:4747' } },
    status: 403,
  },
  {
    name: 'reaches loopback by a name that begins like it',
    guard: local,
    request: { headers: { host: '127.0.0.1.evil.example' } },
    status: 403,
  },
  {
    name: 'asks from the page of another site',
    guard: local,
    request: { headers: { host: 'localhost:4747', origin: 'https://evil.example' } },
    status: 403,
  },
  {
    name: 'asks from a page without an origin',
    guard: local,
    request: { headers: { host: 'localhost:4747', origin: 'null' } },
    status: 403,
  },
  {
    name: 'asks from another port of this machine',
    guard: local,
    request: { headers: { host: 'localhost:4747', origin: 'http://localhost:8080' } },
    status: 403,
  },
  {
    name: 'changes what is for reading only',
    guard: { isRefused: ({ req }) => req.method === 'POST' },
    path: '/update',
    request: { method: 'POST', body: 'x', headers: { ...bearer(KEY), 'content-length': '1' } },
    status: 403,
  },
  {
    name: 'sends a body that is too large',
    guard: {},
    path: '/update',
    request: {
      method: 'POST',
      body: 'x'.repeat(1001),
      headers: { ...bearer(KEY), 'content-length': '1001' },
    },
    status: 413,
  },
  {
    name: 'sends a body whose length it does not say',
    guard: {},
    path: '/update',
    request: { method: 'POST', body: 'x', headers: { ...bearer(KEY), 'transfer-encoding': 'chunked' } },
    status: 411,
  },
];

test.each(ATTACKS)('refused: $name', async ({ guard, path = '/runs', request, status }) => {
  expect((await routes().request(path, request)).status, 'succeeds without the guard').toBe(200);
  const answer = await routes(guard).request(path, request);
  expect(answer.status).toBe(status);
  expect(await answer.text()).not.toContain(KEY);
});

test('who has the key, or is on this machine, is answered, and no other page may read the answer', async () => {
  const answer = await routes({}).request('/runs', { headers: bearer(KEY) });
  expect(await answer.text()).toBe('the runs');
  expect(answer.headers.get('access-control-allow-origin')).toBeNull();
  for (const host of ['localhost:4747', '127.0.0.1:4747', '[::1]:4747']) {
    expect((await routes(local).request('/runs', { headers: { host } })).status).toBe(200);
  }
});

test('keys are not guessed by trying, and an address that asks too often waits for a minute', async () => {
  let now = 0;
  const app = routes({ clock: { now: () => now, timer: () => () => {} } });
  const ask = async (key: string) => (await app.request('/runs', { headers: bearer(key) })).status;
  for (let i = 0; i < 20; i++) expect(await ask(`guess-${i}`)).toBe(401);
  expect(await ask(KEY)).toBe(429);
  now = 60_000;
  expect(await ask(KEY)).toBe(200);
  for (let i = 0; i < 49; i++) await ask(KEY);
  expect(await ask(KEY)).toBe(429);
});

test('beyond loopback there is always a key', () => {
  expect(keyFor('127.0.0.1')).toBeUndefined();
  expect(keyFor('0.0.0.0')).toMatch(/^[\w-]{24}$/);
  expect(keyFor('0.0.0.0')).not.toBe(keyFor('0.0.0.0'));
  expect(keyFor('localhost', KEY)).toBe(KEY);
  expect(() => keyFor('0.0.0.0', 'short')).toThrow('at least 8 characters');
});

test('the page takes the key from its link once, and keeps it where scripts cannot read it', async () => {
  const app = new Hono();
  app.use(guardPage({ token: KEY, clock: virtualClock(), isSecure: true, canChange: false }));
  app.all('*', (context) => context.text('page'));
  const first = await app.request(`/?token=${KEY}`);
  expect(first.status).toBe(200);
  const cookie = first.headers.get('set-cookie') ?? '';
  expect(cookie).toMatch(/HttpOnly; Secure; SameSite=Strict/i);
  const headers = { cookie: cookie.split(';')[0]! };
  expect((await app.request('/', { headers })).status).toBe(200);
  expect((await app.request('/api/runs/x/fork', { method: 'POST', headers })).status).toBe(403);
  expect((await app.request('/?token=wrong-token-wrong')).status).toBe(401);
});
