import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { virtualClock } from '../../testing/virtual-clock.ts';
import { sleep } from '../lib/clock.ts';
import {
  readServerSamples,
  type SampledServer,
  type ServerSamples,
  watchServers,
  writeServerSamples,
} from './server-samples.ts';

/** In `ms` of virtual time: what was sampled, and how often each server was asked. */
async function watched(ms: number, servers: (now: number) => readonly SampledServer[]) {
  const clock = virtualClock();
  const asked = new Map<string, number>();
  const watch = watchServers(
    () =>
      servers(clock.now()).map(({ load, ...server }) => ({
        ...server,
        ...(load && {
          load: (signal: AbortSignal) => {
            asked.set(server.name, (asked.get(server.name) ?? 0) + 1);
            return load(signal);
          },
        }),
      })),
    clock,
  );
  await sleep(clock, ms);
  const samples = watch.take();
  watch.close();
  return { samples, asked };
}

const columnOf = ({ servers }: ServerSamples, name: string) => servers.find((one) => one.name === name)!;

test('a server is looked at every 50 ms; what it says itself stands beside what was sent to it', async () => {
  const { samples, asked } = await watched(1001, (now) => [
    { name: 'server 0', inFlight: Math.floor(now / 100), load: async () => ({ running: 2, queued: 7 }) },
    { name: 'http://gpu:1', inFlight: 3, load: async () => ({ running: 3, queued: 0 }) },
    { name: 'server 1', inFlight: 1 },
  ]);
  expect(samples.at).toEqual(Array.from({ length: 21 }, (_, at) => 50 * at));
  expect(columnOf(samples, 'server 0')).toMatchObject({
    inFlight: samples.at.map((at) => Math.floor(at / 100)),
    queued: Array(21).fill(7),
  });
  expect(columnOf(samples, 'server 1').running).toEqual(Array(21).fill(null));
  expect(asked.get('server 0')).toBe(21);
  expect(asked.get('http://gpu:1')).toBe(2); // once a second
});

test('a server that hangs or fails is not waited for, and what it said once is soon not believed', async () => {
  const { samples } = await watched(6001, (now) => [
    {
      name: 'hangs',
      inFlight: 1,
      load: () => (now === 0 ? Promise.resolve({ running: 1, queued: 4 }) : new Promise(() => {})),
    },
    { name: 'fails', inFlight: 1, load: () => Promise.reject(new Error('gone')) },
  ]);
  expect(samples.at).toHaveLength(121);
  const { queued } = columnOf(samples, 'hangs');
  expect(samples.at.filter((_, at) => queued[at] === 4).at(-1)).toBe(450);
  expect(columnOf(samples, 'fails').queued.every((value) => value === null)).toBe(true);
});

test('an hour has no more samples than a minute, evenly spread', async () => {
  const { samples } = await watched(3_600_000, () => [{ name: 'server 0', inFlight: 1 }]);
  expect(samples.at.length).toBeGreaterThan(100);
  expect(samples.at.length).toBeLessThanOrEqual(256);
  const gaps = samples.at.slice(1).map((at, before) => at - samples.at[before]!);
  expect(Math.max(...gaps)).toBe(Math.min(...gaps));
});

test('samples are read as they were written; a step without them has none', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-samples-'));
  const samples = {
    at: [0, 50],
    servers: [{ name: 'a', inFlight: [1, null], running: [1, 1], queued: [0, 2] }],
  };
  await writeServerSamples(directory, 3, samples);
  expect(await readServerSamples(directory, 3)).toEqual(samples);
  expect(await readServerSamples(directory, 4)).toBeUndefined();
});
