import { expect, test } from 'vitest';
import { readTree } from '../lib/setting.ts';
import { assembleServers } from './assemble-servers.ts';
import { PARTS } from './part-options.ts';
import { assembleTrainer } from './trainers.ts';

const DEFAULTS = readTree(PARTS.servers, {});
const gatewayOf = (more: Partial<typeof DEFAULTS>) =>
  assembleServers({ ...DEFAULTS, ...more }, () => {}).gateway!;

test('requests are sent at once unless a policy or a ceiling is chosen', () => {
  expect(gatewayOf({})).toEqual({ tries: 4 });
  expect(gatewayOf({ ceiling: true })).toEqual({ tries: 4, ceiling: {} });
  const urls = ['http://127.0.0.1:30000'];
  for (const policy of ['first-come', 'programs', 'longest-first'] as const) {
    const given = [gatewayOf({ policy }), gatewayOf({ policy, mode: 'server', engine: 'sglang', urls })];
    for (const { policy: chosen } of given) expect(chosen).toBeTypeOf('function');
  }
});

test('rollcall serve is started as SGLang is, and says which settings are for GPUs', () => {
  const said: string[] = [];
  const { name, sendsFirst } = assembleServers(
    { ...DEFAULTS, engine: 'rollcall', replicas: 2, portStart: 31_000, tensorParallel: 4 },
    (line) => said.push(line),
  );
  expect([name, sendsFirst]).toEqual(['rollcall', true]);
  expect(said).toEqual(['servers.tensorParallel: without effect on servers of rollcall']);
});

test('an engine that comes with its trainer, and a trainer that comes with its engine, are refused without the other', () => {
  const options = { url: 'http://127.0.0.1:8000', model: 'Qwen/Qwen3-8B', server: 'skyrl-jax' };
  const trainer = assembleTrainer({ name: 'tinker', options });
  const named = (engine: string) => assembleServers({ ...DEFAULTS, engine }, () => {}, trainer);
  expect(named('tinker').sharesTrainedWeights).toBe(true);
  expect(() => named('vllm')).toThrow(
    'servers.engine is vllm, but the weights of trainer.name=tinker stay on its server; set servers.engine=tinker',
  );
  expect(() => assembleServers({ ...DEFAULTS, engine: 'tinker' }, () => {})).toThrow(
    'servers.engine is tinker, which comes with the trainer; set trainer.name=tinker too',
  );
});
