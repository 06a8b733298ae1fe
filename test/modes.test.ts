import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  agent,
  arrayDataset,
  embedded,
  type Group,
  type Mode,
  reward,
  type StepReport,
  type TrainOptions,
  train,
} from 'rollcall';
import { corrections, dapo, gpg, grpo, remax } from 'rollcall/algorithms';
import { asynchronous, oneStepOff, overSample, partial, synchronous, tailRounds } from 'rollcall/scheduling';
import { beforeAll, describe, expect, test } from 'vitest';
import { hashSeed } from '../src/lib/random.ts';
import { readGroups } from '../src/watch/checkpoint-groups.ts';
import { tinyModel } from './tiny-model.ts';

type Letter = { letter: string };

let model: string;
beforeAll(async () => {
  model = await tinyModel();
});

/** A tool that takes its time, so that attempts end in another order than they began. */
const say = agent<Letter>(async ({ task, taskIndex, attempt, model: policy }) => {
  const chat = policy.chat();
  chat.user(task.letter);
  await new Promise((resolve) => setTimeout(resolve, hashSeed(taskIndex, attempt) % 40));
  await chat.sample();
});

const before = reward<Letter>('before', ({ task, trajectory: { text } }) => {
  return [...text].filter((character) => character < task.letter).length / Math.max(1, text.length);
});

const options = (
  runDir: string,
  mode: Mode,
  more: Partial<TrainOptions<Letter>> = {},
): TrainOptions<Letter> => ({
  model,
  runDir,
  mode,
  tasks: arrayDataset(Array.from({ length: 60 }, (_, at) => ({ letter: 'abcdef'[at % 6]! }))),
  agent: say,
  rewards: [before],
  algorithm: grpo(),
  ...embedded({ threads: 1 }),
  steps: 4,
  tasksPerStep: 4,
  attemptsPerTask: 4,
  limits: { tokensPerReply: 12 },
  optimizer: { learningRate: 1e-2 },
  evaluation: { before: false },
  checkpoints: { every: 0 },
  ...more,
});

const newRun = async () => join(await mkdtemp(join(tmpdir(), 'rollcall-modes-')), 'run');

async function steps(given: TrainOptions<Letter>, stopAfter = Number.POSITIVE_INFINITY) {
  const reports: StepReport<Letter>[] = [];
  for await (const report of train(given)) {
    reports.push(report);
    if (report.step >= stopAfter) break;
  }
  return reports;
}

const idsOf = (groups: readonly Group<Letter>[]) =>
  groups.flatMap(({ attempts }) => attempts.map(({ trajectory }) => trajectory.id));
