import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { virtualClock } from '../../testing/index.ts';
import { EngineError } from '../errors.ts';
import { sleep } from '../lib/clock.ts';
import { createRandom, hashSeed } from '../lib/random.ts';
import type { Group, Metrics, Scored, Task } from '../types.ts';
import type {
  GroupRequest,
  GroupRollout,
  GroupSource,
  ScheduleParts,
  ScheduleState,
  TaskOrder,
} from './group-source.ts';
import {
  asynchronous,
  isOffPolicy,
  type Mode,
  oneStepOff,
  overSample,
  partial,
  synchronous,
  tailRounds,
} from './mode.ts';
import { schedule } from './schedule.ts';

const NO_LIMIT = Number.POSITIVE_INFINITY;
const chance = (share: number, ...parts: (string | number)[]) => hashSeed(...parts) / 2 ** 32 < share;

interface Setting {
  readonly mode: Mode;
  readonly seed: number;
  readonly tasksPerStep: number;
  readonly attemptsPerTask: number;
  readonly steps: number;
  /** Tasks of the dataset; endless if absent. */
  readonly tasks?: number;
  readonly failedShare: number;
  readonly evictedShare: number;
  readonly maxRefills: number;
}

const tasksIn = (next: TaskOrder<Task>['next']): TaskOrder<Task> => ({
  next,
  at: async (place) => ({ index: place, task: {} }),
});

const rolledOutBy = (group: GroupRollout<Task>['group']): GroupRollout<Task> => ({
  begin: () => {},
  group,
  scoreBatch: async (groups) => groups,
});

/**
 * What a run is to a schedule, without any engine: rollouts take random time, some attempts fail, some groups are without
 * spread. It keeps the books that the tests look at.
 */
class World {
  readonly setting: Setting;
  readonly clock = virtualClock();
  version = 0;
  handedOut: number[] = [];
  trained: Group[] = [];
  evicted: number[] = [];
  /** Version at which a trajectory began. */
  readonly began = new Map<string, number>();
  mostAdmittedBeyondBound = Number.NEGATIVE_INFINITY;
  paused = false;
  sampledWhilePaused = 0;

  constructor(setting: Setting) {
    this.setting = setting;
  }

  parts(): ScheduleParts<Task> {
    const { tasksPerStep, attemptsPerTask, steps, maxRefills, evictedShare, seed, tasks, mode } =
      this.setting;
    return {
      tasksPerStep,
      attemptsPerTask,
      steps,
      version: () => this.version,
      tasks: tasksIn((count) => {
        const first = this.handedOut.length;
        const places = Array.from({ length: count }, (_, at) =>
          tasks === undefined ? first + at : (first + at) % tasks,
        );
        this.handedOut.push(...places);
        const admitted = this.handedOut.length - this.evicted.length;
        this.mostAdmittedBeyondBound = Math.max(
          this.mostAdmittedBeyondBound,
          admitted - (mode.staleness + this.version + 1) * tasksPerStep,
        );
        return places;
      }),
      rollout: rolledOutBy((request) => this.rollOut(request)),
      ...(evictedShare > 0
        ? {
            dynamicSampling: {
              keep: ({ taskIndex }) => {
                const kept = !chance(evictedShare, seed, 'evicted', taskIndex);
                if (!kept) this.evicted.push(taskIndex);
                return kept;
              },
              maxRefills,
            },
          }
        : {}),
      servers: {
        pause: async () => {
          this.paused = true;
        },
        resume: async () => {
          this.paused = false;
        },
      },
    };
  }

