import { existsSync } from 'node:fs';
import { cp, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, arrayDataset, embedded, reward, type StepReport, type TrainOptions, train } from 'rollcall';
import { dapo, grpo, ppo, readBatchFile, remax, replayBatch } from 'rollcall/algorithms';
import type { AdamOptions, Trainer, TrainerFactory } from 'rollcall/ports';
import { beforeAll, expect, test, vi } from 'vitest';
import { TrainerError } from '../src/errors.ts';
import { readStepIndex } from '../src/watch/trajectory-store.ts';
import { tinyModel } from './tiny-model.ts';

/** Whole runs with other algorithms than GRPO, and with numbers that break. */
type Letter = { letter: string };

let model: string;
beforeAll(async () => {
  model = await tinyModel();
}, 60_000);
vi.setConfig({ testTimeout: 120_000 }); // whole runs, on a machine that may be busy
const newFolder = () => mkdtemp(join(tmpdir(), 'rollcall-algorithm-'));

const before = reward<Letter>('before', ({ task, trajectory: { text } }) => {
  return [...text].filter((character) => character < task.letter).length / Math.max(1, text.length);
});
const say = agent<Letter>(async ({ task, model: policy }) => {
  const chat = policy.chat();
  chat.user(task.letter);
  await chat.sample();
});

async function options(more: Partial<TrainOptions<Letter>>): Promise<TrainOptions<Letter>> {
  return {
    model,
    tasks: arrayDataset(Array.from({ length: 12 }, () => ({ letter: 'a' }))),
    agent: say,
    rewards: [before],
    ...embedded({ threads: 1 }),
    steps: 4,
    tasksPerStep: 3,
    attemptsPerTask: 4,
    limits: { tokensPerReply: 10 },
    optimizer: { learningRate: 5e-3 },
    evaluation: { before: false, every: 0 },
    checkpoints: { every: 1 },
    runDir: join(await newFolder(), 'run'),
    ...more,
  };
}

async function reports(given: TrainOptions<Letter>, stopAfter = 99): Promise<StepReport<Letter>[]> {
  const list: StepReport<Letter>[] = [];
  for await (const report of train(given)) {
    list.push(report);
    if (report.step >= stopAfter) break;
  }
  return list;
}

