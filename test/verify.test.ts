import { cp, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { train } from 'rollcall';
import { beforeAll, expect, test } from 'vitest';
import { verifyRun } from '../src/watch/verify-run.ts';
import { tinyModel } from './tiny-model.ts';

let sound: string;
beforeAll(async () => {
  sound = join(await mkdtemp(join(tmpdir(), 'rollcall-verify-')), 'run');
  process.env['MODEL'] = await tinyModel();
  process.env['RUN'] = sound;
  const { options } = await import('./runs/letters.ts');
  for await (const _ of train({ ...options, runDir: sound, validation: options.tasks, steps: 3 }));
}, 60_000);

const faultsIn = async (run: string) =>
  (await verifyRun(run)).flatMap(({ part, faults }) => faults.map((fault) => `${part}: ${fault}`));

test('a run is sound when it ends, and everything in it was read', async () => {
  const parts = await verifyRun(sound);
  expect(parts.flatMap(({ faults, notes }) => [...faults, ...notes])).toEqual([]);
  expect(Object.fromEntries(parts.map(({ part, count }) => [part, count]))).toEqual({
    options: 1,
    metrics: 4, // with the evaluation before the first step
    checksums: 3 * 4 + 2 * 3, // three steps of four files, two evaluations of three
    trajectories: 3 * 16,
    evaluations: 2 * 6,
    images: 0,
    checkpoints: 2,
  });
});

test.each([
  ['trajectories/step_2.tokens', 200, /^checksums: trajectories\/step_2.tokens has other bytes/],
  ['trajectories/step_3.index.json', 60, /^checksums: trajectories\/step_3.index.json has other bytes/],
  [
    'evaluations/validation/trajectories/step_0.jsonl',
    90,
    /^checksums: evaluations\/validation\/.*has other bytes/,
  ],
  [
    'checkpoints/global_step_2/trainer/optimizer.safetensors',
    4000,
    /^checkpoints: step 2: trainer\/optimizer/,
  ],
  ['checkpoints/latest', 3, /^checkpoints: checkpoints\/latest names glo.al_step_3, which is not there/],
  ['metrics.jsonl', 0, /^metrics: metrics.jsonl: .*line 1 is not JSON/],
  ['options.json', 0, /^options: options.json: /],
])('a flipped bit in %s is found and named', async (file, at, named) => {
  const run = join(await mkdtemp(join(tmpdir(), 'rollcall-flipped-')), 'run');
  await cp(sound, run, { recursive: true });
  const bytes = await readFile(join(run, file));
  bytes[at]! ^= 4;
  await writeFile(join(run, file), bytes);
  expect((await faultsIn(run)).join('\n')).toMatch(named);
});
