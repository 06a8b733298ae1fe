import { virtualClock } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { Activity, groupFailures } from '../lib/activity.ts';
import { sleep } from '../lib/clock.ts';
import { adviceFor } from './failure-advice.ts';
import { describeActivity, statusLines } from './run-status.ts';

test('a stuck run says what it waits for: each stage, the oldest request, its server and since when', async () => {
  const clock = virtualClock();
  const activity = new Activity(clock);
  activity.beginStep(4);
  let release = () => {};
  const stuck = new Promise<void>((resolve) => {
    release = resolve;
  });
  const waiting = [
    activity.during({ stage: 'step', name: 'gen' }, () => stuck),
    activity.during({ stage: 'agent', name: 'solver', trajectory: 'a' }, () => stuck),
    activity.during({ stage: 'agent', name: 'solver', trajectory: 'c' }, () => stuck),
    activity.during({ stage: 'generate', name: 'generate', trajectory: 'a', turn: 2 }, () => stuck),
  ];
  await sleep(clock, 90_000);
  waiting.push(activity.during({ stage: 'tool', name: 'search', trajectory: 'b', turn: 1 }, () => stuck));
  await sleep(clock, 5_000);
  activity.ended('d', { kind: 'failed', boundary: 'agent', message: 'connect ECONNRESET 10.0.0.7:443' });
  const servers = {
    requests: () => [{ trajectory: 'a', turn: 2, waitedMs: 95_000, tries: 3, server: 'http://one' }],
    status: () => [
      { name: 'http://one', inFlight: 1, down: undefined },
      { name: 'http://two', inFlight: 0, down: 'connect ECONNREFUSED' },
    ],
  };
  const status = describeActivity(activity, servers, { clock, steps: 9, at: new Date(0) });
  expect(statusLines(status)).toEqual([
    'step 4 of 9: rolling out for 95 s',
    'agents   1 of solver; the oldest waits 95 s: c',
    'replies  1 from http://one; the oldest waits 95 s: a, turn 2, try 3',
    'tools    1 of search; the oldest waits 5.0 s: b, turn 1',
    'server   http://one: 1 requests',
    'server   http://two: gets none, connect ECONNREFUSED',
    'failed   1 (agent): connect ECONNRESET 10.0.0.7:443; for example d',
  ]);
  release();
  await Promise.all(waiting);
  expect(activity.waits()).toEqual([]);
});

test('failures that differ in numbers and quoted texts are one kind, with a cause and a suggestion', () => {
  const failed = (trajectory: string, message: string) => ({
    trajectory,
    end: { kind: 'failed', boundary: 'infrastructure', message } as const,
  });
  const groups = groupFailures([
    failed('a', "server 'one' gave up after 12 tokens"),
    failed('b', "server 'two' gave up after 7 tokens"),
    failed('c', 'connect ECONNREFUSED 127.0.0.1:8000'),
  ]);
  expect(groups.map(({ count, trajectory }) => [count, trajectory])).toEqual([
    [2, 'a'],
    [1, 'c'],
  ]);
  expect(groups.map((group) => adviceFor(group).cause)).toEqual(['server failed', 'cannot be reached']);
  for (const group of groups) expect(adviceFor(group).suggestion).not.toBe('');
});
