/** Runs of `bench schedule` in virtual time: one batch rolled out, or several steps of training in a mode. */
import { setMaxListeners } from 'node:events';
import { type GatewayOptions, gateway } from '../../src/gateway/gateway.ts';
import { sleep } from '../../src/lib/clock.ts';
import { semaphore } from '../../src/lib/semaphore.ts';
import type { GroupRequest } from '../../src/modes/group-source.ts';
import type { Mode } from '../../src/modes/mode.ts';
import { schedule } from '../../src/modes/schedule.ts';
import type { Group, Scored, Task } from '../../src/types.ts';
import {
  drawTrajectory,
  type PlayedTrajectory,
  playTrajectory,
  replyLengths,
  type SimulatedHardware,
  type SimulatedTrajectory,
  simulatedEngine,
  virtualClock,
} from '../../testing/index.ts';
import { barriers } from './barriers.ts';
import type { ScheduleCase } from './cases.ts';

export interface Figures {
  readonly seconds: number;
  /** Sampled tokens of the trajectories that count, a second. */
  readonly tokensPerSecond: number;
  /** Share of the servers' time in which a step ran. */
  readonly utilisation: number;
  /** Requests that decode together, mean over all steps. */
  readonly meanBatch: number;
  /** Time of a trajectory, from start to end. */
  readonly medianSeconds: number;
  readonly p99Seconds: number;
  /** Jain's index of slowdowns against an empty server: 1 is the same for all. */
  readonly fairness: number;
  /** Share of prompt tokens found in the prefix cache. */
  readonly cacheHits: number;
  readonly preemptions: number;
  /** Versions between a group's admission and its training. */
  readonly meanStaleness: number;
  readonly maxStaleness: number;
}

export interface RolloutSetting {
  readonly seed: number;
  readonly gateway?: Partial<GatewayOptions>;
  /** All trajectories wait for one another at every turn, and tools run when all have replied. */
  readonly byBatch?: boolean;
  /** Policies know how long every trajectory will be. */
  readonly oracle?: boolean;
}

/** One batch, from the first request to the end of the last trajectory. */
export async function rollOutBatch(one: ScheduleCase, setting: RolloutSetting): Promise<Figures> {
  const { byBatch, seed } = setting;
  const setup = setUp(one, one.servers, setting);
  const { clock, front, plans } = setup;
  const tools = semaphore(one.toolWorkers);
  const all = batchOf(one, seed);
  for (const plan of all) plans.set(plan.id, plan);
  const waits = byBatch ? barriers(all) : {};
  const played = await Promise.all(
    all.map((plan) => playTrajectory(plan, { server: front, clock, seed, tools, ...waits })),
  );
  return figuresOf(one.hardware, setup, played, clock.now());
}

const batchOf = ({ shape, tasks, attempts }: ScheduleCase, seed: number) =>
  Array.from({ length: tasks * attempts }, (_, at) =>
    drawTrajectory(shape, { seed, task: Math.floor(at / attempts), attempt: at % attempts }),
  );

/** What no schedule can undercut: the longest trajectory of a batch on a server that has nothing else to do. */
export const longestAloneSeconds = (one: ScheduleCase, seed: number) =>
  Math.max(...batchOf(one, seed).map((plan) => aloneMs(plan, one.hardware))) / 1000;

export interface ModeSetting {
  readonly mode: Mode;
  readonly servers: number;
  readonly steps: number;
  readonly seed: number;
  /** The trainer's time for each sampled token. */
  readonly trainMsPerToken: number;
  readonly byBatch?: boolean;
}

