import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ServerLoad } from '../../inference/server.ts';
import { CEILING_RULES, nextCeiling } from '../ceiling.ts';
import { LengthPrediction } from '../prediction.ts';
import type { SchedulingView, ServerView, WaitingRequest } from '../scheduling-view.ts';
import { firstCome } from './first-come.ts';
import { longestFirst } from './longest-first.ts';
import { programs } from './programs.ts';

const waiting = (id: string, more: Partial<WaitingRequest> = {}): WaitingRequest => ({
  id,
  trajectory: id,
  place: undefined,
  contextTokens: 100,
  predictedTokens: 100,
  unknown: false,
  since: 0,
  begun: 0,
  home: undefined,
  resident: false,
  failedOn: new Set(),
  ...more,
});
const server = (name: string, more: Partial<ServerView> = {}): ServerView => ({
  name,
  inFlight: 1,
  ceiling: 10,
  kvTokens: 1000,
  keptTokens: 0,
  ...more,
});
const sends = (policy: ReturnType<typeof firstCome>, view: Partial<SchedulingView>) => {
  const decision = policy({ now: 0, waiting: [], servers: [], ...view });
  if (!decision) return undefined;
  return decision.kind === 'pause'
    ? `pause ${decision.request.id}`
    : `${decision.request.id} to ${decision.server.name}`;
};

test('first come: home while it has a slot, others wait for theirs, new ones go to the least busy', () => {
  const servers = [server('x', { inFlight: 10 }), server('y', { inFlight: 3 }), server('z', { inFlight: 2 })];
  const atHome = waiting('a', { home: 'x' });
  expect(sends(firstCome(), { servers, waiting: [atHome, waiting('b'), waiting('c')] })).toBe('b to z');
  expect(sends(firstCome(), { servers, waiting: [atHome] })).toBeUndefined();
  expect(sends(firstCome(), { servers, waiting: [waiting('b', { failedOn: new Set(['z']) })] })).toBe(
    'b to y',
  );
});

test('programs: contexts in memory go on first, then the begun, and new ones only where they fit', () => {
  const servers = [server('x', { keptTokens: 850 }), server('y', { keptTokens: 820 })];
  const kept = waiting('kept', { home: 'x', resident: true, contextTokens: 300 });
  const begun = waiting('begun', { home: 'y', begun: -50, contextTokens: 70 });
  const fresh = waiting('fresh', { contextTokens: 60 });
  const large = waiting('large', { contextTokens: 90, begun: -99 });
  expect(sends(programs(), { servers, waiting: [fresh, begun, kept] })).toBe('kept to x');
  expect(sends(programs(), { servers, waiting: [fresh, begun] })).toBe('begun to y'); // 900 − 820 are left there
  expect(sends(programs(), { servers, waiting: [large] })).toBeUndefined();
  expect(
    sends(programs(), { servers: [server('x', { inFlight: 0, keptTokens: 950 })], waiting: [large] }),
  ).toBe('large to x');
});

test('programs: where contexts have outgrown the memory, the smallest of those that wait gives way', () => {
  const servers = [server('x', { keptTokens: 901 }), server('y', { keptTokens: 700 })];
  const home = { home: 'x', resident: true };
  const view = {
    servers,
    waiting: [
      waiting('a', { ...home, contextTokens: 400 }),
      waiting('b', { ...home, contextTokens: 250 }),
      waiting('c', { home: 'y', resident: true, contextTokens: 10 }),
    ],
  };
  expect(sends(programs(), view)).toBe('pause b');
});

test('programs: a trajectory moves in a tool gap when that evens servers out by more than it costs', () => {
  const kept = waiting('a', { home: 'x', resident: true, contextTokens: 100 });
  const move = (keptTokens: number) =>
    sends(programs(), {
      servers: [server('x', { keptTokens: 800, inFlight: 5 }), server('y', { keptTokens })],
      waiting: [kept],
    });
  expect(move(600)).toBe('a to x');
  expect(move(599)).toBe('a to y');
});

describe.each([
  ['programs', programs()],
  ['longestFirst', longestFirst()],
])('%s, where servers do not say how much memory they have', (_, policy) => {
  const kvTokens = Number.POSITIVE_INFINITY;

  test('new trajectories are spread over them', () => {
    const servers = ['x', 'y'].map((name) => ({ ...server(name, { inFlight: 0, ceiling: 200, kvTokens }) }));
    for (let number = 0; number < 100; number++) {
      const decision = policy({ now: 0, waiting: [waiting(`${number}`)], servers });
      if (decision?.kind !== 'send') throw new Error('was not sent');
      const at = servers.indexOf(decision.server as (typeof servers)[number]);
      const { inFlight, keptTokens } = servers[at]!;
      servers[at] = { ...servers[at]!, inFlight: inFlight + 1, keptTokens: keptTokens + 100 };
    }
    expect(servers.map(({ inFlight }) => inFlight)).toEqual([50, 50]);
  });

  test('one goes where least is kept, then where least is in flight; memory that is known does not change that', () => {
    const to = (...servers: ServerView[]) => sends(policy, { servers, waiting: [waiting('a')] });
    expect(to(server('x', { kvTokens, keptTokens: 500 }), server('y', { keptTokens: 400 }))).toBe('a to y');
    expect(to(server('x', { keptTokens: 400 }), server('y', { kvTokens, keptTokens: 500 }))).toBe('a to x');
    expect(to(server('x', { kvTokens, inFlight: 4 }), server('y', { kvTokens, inFlight: 3 }))).toBe('a to y');
  });
});

