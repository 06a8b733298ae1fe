import { expect, test } from 'vitest';
import { servers } from '../options/servers.ts';
import { ENGINES, engineNamed } from './engines.ts';
import { launchCommands } from './launch-commands.ts';

test('an engine is found by its name, and an unknown one is refused with the known ones', () => {
  for (const engine of ENGINES) expect(engineNamed(engine.name, 'engine')).toBe(engine);
  expect(() => engineNamed('tgi', '--engine')).toThrow(
    '--engine is "tgi"; use one of rollcall, sglang, vllm',
  );
  expect(() => servers({ urls: ['http://127.0.0.1:1'], engine: 'SGLang' })).toThrow(
    'engine is "SGLang"; use one of rollcall, sglang, vllm',
  );
});

test('an engine that cannot be started here says so when servers are to be launched', () => {
  const { launch: _, ...running } = engineNamed('vllm', 'engine');
  const options = { model: 'm', portStart: 1, replicas: 1, tensorParallel: 1, memoryShare: 1 };
  expect(() => launchCommands({ ...running, name: 'mine' }, { ...options, logLevel: 'info' }, {})).toThrow(
    'servers of mine cannot be started here; give urls of running ones',
  );
});
