import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { TrackedLine, TrackedRun, Tracker } from '../tracker.ts';
import { startTracking, TRACKING_LIMITS } from './tracking.ts';

const RUN: TrackedRun = {
  directory: 'nowhere',
  options: {},
  resumedAt: undefined,
  clockBegan: 0,
  decode: () => '',
  memory: { read: async () => undefined, write: async () => {} },
};
const line = (step: number): TrackedLine => ({ step, seconds: step, time: step, metrics: { step } });
const LIMITS = { ...TRACKING_LIMITS, callMs: 20, firstWaitMs: 1, longestWaitMs: 4, closeMs: 100 };

test('a tracker that hangs holds up nobody: not a step, not another tracker, not the end beyond its limit', async () => {
  const seen: number[] = [];
  const hanging: Tracker = { name: 'hanging', log: () => new Promise(() => {}) };
  const healthy: Tracker = {
    name: 'healthy',
    log: async (lines) => void seen.push(...lines.map(({ step }) => step)),
  };
  const tracking = startTracking([hanging, healthy], RUN, { limits: LIMITS });
  const began = performance.now();
  for (let step = 0; step < 1000; step++) tracking.log(line(step));
  expect(performance.now() - began).toBeLessThan(50);
  await wait(60);
  expect(seen).toHaveLength(1000);
  const closing = performance.now();
  await tracking.close('finished');
  expect(performance.now() - closing).toBeLessThan(1000);
  expect(tracking.takeNotices()).toEqual([
    expect.stringMatching(/^The tracker hanging took longer than 20 ms\. Training goes on/),
  ]);
});

test('lines arrive once and in order however often a tracker fails', async () => {
  const seen: number[] = [];
  let calls = 0;
  const flaky: Tracker = {
    name: 'flaky',
    open: async () => {
      if (calls++ < 3) throw new Error('not yet');
    },
    log: async (lines) => {
      if (calls++ % 3 !== 0) throw new Error('not now');
      seen.push(...lines.map(({ step }) => step));
    },
  };
  const tracking = startTracking([flaky], RUN, { limits: { ...LIMITS, linesPerCall: 7 } });
  for (let step = 0; step < 40; step++) {
    tracking.log(line(step));
    await wait(1);
  }
  await wait(150);
  await tracking.close('finished');
  expect(seen).toEqual(Array.from({ length: 40 }, (_, step) => step));
  expect(tracking.takeNotices()).toHaveLength(1);
});

test('a tracker that stays away costs bounded memory: the oldest lines go', async () => {
  let here = false;
  const seen: number[] = [];
  const away: Tracker = {
    name: 'away',
    log: async (lines) => {
      if (!here) throw new Error('away');
      seen.push(...lines.map(({ step }) => step));
    },
  };
  const tracking = startTracking([away], RUN, { limits: { ...LIMITS, queuedLines: 10 } });
  for (let step = 0; step < 100; step++) tracking.log(line(step));
  await wait(10);
  here = true;
  await tracking.close('finished');
  expect(seen).toEqual([90, 91, 92, 93, 94, 95, 96, 97, 98, 99]);
});

test('the end is reported after the last line', async () => {
  const told: string[] = [];
  const tracker: Tracker = {
    name: 'a',
    open: async () => void told.push('open'),
    log: async (lines) => {
      await wait(5);
      told.push(...lines.map(({ step }) => `line ${step}`));
    },
    close: async (end) => void told.push(end),
  };
  const tracking = startTracking([tracker], RUN, { limits: LIMITS });
  tracking.log(line(1));
  await tracking.close('stopped');
  expect(told).toEqual(['open', 'line 1', 'stopped']);
});
