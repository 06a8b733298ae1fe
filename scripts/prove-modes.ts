/**
 * Proves that every mode learns: a toy task on a tiny model (letters), the quick start's task from one warm start per
 * seed (learning); and in which order the modes are on real servers whose tools take their time (servers).
 *
 *   npm run prove modes [-- --seeds 1,2] [--variant short] [--part letters,learning,servers] [--only asynchronous,partial]
 *
 * Runs are kept under --runs and taken from there with --keep.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RECIPES, type Variant } from '../examples/quickstart/recipe.ts';
import { trainOptions } from '../examples/quickstart/train-options.ts';
import { agent } from '../src/agent/agent.ts';
import { arrayDataset } from '../src/dataset/dataset.ts';
import { embedded } from '../src/engine/embedded.ts';
import { createRandom, hashSeed } from '../src/lib/random.ts';
import {
  asynchronous,
  type Mode,
  oneStepOff,
  overSample,
  partial,
  synchronous,
  tailRounds,
} from '../src/modes/mode.ts';
import { servers } from '../src/options/servers.ts';
import { reward } from '../src/reward/reward.ts';
import { train } from '../src/train.ts';
import { readMetrics } from '../src/watch/run-directory.ts';
import { readRunEnd } from '../src/watch/run-end.ts';
import { startProcess } from '../test/stand-ins/start.ts';
import { tinyModel } from '../test/tiny-model.ts';
import { readFlags } from './flags.ts';
import { validationOf, warmStart } from './short-run.ts';
import { atLeast, conclude } from './verdict.ts';

const flags = readFlags(
  {
    seeds: '1,2',
    variant: 'short',
    part: 'letters,learning,servers',
    only: '',
    runs: 'runs/prove-modes',
    keep: false,
    rounds: '3',
  },
  { seeds: '1', part: 'letters,servers', rounds: '1' },
);
const variant = flags.variant as Variant;
const recipe = RECIPES[variant];
const say = (line: string) => console.error(line);
const mean = (list: readonly number[]) =>
  list.reduce((sum, value) => sum + value, 0) / Math.max(1, list.length);
const percent = (value: number | null) => (value === null ? '–' : `${(100 * value).toFixed(1)} %`);

const modesFor = (tasksPerStep: number): Record<string, Mode> => ({
  synchronous: synchronous(),
  oneStepOff: oneStepOff(),
  asynchronous: asynchronous({ staleness: 2 }),
  partial: partial({ extraTasks: tasksPerStep / 2, staleness: 2 }),
  overSampleAttempts: overSample({ attempts: 2 }),
  overSampleTasks: overSample({ tasks: tasksPerStep / 4 }),
  tailRounds: tailRounds({ extraTasks: tasksPerStep / 4, extraAttempts: 1 }),
});
const chosen = (modes: Record<string, Mode>) =>
  Object.entries(modes).filter(([name]) => !flags.only || flags.only.split(',').includes(name));

interface LearnedRow {
  readonly mode: string;
  readonly seed: number;
  readonly before: number | null;
  readonly after: number | null;
  /** Mean number of versions by which the oldest token was behind. */
  readonly staleness: number;
}

async function proveLearning() {
  const rows: LearnedRow[] = [];
  for (const seed of flags.seeds.split(',').map(Number)) {
    for (const [name, mode] of chosen(modesFor(recipe.tasksPerStep))) {
      const runDir = join(flags.runs, `${name}-${seed}`);
      if (!flags.keep || (await readRunEnd(runDir))?.state !== 'finished') {
        const model = await warmStart(flags.runs, { seed, variant });
        await rm(runDir, { recursive: true, force: true });
        for await (const _ of train({ ...trainOptions({ seed, variant, model, runDir }), mode }));
      }
      const steps = await readMetrics(runDir);
      const trained = steps.filter(({ step }) => step > 0);
      const all = (metric: string) => trained.flatMap(({ metrics }) => metrics[metric] ?? []);
      const row = {
        mode: name,
        seed,
        before: validationOf(steps[0]!) ?? null,
        after: steps.map(validationOf).findLast((value) => value !== undefined) ?? null,
        steps: trained.length,
        secondsPerStep: mean(all('timing_s/step')),
        staleness: mean(all('training/off_policy/trajectory_staleness_worst/mean')),
        tokens: all('perf/total_num_tokens').reduce((sum, tokens) => sum + tokens, 0),
      };
      rows.push(row);
      say(`${name}, seed ${seed}: ${percent(row.before)} → ${percent(row.after)}`);
    }
  }
  return rows;
}

