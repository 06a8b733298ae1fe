/** What differs between releases of the servers, and how they were started. */
import { afterAll, expect, test } from 'vitest';
import { startStandIn } from '../../test/stand-ins/start.ts';
import { ConfigError } from '../errors.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';
import type { Engine } from './engine.ts';
import { sglang } from './engines/sglang.ts';
import { vllm } from './engines/vllm.ts';
import { SglangServer } from './sglang.ts';
import { noticesOf } from './tested-releases.ts';
import { VllmServer } from './vllm.ts';

const open: (() => Promise<void>)[] = [];
afterAll(async () => {
  await Promise.all(open.map((close) => close()));
});

async function start(engine: 'sglang' | 'vllm', settings: Record<string, unknown> = {}) {
  const standIn = await startStandIn(engine, settings);
  const create = () =>
    engine === 'sglang' ? new SglangServer({ url: standIn.url }) : new VllmServer({ url: standIn.url });
  const server = create();
  open.push(async () => {
    await server.close();
    await standIn.stop();
  });
  return { server, standIn, create };
}

const request = (id: string) => ({
  id: `${id}/`,
  trajectory: id,
  prompt: Int32Array.of(1, 2, 3),
  sampling: { ...PLAIN_SAMPLING, maxTokens: 4, stopIds: [], seed: 5 },
});
const WEIGHTS = { kind: 'disk', version: 3, path: '/weights/3' } as const;

test('a vLLM without --enable-scale-out is refused with the flag, and at once', async () => {
  const { server, standIn } = await start('vllm', { scaleOut: false });
  await expect(server.generate(request('a'))).rejects.toThrow(ConfigError);
  await expect(server.generate(request('a'))).rejects.toThrow(/answered 403: .*--enable-scale-out/);
  expect(await standIn.calls('POST /v1/completions')).toEqual([]);
});

test('vLLM 0.23 takes weights without /update_weight_version, and the versions of its replies are those sent', async () => {
  const { server } = await start('vllm', { release: '0.23.0' });
  await server.update(WEIGHTS);
  expect((await server.generate(request('a'))).versions).toEqual([{ from: 0, version: 3 }]);
  expect((await server.info()).can.has('versionSpans')).toBe(false);
  expect(await server.checksum()).toBeUndefined();
});

test.each(['sglang', 'vllm'] as const)(
  '%s says in its replies which version sampled them',
  async (engine) => {
    const { server } = await start(engine);
    expect((await server.generate(request('a'))).versions).toEqual([{ from: 0, version: 0 }]);
    await server.update(WEIGHTS);
    expect((await server.generate(request('b'))).versions).toEqual([{ from: 0, version: 3 }]);
    expect((await server.info()).can.has('versionSpans')).toBe(true);
  },
);

test.each(['sglang', 'vllm'] as const)(
  '%s: an adapter that a run before left behind is replaced, and none is left by this one',
  async (engine) => {
    const { server, standIn, create } = await start(engine);
    const adapter = { kind: 'lora', version: 0, name: 'policy@0', path: '/adapters/0' } as const;
    await server.update(adapter); // and never closed, as after SIGKILL
    const next = create();
    await next.update(adapter);
    expect((await next.generate(request('a'))).versions).toEqual([{ from: 0, version: 0 }]);
    await next.close();
    const unloaded = (await standIn.calls()).filter(({ name }) => name.endsWith('unload_lora_adapter'));
    expect(unloaded.map(({ body }) => body!['lora_name'])).toEqual(['policy@0', 'policy@0']);
  },
);

test('a release that was not tried, and seeds that are ignored, are reported in a line each', () => {
  const info = (engine: Engine, release: string, seeds = true) =>
    noticesOf(
      'http://gpu-1:30000',
      { engine: engine.name, release, can: new Set(seeds ? (['seeds'] as const) : []) },
      engine.tested,
    );
  expect(info(vllm, '0.32.0+cpu')).toEqual([]);
  expect(info(vllm, '0.99.0')).toEqual([
    'http://gpu-1:30000 is vllm 0.99.0, which was not tried with this Rollcall; 0.23.0 and 0.32.0 were',
  ]);
  expect(info(sglang, '0.5.23', false)).toEqual([
    expect.stringContaining('do not depend on seeds, so the run cannot be repeated exactly'),
  ]);
});