  async rollOut(request: GroupRequest<Task>): Promise<Group> {
    const { index, task, step, firstAttempt, attempts, wanted, signal } = request;
    const { seed, failedShare } = this.setting;
    const ended: Scored[] = [];
    const enough = new AbortController();
    const stop = AbortSignal.any([signal, enough.signal]);
    await Promise.all(
      Array.from({ length: attempts }, async (_, number) => {
        const attempt = firstAttempt + number;
        const id = `${step}/${index}/${attempt}`;
        const random = createRandom(hashSeed(seed, id));
        const versions = [this.version];
        this.began.set(id, this.version);
        for (let token = Math.ceil(30 * random.next() ** 3); token > 0 && !stop.aborted; token--) {
          await sleep(this.clock, 100 * random.next(), stop).catch(() => {});
          while (this.paused && !stop.aborted) await sleep(this.clock, 20, stop).catch(() => {});
          versions.push(this.version);
        }
        const failed = chance(failedShare, seed, 'failed', id);
        const ids = Int32Array.from(versions, () => 1);
        const end = stop.aborted
          ? { kind: 'cancelled' as const, why: 'test' }
          : failed
            ? { kind: 'failed' as const, boundary: 'infrastructure' as const, message: 'gone' }
            : { kind: 'completed' as const };
        ended.push({
          trajectory: {
            id,
            step,
            taskIndex: index,
            task: {},
            attempt,
            segments: [
              {
                ids,
                sampled: new Uint8Array(ids.length).fill(1),
                trained: new Uint8Array(ids.length).fill(1),
                logprobs: new Float32Array(ids.length),
                versions: Int32Array.from(versions),
                turns: new Int32Array(ids.length).fill(1),
                images: [],
              },
            ],
            messages: [],
            chats: [],
            turns: [],
            text: '',
            end,
            spans: [],
            extra: {},
          },
          rewards: {},
          reward: end.kind === 'completed' ? 1 : undefined,
        });
        if (ended.filter((one) => one.trajectory.end.kind !== 'failed').length >= wanted) enough.abort();
      }),
    );
    return { taskIndex: index, task, attempts: ended.slice(0, wanted) };
  }

  /** What a checkpoint would hold, and what it is loaded back to. */
  save(source: GroupSource<Task>) {
    const state = source.state();
    const [version, handedOut, trained, evicted] = [
      this.version,
      [...this.handedOut],
      [...this.trained],
      [...this.evicted],
    ];
    return {
      state,
      handedOut,
      load: (): ScheduleState<Task> => {
        Object.assign(this, {
          version,
          handedOut: [...handedOut],
          trained: [...trained],
          evicted: [...evicted],
        });
        this.paused = false;
        return structuredClone(state);
      },
    };
  }

  /** Every task handed out is trained, left out, in progress, done, or waiting: exactly one of them. */
  checkBooks({ running, finished, waiting, putOff }: ScheduleState<Task>): void {
    const somewhere = [
      ...this.trained.map(({ taskIndex }) => taskIndex),
      ...this.evicted,
      ...running.map(({ place }) => place),
      ...finished.map(({ place }) => place),
      ...waiting,
      ...putOff,
    ];
    expect(somewhere.sort((a, b) => a - b)).toEqual([...this.handedOut].sort((a, b) => a - b));
  }

  checkStep(groups: readonly Group[]): void {
    const { mode, tasksPerStep, attemptsPerTask, maxRefills } = this.setting;
    if (maxRefills === NO_LIMIT) expect(groups).toHaveLength(tasksPerStep);
    for (const { attempts, taskIndex } of groups) {
      expect(attempts).toHaveLength(attemptsPerTask);
      for (const { trajectory } of attempts) {
        expect(trajectory.taskIndex).toBe(taskIndex);
        const versions = [...trajectory.segments[0]!.versions];
        const age = this.version - this.began.get(trajectory.id)!;
        if (!isOffPolicy(mode)) expect(new Set(versions)).toEqual(new Set([this.version]));
        else if (mode.kind === 'one-step-off') {
          expect(new Set(versions).size).toBe(1);
          expect(age).toBeLessThanOrEqual(1);
        } else expect(age).toBeLessThanOrEqual(mode.staleness);
      }
    }
    this.trained.push(...groups);
    const ids = this.trained.flatMap(({ attempts }) => attempts.map(({ trajectory }) => trajectory.id));
    expect(new Set(ids).size).toBe(ids.length);
  }
}

