import { expect, test } from 'vitest';
import { virtualClock } from '../../testing/virtual-clock.ts';
import { ConfigError } from '../errors.ts';
import { untilReady } from './until-ready.ts';

const URL = 'http://gpu-1:30000';

test('a server that is starting is waited for, and that is said once', async () => {
  const clock = virtualClock();
  const told: string[] = [];
  const server = { url: URL, ready: async () => clock.now() >= 60_000 };
  await untilReady(server, { seconds: 300, log: (line) => told.push(line), clock });
  expect(clock.now()).toBeGreaterThanOrEqual(60_000);
  expect(told).toEqual([`${URL} does not answer yet; it is waited for up to 300 s (servers.startSeconds)`]);
});

test('a server that never answers, one whose key is wrong, and an interrupt each end the wait', async () => {
  const clock = virtualClock();
  const log = () => {};
  const dead = { url: URL, ready: async () => false };
  await expect(untilReady(dead, { seconds: 20, log, clock })).rejects.toThrow(/not ready in 20 s/);
  const locked = { url: URL, ready: () => Promise.reject(new ConfigError('answered 401')) };
  await expect(untilReady(locked, { seconds: 20, log, clock })).rejects.toThrow('answered 401');
  const stop = new AbortController();
  const interrupted = untilReady(dead, { seconds: 300, log, clock, signal: stop.signal });
  clock.timer(3000, () => stop.abort(new Error('interrupted')));
  await expect(interrupted).rejects.toThrow('interrupted');
});