/** A model of random weights learns to say what sorts before a letter; the mean reward of the first and last steps. */
async function proveLetters() {
  const rows: LearnedRow[] = [];
  for (const seed of flags.seeds.split(',').map(Number)) {
    const model = await tinyModel(seed);
    for (const [name, mode] of chosen(modesFor(8))) {
      const runDir = join(await mkdtemp(join(tmpdir(), 'rollcall-prove-modes-')), 'run');
      const rewards: number[] = [];
      const ages: number[] = [];
      for await (const { step, metrics } of train<{ letter: string }>({
        model,
        runDir,
        seed,
        mode,
        tasks: arrayDataset(Array.from({ length: 64 }, () => ({ letter: 'a' }))),
        agent: letters,
        rewards: [before],
        steps: 40,
        tasksPerStep: 8,
        attemptsPerTask: 8,
        limits: { tokensPerReply: 12 },
        optimizer: { learningRate: 1e-2 },
        ...embedded({ threads: 1 }),
        checkpoints: { every: 0 },
      })) {
        if (step === 0) continue;
        rewards.push(metrics['critic/score/mean']!);
        ages.push(metrics['training/off_policy/trajectory_staleness_worst/mean'] ?? 0);
      }
      await rm(runDir, { recursive: true, force: true });
      const row = {
        mode: name,
        seed,
        before: mean(rewards.slice(0, 3)),
        after: mean(rewards.slice(-3)),
        staleness: mean(ages),
      };
      rows.push(row);
      say(`${name}, letters, seed ${seed}: ${percent(row.before)} → ${percent(row.after)}`);
    }
  }
  return rows;
}

const letters = agent<{ letter: string }>(async ({ task, model }) => {
  const chat = model.chat();
  chat.user(task.letter);
  await chat.sample();
});

const before = reward<{ letter: string }>('before', ({ task, trajectory: { text } }) => {
  return [...text].filter((character) => character < task.letter).length / Math.max(1, text.length);
});

interface Errand {
  readonly number: number;
}

/** Between replies an attempt waits for a tool: lognormal, median 150 ms, a tail of seconds. */
const TOOL = { medianMs: 150, sigma: 1.2, turns: 3 };

const errands = agent<Errand>(async ({ task, attempt, model, signal }) => {
  const random = createRandom(hashSeed('tool', task.number, attempt));
  const chat = model.chat();
  chat.user(String(task.number));
  for (let turn = 1; turn < TOOL.turns; turn++) {
    await chat.sample();
    const normal = Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
    const milliseconds = TOOL.medianMs * Math.exp(TOOL.sigma * normal);
    await new Promise<void>((resolve) => {
      const handle = setTimeout(resolve, milliseconds);
      signal.addEventListener('abort', () => {
        clearTimeout(handle);
        resolve();
      });
    });
    chat.user('go on');
  }
  await chat.sample();
});

/** Two replicas over HTTP; how many trajectories a second each mode trains on, over interleaved rounds. */
async function proveServers() {
  const model = await tinyModel();
  const command = ['bin/rollcall.js', 'serve', '--model', model, '--port', '0', '--threads', '1'];
  const replicas = [await startProcess(command), await startProcess(command)];
  const [tasksPerStep, attemptsPerTask, steps] = [8, 4, 12];
  const seconds: Record<string, number[]> = {};
  try {
    for (let round = 0; round < Number(flags.rounds); round++) {
      for (const [name, mode] of chosen(modesFor(tasksPerStep))) {
        const runDir = join(await mkdtemp(join(tmpdir(), 'rollcall-prove-modes-')), 'run');
        let began = 0;
        for await (const { step } of train<Errand & Record<string, unknown>>({
          model,
          runDir,
          seed: round,
          mode,
          tasks: arrayDataset(Array.from({ length: 400 }, (_, number) => ({ number }))),
          agent: errands,
          rewards: [reward('length', ({ trajectory }) => trajectory.text.length)],
          servers: servers({
            urls: replicas.map(({ url }) => url),
            engine: 'rollcall',
          }),
          trainer: embedded({ threads: 1 }).trainer,
          steps,
          tasksPerStep,
          attemptsPerTask,
          limits: { tokensPerReply: 16, contextTokens: 256 },
          checkpoints: { every: 0 },
        })) {
          // From before the first step: every mode begins and ends with nothing in progress.
          if (step === 0) began = performance.now();
        }
        const took = (performance.now() - began) / 1000;
        seconds[name] = [...(seconds[name] ?? []), took];
        say(`${name}: ${((steps * tasksPerStep * attemptsPerTask) / took).toFixed(1)} trajectories/s`);
        await rm(runDir, { recursive: true, force: true });
      }
    }
  } finally {
    await Promise.all(replicas.map((replica) => replica.stop('SIGKILL')));
  }
  const trained = steps * tasksPerStep * attemptsPerTask;
  return Object.entries(seconds).map(([mode, list]) => ({
    mode,
    trajectoriesPerSecond: trained / median(list),
    ratio: median(seconds['synchronous'] ?? list) / median(list),
    seconds: list,
  }));
}

function median(list: readonly number[]): number {
  const sorted = [...list].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}

const parts = flags.part.split(',');
const toy = parts.includes('letters') ? await proveLetters() : [];
const learning = parts.includes('learning') ? await proveLearning() : [];
const real = parts.includes('servers') ? await proveServers() : [];
conclude(
  [
    ...toy.map(({ mode, seed, after }) => atLeast(`letters, ${mode}, seed ${seed}: reward`, after ?? 0, 0.9)),
    ...learning.map(({ mode, seed, before, after }) =>
      atLeast(`learning, ${mode}, seed ${seed}: points gained`, 100 * ((after ?? 0) - (before ?? 1)), 5),
    ),
    ...real
      .filter(({ mode }) => mode !== 'synchronous')
      .map(({ mode, ratio }) => atLeast(`servers, ${mode}: speed against synchronous`, ratio, 0.9)),
  ],
  { variant, letters: toy, learning, servers: real },
);