const withoutTimes = ({ step, metrics }: StepReport<Letter>) => ({
  step,
  ...Object.fromEntries(Object.entries(metrics).filter(([name]) => !/^(timing_s|perf)\//.test(name))),
});

/** Versions of the sampled tokens of a step's trajectories, behind those of the weights they train. */
const agesOf = ({ groups, version }: StepReport<Letter>) =>
  groups.flatMap(({ attempts }) =>
    attempts.flatMap(({ trajectory }) =>
      trajectory.segments.flatMap(({ versions, sampled }) =>
        [...versions].filter((_, at) => sampled[at]).map((one) => version - 1 - one),
      ),
    ),
  );

describe.each<[string, Mode, number]>([
  ['synchronous', synchronous(), 0],
  ['one step off', oneStepOff(), 1],
  ['asynchronous', asynchronous({ staleness: 2 }), 2],
  ['partial', partial({ extraTasks: 2, staleness: 2 }), 2],
  ['over-sampled attempts', overSample({ attempts: 2 }), 0],
  ['over-sampled tasks', overSample({ tasks: 2 }), 0],
  ['tail rounds', tailRounds({ extraTasks: 2, extraAttempts: 1 }), 0],
])('%s', (_, mode, staleness) => {
  test('trains whole groups, each once, within its staleness, also when it is stopped and resumed', async () => {
    const runDir = await newRun();
    const first = await steps(options(runDir, mode), 2);
    const folder = join(runDir, 'checkpoints', 'global_step_2');
    const kept = (await readdir(folder)).includes('groups') ? await readGroups(folder) : [];
    const { schedule } = JSON.parse(await readFile(join(folder, 'state.json'), 'utf8')) as {
      schedule: { running: { place: number }[] };
    };
    const second = await steps(options(runDir, mode, { resume: true }));
    const all = [...first, ...second];
    expect(all.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
    for (const report of all) {
      expect(report.groups).toHaveLength(4);
      for (const { attempts } of report.groups) expect(attempts).toHaveLength(4);
      const ages = agesOf(report);
      expect(Math.min(...ages)).toBeGreaterThanOrEqual(0);
      expect(Math.max(...ages)).toBeLessThanOrEqual(staleness);
    }
    const ids = idsOf(all.flatMap(({ groups }) => groups));
    expect(new Set(ids).size).toBe(4 * 16);
    // 60 tasks: none comes twice unless one was trained twice.
    expect(new Set(all.flatMap(({ groups }) => groups.map(({ taskIndex }) => taskIndex))).size).toBe(16);

    const later = second.flatMap(({ groups }) => groups);
    expect(idsOf(later)).toEqual(expect.arrayContaining(idsOf(kept as Group<Letter>[])));
    const tokens = new Map(
      later.flatMap(({ attempts }) =>
        attempts.map(({ trajectory: { id, segments } }) => [id, segments] as const),
      ),
    );
    for (const { attempts } of kept)
      for (const { trajectory } of attempts) expect(tokens.get(trajectory.id)).toEqual(trajectory.segments);
    if (mode.kind === 'one-step-off') expect(kept).toHaveLength(4);
    if (mode.kind === 'asynchronous') expect(kept.length + schedule.running.length).toBe(8);
  }, 60_000);
});

test('one step off gives the same run for the same seed, stopped and resumed or not', async () => {
  const whole = (await steps(options(await newRun(), oneStepOff()))).map(withoutTimes);
  expect(whole.map((step) => step['training/off_policy/trajectory_staleness/max' as never])).toEqual([
    0, 1, 1, 1,
  ]);
  const runDir = await newRun();
  const first = await steps(options(runDir, oneStepOff()), 2);
  const second = await steps(options(runDir, oneStepOff(), { resume: true }));
  expect([...first, ...second].map(withoutTimes)).toEqual(whole);
}, 60_000);

test('in partial mode a long reply goes on over an update, and each token says which weights sampled it', async () => {
  const given = options(await newRun(), partial({ extraTasks: 1, staleness: 2 }), {
    order: { kind: 'sequential' },
    agent: agent<Letter>(async ({ task, taskIndex, model: policy }) => {
      const chat = policy.chat();
      chat.user(task.letter);
      await chat.sample({ maxTokens: taskIndex === 0 ? 400 : 8 });
    }),
    // A random model would end its reply at random.
    servers: withoutStops(),
    limits: { tokensPerReply: 400 },
    tasksPerStep: 2,
    attemptsPerTask: 2,
    steps: 3,
  });
  const reports = await steps(given);
  expect(reports[0]!.groups.map(({ taskIndex }) => taskIndex)).toEqual([1, 2]);
  // Step 2, or, if it was not done by then, step 3, at which it is due.
  const { groups, metrics } = reports.find((report) =>
    report.groups.some(({ taskIndex }) => taskIndex === 0),
  )!;
  for (const { trajectory } of groups.find(({ taskIndex }) => taskIndex === 0)!.attempts) {
    const [{ versions, sampled, logprobs }] = trajectory.segments as [(typeof trajectory.segments)[number]];
    const made = [...versions].filter((_, at) => sampled[at]);
    expect(made).toHaveLength(400);
    expect(made[0]).toBe(0);
    expect(made.at(-1)).toBeGreaterThanOrEqual(1);
    expect(made).toEqual([...made].sort());
    expect(logprobs.filter((logprob, at) => sampled[at] && logprob < 0)).toHaveLength(400);
  }
  expect(metrics['fully_async/partial/total_partial_num']).toBe(2);
  expect(metrics['training/off_policy/trajectory_spans/max']).toBeGreaterThanOrEqual(2);
}, 60_000);

function withoutStops(): NonNullable<TrainOptions['servers']> {
  const plain = embedded({ threads: 1 }).servers;
  return {
    name: 'without stops',
    open: async (folder) =>
      (await plain.open(folder)).map((server) => {
        const generate = server.generate.bind(server);
        server.generate = (request) =>
          generate({ ...request, sampling: { ...request.sampling, stopIds: [] } });
        return server;
      }),
  };
}

test('an asynchronous run that is stopped at once goes on from its checkpoint', async () => {
  const runDir = await newRun();
  const stop = new AbortController();
  const given = options(runDir, asynchronous({ staleness: 2 }), { checkpoints: { every: 1 } });
  const first: StepReport<Letter>[] = [];
  const run = async () => {
    for await (const report of train({
      ...given,
      signal: stop.signal,
      onProgress: ({ step, phase }) => {
        if (step === 3 && phase === 'training') stop.abort(new Error('stopped by the user'));
      },
    }))
      first.push(report);
  };
  await expect(run()).rejects.toThrow('stopped by the user');
  const second = await steps({ ...given, resume: true });
  const all = [...first, ...second];
  expect(all.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
  expect(new Set(idsOf(all.flatMap(({ groups }) => groups))).size).toBe(4 * 16);
}, 60_000);

test('dynamic sampling replaces groups without spread in every mode', async () => {
  const level = reward<Letter>('level', ({ task, trajectory }) =>
    task.letter < 'd' ? 0 : trajectory.attempt,
  );
  for (const mode of [synchronous(), oneStepOff(), asynchronous(), overSample({ tasks: 2 })]) {
    const algorithm = dapo({ dynamicSampling: { maxRefills: -1 } });
    const reports = await steps(options(await newRun(), mode, { algorithm, rewards: [level], steps: 3 }));
    for (const { groups } of reports) {
      expect(groups).toHaveLength(4);
      expect(groups.every(({ task }) => task.letter >= 'd')).toBe(true);
    }
    const left = reports.reduce(
      (sum, { metrics }) => sum + metrics['training/filter_groups/evicted_samples']!,
      0,
    );
    expect(left).toBeGreaterThan(0);
  }
}, 60_000);

test('a mode that trains on older tokens compares to what sampled them and says so, unless the algorithm does', async () => {
  const [first] = await steps(options(await newRun(), asynchronous(), { steps: 1 }));
  expect(first!.notices.join()).toContain("GRPO takes its ratios to what sampled them (old: 'behaviour')");
  const without = options(await newRun(), asynchronous(), { steps: 1, algorithm: gpg() });
  const [second] = await steps(without);
  expect(second!.notices.join()).toContain('importance weights by sequence, cut at 2, are added to GPG');
  expect(second!.metrics['rollout_corr/rollout_is_mean']).toBeCloseTo(1, 3);
  const own = options(await newRun(), asynchronous(), {
    steps: 1,
    algorithm: grpo({ correction: corrections.tokenTruncated(2) }),
  });
  const [third] = await steps(own);
  expect(third!.notices.join()).not.toContain('older weights');
}, 60_000);

test('what cannot work together is refused before anything starts', async () => {
  await expect(
    steps(options(await newRun(), partial({ extraTasks: 1 }), { algorithm: remax() })),
  ).rejects.toThrow(/the mode partial pauses the servers .* ReMax then needs a greedy attempt/);
  await expect(steps(options(await newRun(), { ...synchronous(), extraTasks: 3 }))).rejects.toThrow(
    'mode.extraTasks is 3, but the mode is synchronous',
  );
});