/** Trains all steps; `crashes` are milliseconds after a step's begin at which the run is lost and resumed. */
async function play(setting: Setting, crashes: readonly number[] = []): Promise<World> {
  const world = new World(setting);
  const random = createRandom(hashSeed(setting.seed, 'training'));
  let source = schedule(setting.mode, world.parts());
  let saved = world.save(source);
  const left = [...crashes];
  for (let step = 1; step <= setting.steps; ) {
    const crash = left.shift();
    const work = async () => {
      const { groups } = await source.take(step);
      world.checkStep(groups);
      await sleep(world.clock, 600 * random.next());
      await source.settle();
      world.version++;
      await source.renew();
    };
    const trained = work().then(() => 'trained' as const);
    trained.catch(() => {});
    const survived = new AbortController();
    const lost =
      crash === undefined
        ? []
        : [
            sleep(world.clock, crash, survived.signal).then(
              () => 'lost' as const,
              () => 'survived' as const,
            ),
          ];
    const outcome = await Promise.race([trained, ...lost]);
    survived.abort();
    if (outcome === 'lost') {
      await source.close();
      await trained.catch(() => {});
      const state = saved.load();
      step = world.version + 1;
      source = schedule(setting.mode, world.parts(), state);
      continue;
    }
    world.checkBooks(source.state());
    if (chance(0.6, setting.seed, 'saves', step)) saved = world.save(source);
    step++;
  }
  await source.close();
  expect(world.clock.pending).toBe(0);
  return world;
}

const modes: fc.Arbitrary<Mode> = fc.oneof(
  fc.constant(synchronous()),
  fc.constant(oneStepOff()),
  fc.integer({ min: 0, max: 3 }).map((staleness) => asynchronous({ staleness })),
  fc
    .record({ extraTasks: fc.integer({ min: 1, max: 6 }), staleness: fc.integer({ min: 0, max: 3 }) })
    .map(partial),
  fc
    .record({ tasks: fc.integer({ min: 0, max: 4 }), attempts: fc.integer({ min: 0, max: 3 }) })
    .filter(({ tasks, attempts }) => tasks + attempts > 0)
    .map(overSample),
  fc
    .record({ extraTasks: fc.integer({ min: 1, max: 4 }), extraAttempts: fc.integer({ min: 0, max: 2 }) })
    .map(tailRounds),
);

const settings: fc.Arbitrary<Setting> = fc.record({
  mode: modes,
  seed: fc.integer({ min: 0, max: 1e6 }),
  tasksPerStep: fc.integer({ min: 1, max: 5 }),
  attemptsPerTask: fc.integer({ min: 1, max: 4 }),
  steps: fc.integer({ min: 1, max: 7 }),
  failedShare: fc.constantFrom(0, 0.2),
  evictedShare: fc.constantFrom(0, 0.25),
  maxRefills: fc.constantFrom(NO_LIMIT, NO_LIMIT, 0, 1, 2),
});

