import { mkdtemp, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ConfigError } from '../errors.ts';
import { createRunDirectory } from './run-directory.ts';
import { readRunState, reasonOf, writeRunEnd } from './run-end.ts';
import { lockRun } from './run-lock.ts';

const newRun = async () => {
  const directory = join(await mkdtemp(join(tmpdir(), 'rollcall-end-')), 'run');
  await createRunDirectory(directory, {});
  return directory;
};

test('a run lives while its process does, and then says how it ended', async () => {
  const run = await newRun();
  const lock = await lockRun(run);
  expect(await readRunState(run, Date.now())).toEqual({ state: 'live', reason: null });
  await writeRunEnd(run, { state: 'failed', step: 3, ...reasonOf(new ConfigError('no such option')) });
  await lock.close();
  expect(await readRunState(run, Date.now())).toEqual({ state: 'failed', reason: 'no such option' });
});

test('a run whose process is gone without a word was killed', async () => {
  const run = await newRun();
  // Above every number that Linux gives to a process.
  await writeFile(join(run, 'lock'), JSON.stringify({ pid: 2 ** 30, host: hostname() }));
  const { state, reason } = await readRunState(run, Date.now());
  expect(state).toBe('killed');
  expect(reason).toContain(`its process (${2 ** 30} on ${hostname()}) is gone and left no reason`);
});

test('on another machine a run lives as long as it writes', async () => {
  const run = await newRun();
  await writeFile(join(run, 'lock'), JSON.stringify({ pid: 1, host: 'elsewhere' }));
  expect((await readRunState(run, Date.now())).state).toBe('live');
  expect((await readRunState(run, Date.now() + 61_000)).state).toBe('killed');
});
