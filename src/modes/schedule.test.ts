import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { virtualClock } from '../../testing/index.ts';
import { sleep } from '../lib/clock.ts';
import { createRandom, hashSeed } from '../lib/random.ts';
import type { Group, Scored, Task } from '../types.ts';
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
import {
  type GroupRequest,
  type GroupSource,
  type ScheduleParts,
  type ScheduleState,
  schedule,
} from './schedule.ts';

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
      nextPlaces: (count) => {
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
      },
      taskAt: async (place) => ({ index: place, task: {} }),
      rollOut: (request) => this.rollOut(request),
      ...(evictedShare > 0
        ? {
            keep: ({ taskIndex }) => {
              const kept = !chance(evictedShare, seed, 'evicted', taskIndex);
              if (!kept) this.evicted.push(taskIndex);
              return kept;
            },
          }
        : {}),
      maxRefills,
      pause: async () => {
        this.paused = true;
      },
      resume: async () => {
        this.paused = false;
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
    if (maxRefills === 0) expect(groups).toHaveLength(tasksPerStep);
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
  maxRefills: fc.constantFrom(0, 0, 1, 2),
});

describe('in every mode', () => {
  test('no group is lost, cut or trained twice, and none is staler than the mode allows', async () => {
    await fc.assert(
      fc.asyncProperty(settings, async (setting) => {
        const { trained, mostAdmittedBeyondBound } = await play(setting);
        if (setting.maxRefills === 0) expect(trained).toHaveLength(setting.steps * setting.tasksPerStep);
        if (setting.mode.kind === 'asynchronous') expect(mostAdmittedBeyondBound).toBeLessThanOrEqual(0);
      }),
      { numRuns: 300 },
    );
  }, 60_000);

  test('a run that is lost at random moments and resumed from its last checkpoint loses and repeats nothing', async () => {
    const crashes = fc.array(fc.integer({ min: 0, max: 3000 }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(settings, crashes, async (setting, moments) => {
        const { trained } = await play(setting, moments);
        if (setting.maxRefills === 0) expect(trained).toHaveLength(setting.steps * setting.tasksPerStep);
      }),
      { numRuns: 300 },
    );
  }, 60_000);

  test('a dataset smaller than what is in progress gives every attempt an id of its own', async () => {
    await fc.assert(
      fc.asyncProperty(settings, fc.integer({ min: 1, max: 4 }), async (setting, tasks) => {
        await play({ ...setting, tasks, evictedShare: 0 });
      }),
      { numRuns: 100 },
    );
  }, 60_000);
});
