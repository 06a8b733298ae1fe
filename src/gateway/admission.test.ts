import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type SimulatedEngine,
  type SimulatedHardware,
  simulatedEngine,
} from '../../testing/simulated-engine.ts';
import {
  drawTrajectory,
  type PlayedTrajectory,
  playTrajectory,
  replyLengths,
  type SimulatedTrajectory,
} from '../../testing/simulated-work.ts';
import { virtualClock } from '../../testing/virtual-clock.ts';
import type { GenerateRequest, InferenceServer } from '../inference/server.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';
import { type Gateway, type GatewayOptions, gateway } from './gateway.ts';
import { firstCome } from './policies/first-come.ts';
import { longestFirst } from './policies/longest-first.ts';
import { programs } from './policies/programs.ts';

const POLICIES = { firstCome, programs, longestFirst } as const;

const HARDWARE: SimulatedHardware = {
  stepMs: 10,
  sequenceMs: 0.5,
  contextMs: 0.01,
  prefillMs: 0.5,
  maxBatch: 8,
  chunkTokens: 64,
  kvTokens: 400,
  prefixCache: true,
  blockTokens: 4,
};

interface Played {
  readonly results: readonly PlayedTrajectory[];
  readonly front: Gateway;
  readonly engines: readonly SimulatedEngine[];
  /** Ids as the servers got them, in order. */
  readonly sent: readonly string[];
  readonly mostAtOnce: number;
}

async function play(
  plans: readonly SimulatedTrajectory[],
  options: Partial<GatewayOptions>,
  { servers = 2, kvTokens = 400, stagger = 0 } = {},
): Promise<Played> {
  const clock = virtualClock();
  const byId = new Map(plans.map((plan) => [plan.id, plan]));
  const sent: string[] = [];
  let mostAtOnce = 0;
  const engines = Array.from({ length: servers }, () =>
    simulatedEngine({
      clock,
      hardware: { ...HARDWARE, kvTokens },
      replyTokens: replyLengths((id) => byId.get(id)!),
    }),
  );
  const watched = engines.map((engine): InferenceServer => {
    let atOnce = 0;
    return Object.assign(Object.create(engine) as InferenceServer, {
      load: () => engine.load(),
      generate: async (request: GenerateRequest) => {
        sent.push(request.id);
        mostAtOnce = Math.max(mostAtOnce, ++atOnce);
        return engine.generate(request).finally(() => atOnce--);
      },
    });
  });
  const front = gateway(watched, { clock, ...options });
  const results = await Promise.all(
    plans.map(
      (plan, at) =>
        new Promise<PlayedTrajectory>((resolve, reject) =>
          clock.timer(at * stagger, () =>
            playTrajectory(plan, { server: front, clock, seed: 1 }).then(resolve, reject),
          ),
        ),
    ),
  );
  expect(clock.pending).toBe(0);
  return { results, front, engines, sent, mostAtOnce };
}

const someTrajectories = fc.array(
  fc.record({
    promptTokens: fc.integer({ min: 1, max: 80 }),
    turns: fc.array(
      fc.record({
        replyTokens: fc.integer({ min: 1, max: 40 }),
        toolMs: fc.integer({ min: 0, max: 2000 }),
        resultTokens: fc.integer({ min: 1, max: 20 }),
      }),
      { minLength: 1, maxLength: 4 },
    ),
  }),
  { minLength: 1, maxLength: 24 },
);

const planned = (
  given: readonly Pick<SimulatedTrajectory, 'promptTokens' | 'turns'>[],
): SimulatedTrajectory[] =>
  given.map((one, at) => ({ ...one, id: `t${at}`, task: at >> 2, attempt: at % 4 }));

