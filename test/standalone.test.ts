import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { servers, type TrainOptions, train } from 'rollcall';
import { beforeAll, expect, test } from 'vitest';
import { isPortTaken } from '../src/inference/port.ts';
import { startProcess } from './stand-ins/start.ts';
import { tinyModel } from './tiny-model.ts';

let options: TrainOptions<{ letter: string }>;

beforeAll(async () => {
  process.env['MODEL'] = await tinyModel();
  process.env['RUN'] = 'given below';
  ({ options } = await import('./runs/letters.ts'));
}, 60_000);

/** Two neighbouring ports that are free now. */
async function freePorts(): Promise<number> {
  for (;;) {
    const probe = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => probe.once('listening', resolve));
    const { port } = probe.address() as AddressInfo;
    await new Promise((resolve) => probe.close(resolve));
    if (port < 65_535 && !(await isPortTaken(port + 1))) return port;
  }
}

test('a run starts its own replicas of rollcall serve, samples from both, and ends them', async () => {
  const portStart = await freePorts();
  const runDir = await mkdtemp(join(tmpdir(), 'rollcall-standalone-'));
  const far = servers({
    engine: 'rollcall',
    launch: { portStart, replicas: 2 },
  });
  const answered = new Set<unknown>();
  let steps = 0;
  for await (const { step, groups } of train({ ...options, servers: far, runDir, steps: 2 })) {
    steps = step;
    for (const { attempts } of groups) {
      for (const { trajectory } of attempts) {
        for (const { attributes } of trajectory.spans)
          if (attributes?.['server']) answered.add(attributes['server']);
      }
    }
  }
  expect(steps).toBe(2);
  expect([...answered].sort()).toEqual([portStart, portStart + 1].map((port) => `http://127.0.0.1:${port}`));
  expect(await Promise.all([portStart, portStart + 1].map(isPortTaken))).toEqual([false, false]);
}, 120_000);

test('a taken port is told with its owner, and a model that cannot be loaded with the last lines', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => other.once('listening', resolve));
  const { port } = other.address() as AddressInfo;
  const onTaken = servers({ engine: 'rollcall', launch: { portStart: port } });
  await expect(onTaken.open(options.model)).rejects.toThrow(
    process.platform === 'linux'
      ? new RegExp(`port ${port} is taken by process ${process.pid} `)
      : /is taken/,
  );
  await new Promise((resolve) => other.close(resolve));

  const broken = await mkdtemp(join(tmpdir(), 'rollcall-broken-'));
  await cp(options.model, broken, { recursive: true });
  for (const file of await readdir(broken)) if (file.includes('safetensors')) await rm(join(broken, file));
  const onBroken = servers({ engine: 'rollcall', launch: { portStart: port } });
  await expect(onBroken.open(broken)).rejects.toThrow(
    /ended with code 1. Its last lines .*:\nrollcall: .*model\.safetensors/,
  );
}, 60_000);

test('servers end with a run that is killed and can clean up nothing', async () => {
  const port = await freePorts();
  const script = fileURLToPath(new URL('./servers/launch-and-wait.ts', import.meta.url));
  const register = fileURLToPath(new URL('../bin/register.js', import.meta.url));
  const run = await startProcess(['--import', pathToFileURL(register).href, script, String(port)]);
  expect(await isPortTaken(port)).toBe(true);
  await run.stop('SIGKILL');
  const killed = performance.now();
  while (await isPortTaken(port)) await wait(50);
  expect(performance.now() - killed).toBeLessThan(10_000);
}, 60_000);