describe('in every mode', () => {
  test('no group is lost, cut or trained twice, and none is staler than the mode allows', async () => {
    await fc.assert(
      fc.asyncProperty(settings, async (setting) => {
        const { trained, mostAdmittedBeyondBound } = await play(setting);
        if (setting.maxRefills === NO_LIMIT)
          expect(trained).toHaveLength(setting.steps * setting.tasksPerStep);
        if (setting.mode.kind === 'asynchronous') expect(mostAdmittedBeyondBound).toBeLessThanOrEqual(0);
      }),
      { numRuns: 80 },
    );
  }, 60_000);

  test('a run that is lost at random moments and resumed from its last checkpoint loses and repeats nothing', async () => {
    const crashes = fc.array(fc.integer({ min: 0, max: 3000 }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(settings, crashes, async (setting, moments) => {
        const { trained } = await play(setting, moments);
        if (setting.maxRefills === NO_LIMIT)
          expect(trained).toHaveLength(setting.steps * setting.tasksPerStep);
      }),
      { numRuns: 80 },
    );
  }, 60_000);

  test('a dataset smaller than what is in progress gives every attempt a different id', async () => {
    await fc.assert(
      fc.asyncProperty(settings, fc.integer({ min: 1, max: 4 }), async (setting, tasks) => {
        await play({ ...setting, tasks, evictedShare: 0 });
      }),
      { numRuns: 30 },
    );
  }, 60_000);
});

/** Groups of one attempt that take the given milliseconds, by place; training takes 100. Says what each step trained on. */
async function timeline(mode: Mode, tasksPerStep: number, milliseconds: readonly number[], steps: number) {
  const clock = virtualClock();
  let version = 0;
  let next = 0;
  const pausedAt: number[] = [];
  const source = schedule<Task>(mode, {
    tasksPerStep,
    attemptsPerTask: 1,
    steps,
    version: () => version,
    tasks: tasksIn((count) => Array.from({ length: count }, () => next++)),
    rollout: rolledOutBy(async ({ index, task, signal }) => {
      await sleep(clock, milliseconds[index] ?? 100, signal).catch(() => {});
      return { taskIndex: index, task, attempts: [] };
    }),
    servers: {
      pause: async () => {
        pausedAt.push(clock.now());
      },
      resume: async () => {},
    },
  });
  const trained: { at: number; places: number[]; metrics: Metrics }[] = [];
  for (let step = 1; step <= steps; step++) {
    const { groups, metrics } = await source.take(step);
    trained.push({ at: clock.now(), places: groups.map(({ taskIndex }) => taskIndex), metrics });
    await sleep(clock, 100);
    await source.settle();
    version++;
    await source.renew();
  }
  const state = source.state();
  await source.close();
  return { trained: trained.map(({ at, places }) => [at, places]), steps: trained, state, pausedAt };
}

describe('by hand', () => {
  const slow = [100, 1000, 200, 300, 100, 100];

  test('synchronous steps wait for their slowest group', async () => {
    const { trained } = await timeline(synchronous(), 2, slow, 3);
    expect(trained).toEqual([
      [1000, [0, 1]],
      [1400, [2, 3]],
      [1600, [4, 5]],
    ]);
  });

  test('one step off rolls out while it trains', async () => {
    const { trained } = await timeline(oneStepOff(), 2, slow, 3);
    expect(trained).toEqual([
      [1000, [0, 1]],
      [1300, [2, 3]], // began at 1000
      [1400, [4, 5]], // began at 1300
    ]);
  });

  test('asynchronous steps take what is done, and wait for a slow group only when it would be too late', async () => {
    const { trained, steps } = await timeline(asynchronous({ staleness: 1 }), 2, slow, 3);
    expect(trained).toEqual([
      [200, [0, 2]], // 0 to 3 began at 0; 4 and 5 begin with version 1, at 300
      [1000, [1, 3]], // both due at version 1
      [1100, [4, 5]],
    ]);
    expect(steps.map(({ metrics }) => metrics['rollout/staleness/max'])).toEqual([0, 1, 1]);
    expect(steps.map(({ metrics }) => metrics['rollout/groups_in_flight'])).toEqual([2, 0, 0]);
  });

  test('partial steps take what is done and pause the servers; a slow group goes on', async () => {
    const { trained, pausedAt } = await timeline(partial({ extraTasks: 1, staleness: 2 }), 2, slow, 3);
    expect(trained).toEqual([
      [200, [0, 2]], // 1 goes on; 3 and 4 begin at 300
      [600, [3, 4]],
      [1000, [1, 5]], // 1 is due at version 2
    ]);
    expect(pausedAt).toEqual([200, 600, 1000]);
  });

  test('over-sampled tasks that lose come first in the next step', async () => {
    const { trained, state, steps } = await timeline(overSample({ tasks: 1 }), 2, slow, 3);
    expect(trained).toEqual([
      [200, [0, 2]],
      [600, [3, 4]], // 1 began again at 300, and lost again
      [800, [5, 6]],
    ]);
    expect(steps.map(({ metrics }) => metrics['rollout/groups_cancelled'])).toEqual([1, 1, 1]);
    expect(state.waiting).toEqual([1]);
  });

  test('in tail rounds those that lost have a separate step, in which nothing is cut off', async () => {
    const { trained, steps } = await timeline(tailRounds({ extraTasks: 1 }), 2, slow, 4);
    expect(trained).toEqual([
      [200, [0, 2]], // 1 is put off
      [400, [4, 5]], // 3 is put off
      [1500, [1, 3]],
      [1700, [6, 7]],
    ]);
    expect(steps.map(({ metrics }) => metrics['rollout/long_round'])).toEqual([0, 0, 1, 0]);
  });
});

test('in synchronous mode the groups and their order do not depend on what ends first', async () => {
  await fc.assert(
    fc.asyncProperty(settings, fc.integer(), async (setting, other) => {
      const told = async (durations: number) => {
        const world = new World({ ...setting, mode: synchronous() });
        const rollOut = world.rollOut.bind(world);
        world.rollOut = async (request) => {
          await sleep(world.clock, 1000 * createRandom(hashSeed(durations, request.index)).next());
          return rollOut(request);
        };
        const source = schedule(synchronous(), world.parts());
        const places: number[][] = [];
        for (let step = 1; step <= setting.steps; step++) {
          places.push((await source.take(step)).groups.map(({ taskIndex }) => taskIndex));
          world.version++;
        }
        return places;
      };
      expect(await told(1)).toEqual(await told(other));
    }),
    { numRuns: 25 },
  );
});

test('a run resumed in another mode begins its groups in progress again, and loses no task', async () => {
  await fc.assert(
    fc.asyncProperty(settings, modes, fc.integer({ min: 1, max: 5 }), async (setting, mode, tasksPerStep) => {
      const other = { ...setting, mode, tasksPerStep, evictedShare: 0 };
      const world = new World({ ...setting, evictedShare: 0, steps: 4 });
      const source = schedule(setting.mode, world.parts());
      world.checkStep((await source.take(1)).groups);
      world.version++;
      const saved = world.save(source);
      await source.close();
      const next = new World({ ...other, steps: 4, maxRefills: NO_LIMIT });
      Object.assign(next, { version: 1, handedOut: [...saved.handedOut], trained: [...world.trained] });
      const resumed = schedule(mode, next.parts(), structuredClone(saved.state));
      for (let step = 2; step <= 4; step++) {
        next.checkStep((await resumed.take(step)).groups);
        await resumed.settle();
        next.version++;
        await resumed.renew();
        next.checkBooks(resumed.state());
      }
      await resumed.close();
    }),
    { numRuns: 60 },
  );
}, 60_000);

test.each([
  synchronous(),
  oneStepOff(),
  asynchronous({ staleness: 1 }),
  partial({ extraTasks: 1 }),
  overSample({ tasks: 1 }),
  tailRounds({ extraTasks: 1 }),
])('what stops a rollout stops the run: $kind', async (mode) => {
  let started = 0;
  const source = schedule<Task>(mode, {
    tasksPerStep: 2,
    attemptsPerTask: 1,
    steps: 3,
    version: () => 0,
    tasks: tasksIn((count) => Array.from({ length: count }, () => 0)),
    rollout: rolledOutBy(async () => {
      started++;
      throw new EngineError('all servers are gone');
    }),
  });
  await expect(source.take(1)).rejects.toThrow(new EngineError('all servers are gone'));
  const before = started;
  await source.renew();
  expect(started).toBe(before);
  await source.close();
});

test.each([
  async () => {},
  async () => {
    throw new EngineError('all servers are gone');
  },
])('a step of the mode partial that fails leaves no server paused', async (answer) => {
  const calls: string[] = [];
  const source = schedule<Task>(partial({ extraTasks: 1 }), {
    tasksPerStep: 1,
    attemptsPerTask: 1,
    steps: 3,
    version: () => 0,
    tasks: tasksIn((count) => Array.from({ length: count }, () => 0)),
    rollout: rolledOutBy(async ({ index, task }) => ({ taskIndex: index, task, attempts: [] })),
    servers: {
      pause: async () => void calls.push('pause'),
      resume: () => {
        calls.push('resume');
        return answer();
      },
    },
  });
  await source.take(1); // and the trainer throws
  await source.close();
  expect(calls).toEqual(['pause', 'resume']);
});