test('longest first: a probe of each unknown task, then the longest by its siblings; earlier steps before later', () => {
  const place = { step: 2, task: 0, attempt: 0, turn: 1 };
  const servers = [server('x')];
  const short = waiting('short', { place: { ...place, attempt: 1 }, predictedTokens: 10 });
  const long = waiting('long', { place: { ...place, attempt: 2 }, predictedTokens: 90 });
  const probe = waiting('probe', { place: { ...place, task: 1 }, unknown: true, predictedTokens: 50 });
  const older = waiting('older', { place: { ...place, step: 1, attempt: 3 }, predictedTokens: 1 });
  expect(sends(longestFirst(), { servers, waiting: [short, long] })).toBe('long to x');
  expect(sends(longestFirst(), { servers, waiting: [short, long, probe] })).toBe('probe to x');
  expect(sends(longestFirst(), { servers, waiting: [short, long, probe, older] })).toBe('older to x');
});

const someView = fc.record({
  now: fc.constant(1000),
  waiting: fc.array(
    fc.record({
      contextTokens: fc.integer({ min: 1, max: 1200 }),
      predictedTokens: fc.integer({ min: 0, max: 1000 }),
      since: fc.integer({ min: 0, max: 1000 }),
      home: fc.constantFrom(undefined, 'x', 'y'),
      resident: fc.boolean(),
      step: fc.integer({ min: 1, max: 3 }),
    }),
    { maxLength: 12 },
  ),
  servers: fc.array(
    fc.record({
      inFlight: fc.integer({ min: 0, max: 4 }),
      ceiling: fc.integer({ min: 1, max: 4 }),
      keptTokens: fc.integer({ min: 0, max: 1200 }),
    }),
    { minLength: 1, maxLength: 2 },
  ),
});
const built = (given: typeof someView extends fc.Arbitrary<infer V> ? V : never): SchedulingView => ({
  now: given.now,
  servers: given.servers.map((one, at) => server(['x', 'y'][at]!, one)),
  waiting: given.waiting
    .map(({ step, home, resident, ...one }, at) =>
      waiting(`r${at}`, {
        ...one,
        home,
        resident: resident && home !== undefined,
        place: { step, task: at, attempt: 0, turn: 1 },
      }),
    )
    .sort((a, b) => a.since - b.since),
});

describe.each([
  ['programs', programs({ patienceMs: 400 })],
  ['longestFirst', longestFirst({ patienceMs: 400 })],
])('%s', (_, policy) => {
  test('once a request has waited longer than its patience, only those that waited longer still, or are in memory, pass', () =>
    fc.assert(
      fc.property(someView, (given) => {
        const view = built(given);
        const decision = policy(view);
        if (decision?.kind !== 'send' || decision.request.resident) return;
        const passed = view.waiting.filter(({ since }) => view.now - since >= 400);
        for (const overdue of passed) expect(decision.request.since).toBeLessThanOrEqual(overdue.since);
      }),
      { numRuns: 500 },
    ));

  test('a server that has nothing to do takes what waits', () =>
    fc.assert(
      fc.property(someView, (given) => {
        const view = built(given);
        const idle = view.servers.find(({ inFlight }) => inFlight === 0);
        const free = view.waiting.filter(({ resident, home }) => !resident || home === idle?.name);
        if (idle && free.length > 0) expect(policy(view)).toBeDefined();
      }),
      { numRuns: 500 },
    ));
});

test('lengths are guessed by the longest sibling, then by the mean, and the tail by itself', () => {
  const prediction = new LengthPrediction();
  prediction.learn('a', 100);
  prediction.learn('a', 300);
  prediction.learn('b', 50);
  expect(prediction.left('a', 120)).toBe(180);
  expect(prediction.left('new', 0)).toBe(150);
  expect(prediction.knows('new')).toBe(false);
  expect(prediction.left('b', 80)).toBe(40);
});

test('a ceiling is cut when its server is strained, and grows only while it is used', () => {
  const rules = { ...CEILING_RULES, least: 4, most: 100, add: 10, cut: 0.5 };
  const load: ServerLoad = { running: 20, queued: 0, kvUse: 0.5, preemptions: 3 };
  const next = (mostInFlight: number, now: Partial<ServerLoad>, before: ServerLoad | undefined = load) =>
    nextCeiling({ ceiling: 40, mostInFlight }, { ...load, ...now }, before, rules);
  expect(next(40, {})).toBe(50);
  expect(next(39, {})).toBe(40);
  expect(next(40, { preemptions: 4 })).toBe(20);
  expect(next(30, { kvUse: 0.95 })).toBe(15);
  expect(next(40, { queued: 3 })).toBe(20);
  expect(next(40, { queued: 2 })).toBe(50);
  expect(next(1, { kvUse: 1 })).toBe(4);
});
