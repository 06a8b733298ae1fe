import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { lockRun } from './run-lock.ts';

const newDirectory = () => mkdtemp(join(tmpdir(), 'rollcall-lock-'));

test('a run directory is written by one run at a time', async () => {
  const directory = await newDirectory();
  const lock = await lockRun(directory);
  await expect(lockRun(directory)).rejects.toThrow(`${directory} is in use by process ${process.pid}`);
  await lock.close();
  expect(existsSync(join(directory, 'lock'))).toBe(false);
  await (await lockRun(directory)).close();
});

test('what a killed process or another machine left does not count; a living process does', async () => {
  const directory = await newDirectory();
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  const left = (owner: unknown) => writeFile(join(directory, 'lock'), JSON.stringify(owner));
  await left({ pid: child.pid, host: hostname() });
  await expect(lockRun(directory)).rejects.toThrow(`in use by process ${child.pid}`);
  await left({ pid: child.pid, host: hostname(), began: '7 after boot before' }); // its number was given again
  await (await lockRun(directory)).close();
  await left({ pid: child.pid, host: 'another-machine' });
  await (await lockRun(directory)).close();
  child.kill('SIGKILL');
  await once(child, 'exit');
  await left({ pid: child.pid, host: hostname() });
  await (await lockRun(directory)).close();
  await writeFile(join(directory, 'lock'), '');
  await (await lockRun(directory)).close();
});