describe.each(Object.entries(POLICIES))('%s', (_, policy) => {
  test('loses no request, sends none twice, and keeps no count of what has ended', () =>
    fc.assert(
      fc.asyncProperty(someTrajectories, fc.integer({ min: 1, max: 3 }), async (given, servers) => {
        const plans = planned(given);
        const { sent, front, results } = await play(plans, { policy: policy() }, { servers, stagger: 7 });
        expect(new Set(sent).size).toBe(sent.length);
        expect(sent.length).toBe(plans.reduce((sum, { turns }) => sum + turns.length, 0));
        for (const { plan, sampledTokens } of results) {
          expect(sampledTokens).toBe(plan.turns.reduce((sum, { replyTokens }) => sum + replyTokens, 0));
        }
        expect(front.waiting).toBe(0);
        for (const { inFlight } of front.status()) expect(inFlight).toBe(0);
      }),
      { numRuns: 40 },
    ));

  test('never gives a server more than its ceiling', () =>
    fc.assert(
      fc.asyncProperty(someTrajectories, fc.integer({ min: 1, max: 5 }), async (given, most) => {
        const ceiling = { first: most, least: 1, most, everyMs: 100 };
        const { mostAtOnce } = await play(planned(given), { policy: policy(), ceiling });
        expect(mostAtOnce).toBeLessThanOrEqual(most);
      }),
      { numRuns: 25 },
    ));

  test('sends the same requests in the same order to the same servers when run again', () =>
    fc.assert(
      fc.asyncProperty(someTrajectories, async (given) => {
        const [one, other] = [
          await play(planned(given), { policy: policy() }),
          await play(planned(given), { policy: policy() }),
        ];
        expect(other.sent).toEqual(one.sent);
        expect(other.results).toEqual(one.results);
      }),
      { numRuns: 10 },
    ));

  test('a request cancelled while it waits leaves the queue; one whose server dies is sent elsewhere', async () => {
    const clock = virtualClock();
    const stop = new AbortController();
    const engine = () =>
      simulatedEngine({ clock, hardware: HARDWARE, replyTokens: ({ sampling }) => sampling.maxTokens });
    const [first, second] = [engine(), engine()];
    let dead = false;
    const mortal: InferenceServer = Object.assign(Object.create(first) as InferenceServer, {
      load: () => first.load(),
      ready: async () => !dead,
      generate: async (request: GenerateRequest) => {
        const reply = await first.generate(request);
        if (dead) throw new Error('connection cut');
        return reply;
      },
    });
    const front = gateway([mortal, second], {
      clock,
      policy: policy(),
      ceiling: { first: 1, most: 1, least: 1 },
    });
    const ask = (trajectory: string, signal?: AbortSignal) =>
      front.generate({
        id: `${trajectory}/`,
        trajectory,
        prompt: new Int32Array(10),
        sampling: { ...PLAIN_SAMPLING, maxTokens: 20, stopIds: [], seed: 1 },
        ...(signal ? { signal } : {}),
      });
    const asked = [ask('a'), ask('b'), ask('c')];
    const cancelled = ask('d', stop.signal);
    clock.timer(5, () => stop.abort(new Error('user')));
    clock.timer(50, () => {
      dead = true;
    });
    await expect(cancelled).rejects.toThrow('user');
    const replies = await Promise.all(asked);
    expect(replies.map(({ server }) => server)).toEqual(['server 1', 'server 1', 'server 1']);
    expect(front.status().map(({ inFlight }) => inFlight)).toEqual([0, 0]);
    expect(front.waiting).toBe(0);
  });
});

const SHAPE = {
  promptTokens: { median: 40, sigma: 0.3 },
  turns: 6,
  replyTokens: { median: 10, sigma: 0.8, most: 60 },
  toolMs: { median: 300, sigma: 0.8 },
  resultTokens: { median: 20, sigma: 0.5, most: 60 },
  sharedByTask: 0.5,
};
const manyTrajectories = Array.from({ length: 64 }, (_, at) =>
  drawTrajectory(SHAPE, { seed: 9, task: at >> 3, attempt: at % 8 }),
);

test('with more trajectories than memory, programs compute fewer prompt tokens and end sooner than first come', async () => {
  const place = { servers: 2, kvTokens: 1500 };
  const plain = await play(manyTrajectories, { policy: firstCome() }, place);
  const budgeted = await play(manyTrajectories, { policy: programs() }, place);
  const computed = ({ engines }: Played) =>
    engines.reduce((sum, engine) => sum + engine.statistics().computedPromptTokens, 0);
  const ended = ({ results }: Played) => Math.max(...results.map((one) => one.ended));
  expect(computed(budgeted)).toBeLessThan(0.7 * computed(plain));
  expect(ended(budgeted)).toBeLessThan(ended(plain));
});

test('a ceiling falls while its server preempts, and rises again while it does not', async () => {
  const ceiling = { first: 8, least: 2, most: 64, add: 4, everyMs: 200 };
  const seen: number[] = [];
  const { front, engines } = await play(
    manyTrajectories,
    {
      ceiling,
      policy: (view) => {
        seen.push(view.servers[0]!.ceiling);
        return firstCome()(view);
      },
    },
    { servers: 1, kvTokens: 600 },
  );
  expect(engines[0]!.statistics().preemptions).toBeGreaterThan(0);
  expect(Math.min(...seen)).toBeLessThan(8);
  expect(seen.some((value, at) => at > 0 && value === seen[at - 1]! + 4)).toBe(true);
  expect(front.status()[0]!.load!.kvTokens).toBe(600);
});