const untimed = (list: readonly StepReport<Letter>[]) =>
  list.map(({ metrics }) =>
    Object.fromEntries(Object.entries(metrics).filter(([name]) => !/^(timing_s|perf)\//.test(name))),
  );

test.each([
  ['PPO', ppo()],
  [
    'PF-PPO with a value head on the policy',
    ppo({ critic: { shared: true }, filtration: { method: 'max-random' } }),
  ],
  ['GRPO with a reference that is refreshed', grpo({ kl: { coefficient: 0.5, refreshEverySteps: 2 } })],
])('%s, stopped and resumed, is the same run', async (_, algorithm) => {
  const whole = await reports(await options({ algorithm, steps: 3 }));
  expect(whole.map(({ step }) => step)).toEqual([1, 2, 3]);
  const cut = await options({ algorithm, steps: 3 });
  await reports(cut, 2);
  expect(untimed(await reports({ ...cut, resume: true }))).toEqual(untimed(whole.slice(2)));
});

test('a refreshed reference is the policy again: the KL returns to nothing', async () => {
  const kls = (await reports(await options({ algorithm: grpo({ kl: { refreshEverySteps: 2 } }) }))).map(
    ({ metrics }) => metrics['actor/kl_loss']!,
  );
  expect(kls[0]).toBeCloseTo(0, 6);
  expect(kls[1]).toBeGreaterThan(1e-4);
  expect(kls[2]).toBeCloseTo(0, 6); // right after the refresh at the end of step 2
  expect(kls[3]).toBeGreaterThan(1e-4);
});

test('ReMax takes the reward of a greedy attempt off', async () => {
  const [first] = await reports(await options({ algorithm: remax(), steps: 1, attemptsPerTask: 1 }));
  expect(first!.metrics['actor/updates']).toBe(1);
  expect(Math.abs(first!.metrics['critic/advantages/max']!)).toBeLessThanOrEqual(1);
});

test('dynamic sampling fills the step with groups that differ, or stops asking', async () => {
  const [filled] = await reports(await options({ algorithm: dapo(), steps: 1 }));
  expect(filled!.metrics['training/groups_without_spread']).toBe(0);
  const same = reward<Letter>('same', () => 1);
  for (const maxRefills of [0, 2]) {
    const given = await options({
      algorithm: dapo({ dynamicSampling: { maxRefills } }),
      rewards: [same],
      steps: 1,
    });
    const [empty] = await reports(given);
    expect(empty!.metrics['actor/updates']).toBe(0);
    expect(empty!.metrics['training/filter_groups/evicted_samples']).toBe(
      (1 + maxRefills) * given.tasksPerStep!,
    );
    expect(empty!.notices[0]).toContain(
      `None of ${given.tasksPerStep} groups is left to train on: in the others all attempts got the same, and dynamic sampling stops after ${maxRefills} refills`,
    );
  }
});

/** A copy of a model with one tensor so large that what follows overflows; NaN itself the engine refuses to load. */
async function poisoned(folder: string, tensor: string): Promise<string> {
  const copy = join(await newFolder(), 'poisoned');
  await cp(folder, copy, { recursive: true });
  const file = join(copy, 'model.safetensors');
  const bytes = await readFile(file);
  const head = Number(bytes.readBigUInt64LE(0));
  const { data_offsets } = JSON.parse(bytes.toString('utf8', 8, 8 + head))[tensor] as {
    data_offsets: [number, number];
  };
  for (let at = data_offsets[0]; at < data_offsets[1]; at += 4) bytes.writeFloatLE(3e38, 8 + head + at);
  await writeFile(file, bytes);
  return copy;
}

type Spoil = (trainer: Pick<Trainer, 'load' | 'optimStep'>, adam: AdamOptions) => Promise<unknown>;

/** The embedded engine, whose policy is spoiled once, right after its update number `after`. */
function spoiling(after: number, spoil: Spoil): TrainerFactory {
  const plain = embedded({ threads: 1 }).trainer;
  let updates = 0;
  return {
    name: 'spoiled',
    open: async (role, folder) => {
      const trainer = await plain.open(role, folder);
      const optimStep = trainer.optimStep.bind(trainer);
      const load = trainer.load.bind(trainer);
      trainer.optimStep = async (adam) => {
        const result = await optimStep(adam);
        if (++updates === after) await spoil({ load, optimStep }, adam);
        return result;
      };
      return trainer;
    },
  };
}

test.each<[string, Spoil]>([
  [
    'NaN in the weights, from steps that are far too large,',
    async ({ optimStep }, adam) => {
      // Each multiplies the weights by −999: they overflow, and infinity less infinity is NaN.
      const huge = { ...adam, learningRate: 1000, weightDecay: 1 };
      for (let times = 0; times < 20; times++) await optimStep(huge);
    },
  ],
  ['a weight that overflows', async ({ load }) => load(await poisoned(model, 'model.norm.weight'))],
])('%s during a run is caught, named, set aside, and the run recovers', async (_, spoil) => {
  const run = await options({
    trainer: spoiling(2, spoil),
    algorithm: grpo({ old: 'behaviour' }),
    checkpoints: { every: 1, keep: 4 },
  });
  const list = await reports(run);
  expect(list.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
  const said = list.flatMap(({ notices }) => notices).filter((notice) => /is NaN at trajectory/.test(notice));
  expect(said).toHaveLength(1);
  expect(said[0]).toContain(`run ${run.runDir}, step 2: after the update the policy's log-prob is NaN at`);
  expect(said[0]).toMatch(/trajectory \S+, token \d+ \(id \d+\)/);
  expect(list[1]!.metrics['guard/batches_skipped']).toBe(1);
  expect(list.slice(2).map(({ metrics }) => metrics['actor/updates'])).toEqual([1, 1]);
  const file = /rollcall replay (\S+\.batch)/.exec(said[0]!)![1]!;
  expect(existsSync(file)).toBe(true);
  const trainer = await embedded({ threads: 1 }).trainer.open('policy', model);
  const report = await replayBatch({ stored: await readBatchFile(file), trainer });
  await trainer.close();
  expect(report.problem).toBeUndefined(); // with sound weights the batch was sound
});

/** `before`, but `value` for the first attempt at each task of one step. */
test('weights that break before the first checkpoint stop the run: there is nothing to go back to', async () => {
  const run = await options({
    trainer: spoiling(1, async ({ load }) => load(await poisoned(model, 'model.norm.weight'))),
    algorithm: grpo({ old: 'behaviour' }),
    checkpoints: { every: 2 },
  });
  const failure = reports(run);
  await expect(failure).rejects.toThrow(TrainerError);
  await expect(failure).rejects.toThrow(
    /step 1: after the update the policy's log-prob is .*; there is no checkpoint yet, .*checkpoints\.every/,
  );
  expect(existsSync(join(run.runDir, 'checkpoints', 'latest'))).toBe(false);
});

const spoiledReward = (step: number, value: number) =>
  reward<Letter>('spoiled', (context) =>
    context.trajectory.step === step && context.trajectory.attempt === 0 ? value : before.score(context),
  );

test('a reward of NaN in a whole run is named with its trajectory, its attempt kept and left out, and the run goes on', async () => {
  const value = Number.NaN;
  const run = await options({ rewards: [spoiledReward(2, value)], failures: { retries: 0 }, steps: 3 });
  const list = await reports(run);
  expect(list.map(({ step }) => step)).toEqual([1, 2, 3]);
  expect(list.map(({ metrics }) => metrics['actor/updates'])).toEqual([1, 1, 1]);
  expect(list.map(({ metrics }) => metrics['training/attempts_left_out'])).toEqual([0, 3, 0]); // of 3 tasks
  for (const { metrics } of list) expect(metrics['critic/score/mean']).toBeGreaterThanOrEqual(0);
  const said = list[1]!.notices.filter((notice) => notice.includes('no finite reward'));
  expect(said).toHaveLength(1);
  expect(said[0]).toContain(`run ${run.runDir}, step 2: no finite reward for trajectory train/step-2/`);
  expect(said[0]).toContain(`reward 'spoiled' gave ${value} for trajectory`);
  const { task, attempt } = /--task (?<task>\d+) --attempt (?<attempt>\d+)/.exec(said[0]!)!.groups!;
  const { trajectories } = await readStepIndex(run.runDir, 2);
  const kept = trajectories.find((one) => one.taskIndex === Number(task) && one.attempt === Number(attempt));
  expect(kept).toMatchObject({ reward: null, end: { kind: 'failed', boundary: 'reward' } });
});

test('a reward that is not finite stops the run where that is asked, and names it', async () => {
  const run = await options({
    rewards: [spoiledReward(1, Number.NaN)],
    failures: { retries: 0, notFinite: 'stop' },
  });
  await expect(reports(run)).rejects.toThrow(/step 1: no finite reward for trajectory train\/step-1\//);
});

test('a critic may be another model, of another size, and one with another tokenizer is refused', async () => {
  const larger = await tinyModel(2, '1m');
  const run = await options({ algorithm: ppo({ critic: { model: larger } }), steps: 1 });
  await reports(run);
  const config = async (folder: string) =>
    JSON.parse(await readFile(join(folder, 'config.json'), 'utf8')) as { hidden_size: number };
  const saved = await config(join(run.runDir, 'checkpoints', 'global_step_1', 'critic'));
  expect(saved.hidden_size).toBe((await config(larger)).hidden_size);
  expect(saved.hidden_size).not.toBe((await config(model)).hidden_size);

  const other = join(await newFolder(), 'other');
  await cp(larger, other, { recursive: true });
  const tokenizer = await readFile(join(other, 'tokenizer.json'), 'utf8');
  const { model: kind, ...rest } = JSON.parse(tokenizer) as { model: { vocab: Record<string, number> } };
  const swapped = { ...kind.vocab, a: kind.vocab.e!, e: kind.vocab.a! };
  await writeFile(
    join(other, 'tokenizer.json'),
    JSON.stringify({ ...rest, model: { ...kind, vocab: swapped } }),
  );
  await expect(reports(await options({ algorithm: ppo({ critic: { model: other } }) }))).rejects.toThrow(
    /the critic .*other does not have the policy's tokenizer/,
  );
});