/** Steps of a run in a mode, counted from the end of the first, when what is in flight has filled up. */
export async function trainInMode(one: ScheduleCase, setting: ModeSetting): Promise<Figures> {
  const { mode, steps, seed, trainMsPerToken, byBatch } = setting;
  const setup = setUp(one, setting.servers, { seed });
  const { clock, front, plans, statistics } = setup;
  const tools = semaphore(one.toolWorkers);
  const trained = new Map<string, PlayedTrajectory>();
  const stalenesses: number[] = [];
  /** By batch: the trajectories of each step, and their barriers. */
  const batches = new Map<number, { plans: SimulatedTrajectory[]; waits?: ReturnType<typeof barriers> }>();
  let version = 0;
  let next = 0;
  const source = schedule<Task>(mode, {
    tasksPerStep: one.tasks,
    attemptsPerTask: one.attempts,
    steps,
    version: () => version,
    tasks: {
      next: (count) => Array.from({ length: count }, () => next++),
      at: async (place) => ({ index: place, task: {} }),
    },
    rollout: { begin: () => {}, group: rollOut, scoreBatch: async (groups) => groups },
    servers: front,
  });
  const begun: { at: number; counts: ReturnType<typeof statistics> } = { at: 0, counts: statistics() };
  const consumed: PlayedTrajectory[] = [];
  for (let step = 1; step <= steps; step++) {
    const { groups } = await source.take(step);
    const played = groups.flatMap(({ attempts }) =>
      attempts.map(({ trajectory }) => trained.get(trajectory.id)!),
    );
    const tokens = played.reduce((sum, { sampledTokens }) => sum + sampledTokens, 0);
    if (step > 1) {
      consumed.push(...played);
      stalenesses.push(...played.map(({ versions }) => version - versions[0]));
    }
    for (const { plan } of played) trained.delete(plan.id);
    await sleep(clock, trainMsPerToken * tokens);
    await source.settle();
    version++;
    await front.update({ kind: 'disk', version, path: '' });
    await source.renew();
    if (step === 1) Object.assign(begun, { at: clock.now(), counts: statistics() });
  }
  const ended = clock.now();
  const figures = figuresOf(one.hardware, setup, consumed, ended - begun.at, begun.counts);
  await source.close();
  return {
    ...figures,
    meanStaleness: stalenesses.reduce((sum, age) => sum + age, 0) / stalenesses.length,
    maxStaleness: Math.max(...stalenesses),
  };

  /** The first `wanted` attempts to end are the group; the rest is cancelled. */
  async function rollOut({
    index,
    step,
    firstAttempt,
    attempts,
    wanted,
    signal,
  }: GroupRequest<Task>): Promise<Group> {
    const enough = new AbortController();
    const either = AbortSignal.any([signal, enough.signal]);
    setMaxListeners(0, either);
    const drawn = Array.from({ length: attempts }, (_, at) => {
      const plan = drawTrajectory(one.shape, { seed, task: index, attempt: firstAttempt + at });
      return { ...plan, id: `${step}/${plan.id}` };
    });
    const waits = byBatch ? await together(step, drawn) : {};
    const done: PlayedTrajectory[] = [];
    await Promise.all(
      drawn.map(async (plan) => {
        plans.set(plan.id, plan);
        try {
          done.push(
            await playTrajectory(plan, { server: front, clock, seed, step, tools, signal: either, ...waits }),
          );
          if (done.length === wanted) enough.abort('enough');
        } catch (error) {
          if (!either.aborted) throw error;
        } finally {
          plans.delete(plan.id);
        }
      }),
    );
    const counted = done.slice(0, wanted);
    for (const one of counted) trained.set(one.plan.id, one);
    return { taskIndex: index, task: {}, attempts: counted.map((one) => scored(one, step)) };
  }

  /** By batch, the groups of a step share their barriers: they begin when all of them are there. */
  async function together(step: number, drawn: readonly SimulatedTrajectory[]) {
    const batch = batches.get(step) ?? { plans: [] };
    batches.set(step, batch);
    batch.plans.push(...drawn);
    await sleep(clock, 0);
    batch.waits ??= barriers(batch.plans);
    return batch.waits;
  }
}

