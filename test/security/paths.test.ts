/** No address of `watch` leads out of the run. A server that joins paths as they come is the control. */
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Hono } from 'hono';
import { virtualClock } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { WatchedRuns } from '../../src/watch/dashboard/runs.ts';
import { createApp } from '../../src/watch/dashboard/server.ts';

const SECRET = 'not of the run';
const PNG = Buffer.from('89504e470d0a1a0a', 'hex');
const HASH = 'a'.repeat(64);
const outside = mkdtempSync(join(tmpdir(), 'rollcall-paths-'));
const run = join(outside, 'run');
mkdirSync(join(run, 'blobs'), { recursive: true });
writeFileSync(join(outside, 'secret.txt'), Buffer.concat([PNG, Buffer.from(SECRET)]));
writeFileSync(join(run, 'options.json'), '{}');
writeFileSync(join(run, 'metrics.jsonl'), '');
symlinkSync(join(outside, 'secret.txt'), join(run, 'blobs', HASH));

async function watch(): Promise<Hono> {
  const watched = await WatchedRuns.open([run]);
  return createApp({
    ...{ runs: [run], page: new Map(), watched, token: undefined, clock: virtualClock() },
    ...{ signal: new AbortController().signal, host: '127.0.0.1' },
    tokenizerOf: () => Promise.reject(new Error('none')),
  });
}

const naive = new Hono().get('/files/:path{.+}', (context) =>
  context.body(readFileSync(join(run, 'blobs', decodeURIComponent(context.req.param('path'))), 'latin1')),
);

test.each([
  ['a link in the folder of images', HASH],
  ['a path upwards', '..%2f..%2fsecret.txt'],
  ['a path upwards, encoded twice', '%2e%2e%2f%2e%2e%2fsecret.txt'],
  ['a path upwards through the folder itself', `.%2f..%2f..%2fsecret.txt`],
])('refused: %s', async (_, path) => {
  const host = { headers: { host: 'localhost' } };
  const app = await watch();
  const [{ id }] = ((await (await app.request('/api/runs', host)).json()) as { runs: [{ id: string }] }).runs;
  expect(await (await naive.request(`/files/${path}`)).text()).toContain(SECRET);
  const addresses = [
    `/api/runs/${id}/blobs/${path}`,
    `/api/runs/${path}/metrics`,
    `/api/runs/${id}/steps/${path}`,
    `/${path}`,
  ];
  for (const address of addresses) {
    const answer = await app.request(address, host);
    expect(answer.status, address).toBe(404);
    expect(await answer.text(), address).not.toContain(SECRET);
  }
});
