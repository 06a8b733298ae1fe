import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { virtualClock } from '../../testing/virtual-clock.ts';
import { followJob } from './launcher.ts';
import { RayCluster } from './ray.ts';

interface Answer {
  readonly status: number;
  readonly body: string;
}

/** What a real Ray answered; the file says which and how. */
const RECORDED = JSON.parse(readFileSync('test/golden/ray/answers.json', 'utf8')) as Record<string, Answer>;

interface Asked {
  readonly what: string;
  readonly body: Buffer;
  readonly headers: IncomingMessage['headers'];
}

let server: Server;
let asked: Asked[];
let packages: Set<string>;
let jobStates: string[];

/** Answers as Ray does: by route, with what was recorded, and a browser may not upload. */
function answer({ what, headers }: Asked): Answer {
  const [method, path] = what.split(' ') as [string, string];
  if ('sec-fetch-mode' in headers && method === 'PUT') return RECORDED['browser']!;
  if (path === '/api/version') return RECORDED['version']!;
  if (path.startsWith('/api/packages/gcs/')) {
    if (method === 'PUT') packages.add(path);
    if (method === 'PUT') return RECORDED['uploaded']!;
    return RECORDED[packages.has(path) ? 'packageThere' : 'packageMissing']!;
  }
  if (what === 'POST /api/jobs/') return RECORDED['submitted']!;
  if (!path.startsWith('/api/jobs/rollcall-a')) return RECORDED['noJob']!;
  if (path.endsWith('/logs')) return RECORDED['logs']!;
  if (path.endsWith('/stop')) return RECORDED['stopped']!;
  const { status, body } = RECORDED['job']!;
  return { status, body: body.replace('SUCCEEDED', jobStates.shift() ?? 'SUCCEEDED') };
}

let cluster: RayCluster;
beforeEach(async () => {
  asked = [];
  packages = new Set();
  jobStates = [];
  server = createServer(async (request, response) => {
    const one = {
      what: `${request.method} ${request.url}`,
      body: await buffer(request),
      headers: request.headers,
    };
    asked.push(one);
    const { status, body } = answer(one);
    response.writeHead(status).end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  cluster = new RayCluster({ address: `http://127.0.0.1:${port}/`, token: 'a-token-of-ray' });
});
afterEach(() => server.close());

test('a package is uploaded once, under the hash of its bytes', async () => {
  const zip = Buffer.from('bytes of a zip');
  const uri = await cluster.upload(zip);
  // `printf 'bytes of a zip' | sha1sum`
  expect(uri).toBe('gcs://_ray_pkg_f1bd762b7fb43526170133a55398605c22874dce.zip');
  expect(await cluster.upload(zip)).toBe(uri);
  expect(asked.map(({ what }) => what.split(' ')[0])).toEqual(['GET', 'PUT', 'GET']);
  expect(asked[1]!.body.equals(zip)).toBe(true);
  expect(asked[1]!.headers.authorization).toBe('Bearer a-token-of-ray');
});

test('a job is submitted with its package, its environment and its name', async () => {
  const job = { id: 'rollcall-a', entrypoint: 'python3 -m x', workingDir: 'gcs://p.zip' };
  const id = await cluster.submit({ ...job, environment: { A: '1' }, metadata: { rollcall: '/runs/a' } });
  expect(id).toBe('rollcall-a');
  expect(JSON.parse(asked[0]!.body.toString())).toEqual({
    entrypoint: 'python3 -m x',
    submission_id: 'rollcall-a',
    runtime_env: { working_dir: 'gcs://p.zip', env_vars: { A: '1' } },
    metadata: { rollcall: '/runs/a' },
  });
});

test('a job is followed from waiting to its end, and each line is printed once', async () => {
  jobStates = ['PENDING', 'RUNNING', 'RUNNING', 'FAILED'];
  let printed = '';
  const job = await followJob(cluster, 'rollcall-a', {
    clock: virtualClock(),
    write: (text) => {
      printed += text;
    },
  });
  expect(job).toEqual({ id: 'rollcall-a', state: 'failed', message: 'Job finished successfully.' });
  expect(printed).toBe((JSON.parse(RECORDED['logs']!.body) as { logs: string }).logs);
});

test('what Ray refuses is told in its words, without the traceback', async () => {
  await expect(cluster.status('nope')).rejects.toThrow(/answered 404: Job nope does not exist$/);
  server.removeAllListeners('request');
  server.on('request', (_, response) => {
    const { status, body } = RECORDED['wrongRequest']!;
    response.writeHead(status).end(body);
  });
  await expect(cluster.version()).rejects.toThrow(/answered 400: TypeError: JobSubmitRequest.*entrypointx'$/);
});

test('an address that is not one is refused; a cluster that is not there is named', async () => {
  expect(() => new RayCluster({ address: 'ray://head:10001' })).toThrow('such as http://head:8265');
  const gone = new RayCluster({ address: 'http://127.0.0.1:9' });
  await expect(gone.version()).rejects.toThrow(/http:\/\/127.0.0.1:9\/api\/version: .*ECONNREFUSED/);
});
