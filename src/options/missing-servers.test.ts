import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { findMissingServers } from './missing-servers.ts';
import { resolveRun } from './resolve-run.ts';

async function missing(...overrides: string[]) {
  const { options } = await resolveRun({ overrides });
  return findMissingServers(options.servers);
}

test('servers that a run would start are looked for: engine, port and GPUs', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => other.once('listening', resolve));
  const { port } = other.address() as AddressInfo;
  const found = await missing(
    'servers.engine=vllm',
    'servers.program=/nowhere/vllm',
    `servers.portStart=${port}`,
    'servers.tensorParallel=4096',
  );
  await new Promise((resolve) => other.close(resolve));
  expect(found).toEqual([
    expect.stringContaining(
      '/nowhere/vllm is not found, which starts servers of vllm; install it (pip install vllm)',
    ),
    expect.stringContaining(`port ${port} is taken`),
    expect.stringMatching(/4096/),
  ]);
});

test('servers that run already, and the embedded engine, need nothing of this machine', async () => {
  expect(await missing()).toEqual([]);
  expect(
    await missing('servers.mode=server', 'servers.engine=vllm', 'servers.urls=[http://gpu-1:1]'),
  ).toEqual([]);
});