function setUp(one: ScheduleCase, servers: number, { gateway: options, oracle }: Partial<RolloutSetting>) {
  const clock = virtualClock();
  const plans = new Map<string, SimulatedTrajectory>();
  const engines = Array.from({ length: servers }, () =>
    simulatedEngine({ clock, hardware: one.hardware, replyTokens: replyLengths((id) => plans.get(id)!) }),
  );
  const front = gateway(engines, {
    clock,
    ...options,
    ...(oracle
      ? { predict: ({ trajectory, prompt }) => tokensLeft(plans.get(trajectory)!, prompt.length) }
      : {}),
  });
  const statistics = () => engines.map((engine) => engine.statistics());
  return { clock, plans, front, statistics };
}

/** How many tokens a trajectory will still sample at this context length. */
function tokensLeft({ promptTokens, turns }: SimulatedTrajectory, context: number): number {
  let [at, left] = [promptTokens, 0];
  for (const { replyTokens, resultTokens } of turns) {
    left += Math.max(0, at + replyTokens - Math.max(at, context));
    at += replyTokens + resultTokens;
  }
  return left;
}

type Statistics = ReturnType<ReturnType<typeof setUp>['statistics']>;

function figuresOf(
  hardware: SimulatedHardware,
  { statistics }: { readonly statistics: () => Statistics },
  played: readonly PlayedTrajectory[],
  milliseconds: number,
  before?: Statistics,
): Figures {
  const after = statistics();
  const sum = (name: keyof Statistics[number]) =>
    after.reduce((total, one, at) => total + one[name] - (before?.[at]?.[name] ?? 0), 0);
  const times = played.map(({ began, ended }) => ended - began).sort((a, b) => a - b);
  const slowdowns = played.map(({ plan, began, ended }) => (ended - began) / aloneMs(plan, hardware));
  const total = slowdowns.reduce((all, one) => all + one, 0);
  return {
    seconds: milliseconds / 1000,
    tokensPerSecond:
      (1000 * played.reduce((all, { sampledTokens }) => all + sampledTokens, 0)) / milliseconds,
    utilisation: sum('busyMs') / (after.length * milliseconds),
    meanBatch: sum('decoded') / Math.max(1, sum('steps')),
    medianSeconds: times[Math.floor(times.length / 2)]! / 1000,
    p99Seconds: times[Math.floor(0.99 * times.length)]! / 1000,
    fairness: total ** 2 / (slowdowns.length * slowdowns.reduce((all, one) => all + one * one, 0)),
    cacheHits:
      sum('cachedPromptTokens') / Math.max(1, sum('cachedPromptTokens') + sum('computedPromptTokens')),
    preemptions: sum('preemptions'),
    meanStaleness: 0,
    maxStaleness: 0,
  };
}

/** How long a trajectory takes on a server that has nothing else to do and keeps its context. */
function aloneMs({ promptTokens, turns }: SimulatedTrajectory, hardware: SimulatedHardware): number {
  const { stepMs, sequenceMs, contextMs, prefillMs } = hardware;
  let [context, fresh, time] = [promptTokens, promptTokens, 0];
  for (const { replyTokens, toolMs, resultTokens } of turns) {
    time += stepMs + prefillMs * fresh;
    for (let token = 1; token < replyTokens; token++)
      time += stepMs + sequenceMs + contextMs * (context + token);
    context += replyTokens + resultTokens;
    fresh = resultTokens + 1;
    time += toolMs;
  }
  return time;
}

function scored({ plan, versions }: PlayedTrajectory, step: number): Scored {
  return {
    trajectory: {
      id: plan.id,
      step,
      taskIndex: plan.task,
      task: {},
      attempt: plan.attempt,
      // Two tokens stand for all: the first and the last, with their versions.
      segments: [
        {
          ids: new Int32Array(2),
          sampled: new Uint8Array(2).fill(1),
          trained: new Uint8Array(2).fill(1),
          logprobs: new Float32Array(2),
          versions: Int32Array.from(versions),
          turns: new Int32Array(2).fill(1),
          images: [],
        },
      ],
      messages: [],
      chats: [],
      turns: [],
      text: '',
      end: { kind: 'completed' },
      spans: [],
      extra: {},
    },
    rewards: {},
    reward: 0,
  };
}
