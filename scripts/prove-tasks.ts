/**
 * Proves that fresh small models learn the tasks of examples/tasks by GRPO, and that the gain is absent where it must be.
 *
 *   npm run prove tasks [-- --only interaction,search,code,shaping] [--seeds 1,2,3] [--controls false] [--keep]
 *
 * Each task: a warm start on demonstrations, GRPO, and each of the task's controls from the same warm start. `shaping`
 * starts from the warm start of `code` and is compared with its run. Models and runs stay under --runs and are taken
 * from there with --keep. Draws docs/images/task-NAME.svg. `--variant tiny` only shows that it runs.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Curve, curveSvg } from '../examples/quickstart/curve-svg.ts';
import { codeTask } from '../examples/tasks/code.ts';
import type { Exercise } from '../examples/tasks/exercise.ts';
import { interactionTask } from '../examples/tasks/interaction.ts';
import { searchTask } from '../examples/tasks/search.ts';
import { shapingTask } from '../examples/tasks/shaping.ts';
import { embedded } from '../src/engine/embedded.ts';
import type { TrainOptions } from '../src/options.ts';
import { train } from '../src/train.ts';
import type { Task } from '../src/types.ts';
import { readMetrics, type StepMetrics } from '../src/watch/run-directory.ts';
import { readFlags } from './flags.ts';
import { measureModel } from './tasks/measure-model.ts';
import { teachModel } from './tasks/teach-model.ts';
import { atLeast, conclude } from './verdict.ts';

const flags = readFlags(
  {
    only: 'interaction,search,code,shaping',
    seeds: '1',
    controls: 'true',
    variant: 'full',
    runs: 'runs/prove-tasks',
    keep: false,
  },
  { only: 'interaction,search', controls: 'false' },
);
const tiny = flags.variant === 'tiny';
const seeds = flags.seeds.split(',').map(Number);
const GREENS = ['#0a7', '#06c', '#094'];
const REDS = ['#c50', '#c36', '#a80'];
const engine = embedded();
const say = (line: string) => console.error(line);
const percent = (value: number | undefined) => (value === undefined ? '–' : `${(100 * value).toFixed(1)} %`);

interface Cost {
  readonly seconds: number;
  /** Processor time of all threads; on a busy machine the wall clock says little. */
  readonly cpuSeconds: number;
  readonly tokens: number;
}

/** What it takes to make something is kept beside it, for --keep. */
async function costed(file: string, make: () => Promise<number>): Promise<void> {
  const [began, cpu] = [performance.now(), process.cpuUsage()];
  const tokens = await make();
  const { user, system } = process.cpuUsage(cpu);
  const seconds = Math.round((performance.now() - began) / 1000);
  await writeFile(file, JSON.stringify({ seconds, cpuSeconds: Math.round((user + system) / 1e6), tokens }));
}
const costOf = async (file: string) => JSON.parse(await readFile(file, 'utf8')) as Cost;

type AnyExercise = Exercise<Task>;
const any = (exercise: unknown) => exercise as AnyExercise;
const TASKS: Readonly<Record<string, (seed: number) => AnyExercise>> = {
  interaction: (seed) => any(interactionTask(seed)),
  search: (seed) => any(searchTask(seed)),
  code: (seed) => any(codeTask(seed)),
  shaping: (seed) => any(shapingTask(seed)),
};
/** Whose warm start and whose run a task is compared with, if not its own. */
const BASE: Readonly<Record<string, string>> = { shaping: 'code' };
const TITLES: Readonly<Record<string, string>> = {
  interaction: 'A user who says that the answer was wrong, with a hint',
  search: 'Search over 4,096 paragraphs',
  code: 'Code interpreter',
};

const made = new Map<string, Promise<unknown>>();
/** Made once per process. */
function once<V>(key: string, make: () => Promise<V>): Promise<V> {
  const known = made.get(key) ?? make();
  made.set(key, known);
  return known as Promise<V>;
}

const warmStart = (name: string, seed: number): Promise<string> =>
  once(`warm ${name} ${seed}`, async () => {
    const exercise = TASKS[name]!(seed);
    const directory = join(flags.runs, `${name}-${seed}`, 'warm-start');
    if (flags.keep && existsSync(`${directory}.json`)) return directory;
    await rm(join(flags.runs, `${name}-${seed}`), { recursive: true, force: true });
    await costed(`${directory}.json`, () =>
      teachModel({ exercise, directory, tiny, seed, trainer: engine.trainer, say }),
    );
    return directory;
  });

interface GrpoRun {
  readonly steps: readonly StepMetrics[];
  readonly model: string;
  readonly cost: Cost;
}

/** GRPO from a warm start; `name` may be that of a control. */
const grpoRun = (name: string, seed: number, model: string, { options }: AnyExercise): Promise<GrpoRun> =>
  once(`grpo ${name} ${seed}`, async () => {
    const toy = { steps: 2, tasksPerStep: 2, attemptsPerTask: 2, evaluation: { every: 0, limit: 4 } };
    const runDir = join(flags.runs, `${name.replaceAll(' ', '-')}-${seed}`, 'grpo');
    const all: TrainOptions<Task> = { ...options, ...(tiny ? toy : {}), model, runDir, ...engine };
    const trained = join(runDir, 'checkpoints', `global_step_${all.steps}`);
    if (!(flags.keep && existsSync(`${runDir}.json`))) {
      await rm(runDir, { recursive: true, force: true });
      await mkdir(runDir, { recursive: true });
      await costed(`${runDir}.json`, async () => {
        let tokens = 0;
        for await (const { step, metrics } of train(all)) {
          tokens += metrics['perf/total_num_tokens'] ?? 0;
          say(
            `${name}, seed ${seed}, step ${step}: ${percent(answered(metrics, options))} right, valid calls ` +
              `${percent(metrics['tools/valid'])}, validation ${percent(validated(metrics, options))}`,
          );
        }
        return tokens;
      });
    }
    return { steps: await readMetrics(runDir), model: trained, cost: await costOf(`${runDir}.json`) };
  });

type Numbers = Readonly<Record<string, number>>;
/** Mean of the first reward, which is the task's own. */
const answered = (metrics: Numbers, { rewards }: TrainOptions<Task>) =>
  metrics[`reward/${rewards[0]!.name}/mean`];
const validated = (metrics: Numbers, { rewards }: TrainOptions<Task>) =>
  metrics[`val-aux/validation/${rewards[0]!.name}/mean@1`] ??
  (rewards.length === 1 ? metrics['val-core/validation/reward/mean@1'] : undefined);

function curveOf(name: string, colour: string, { steps }: GrpoRun, { options }: AnyExercise): Curve {
  const points = steps.map(({ step, metrics }) => {
    const [training, validation] = [answered(metrics, options), validated(metrics, options)];
    return {
      step,
      ...(training === undefined ? {} : { training }),
      ...(validation === undefined ? {} : { validation }),
    };
  });
  return { name, colour, points };
}

async function prove(name: string, seed: number, curves: Curve[]) {
  const exercise = TASKS[name]!(seed);
  const measure = (model: string, of = exercise) =>
    measureModel(model, of, { servers: engine.servers, tiny });
  const warm = await warmStart(BASE[name] ?? name, seed);
  const before = await measure(warm);
  const run = await grpoRun(name, seed, warm, exercise);
  const after = await measure(run.model);
  const cost = { warmStart: await costOf(`${warm}.json`), grpo: run.cost };
  say(`${name}, seed ${seed}: ${JSON.stringify({ before, after, cost })}`);
  curves.push(curveOf(`seed ${seed}`, GREENS[seeds.indexOf(seed) % 3]!, run, exercise));
  const controls: Record<string, { trainedSo: number; trainedThenSo: number }> = {};
  for (const [what, change] of flags.controls === 'true' ? Object.entries(exercise.controls) : []) {
    const changed = { ...exercise, options: { ...exercise.options, ...change } };
    const control = await grpoRun(`${name} ${what}`, seed, warm, changed);
    controls[what] = {
      trainedSo: (await measure(control.model, changed)).accuracy,
      trainedThenSo: (await measure(run.model, changed)).accuracy,
    };
    say(`${name}, seed ${seed}, ${what}: ${JSON.stringify(controls[what])}`);
    curves.push(curveOf(`${what}, seed ${seed}`, REDS[seeds.indexOf(seed) % 3]!, control, changed));
  }
  return { task: name, seed, before, after, controls, steps: run.steps.length - 1, cost };
}

/** How soon calls are valid with shaping and without it, in attempts of training. */
async function compareShaping(seed: number, curves: Curve[]) {
  const warm = await warmStart(BASE.shaping!, seed);
  const of = async (name: string, label: string, colours: readonly string[]) => {
    const { steps } = await grpoRun(name, seed, warm, TASKS[name]!(seed));
    const points = steps
      .filter(({ step }) => step > 0)
      .map(({ step, metrics }) => ({
        step,
        validation: metrics['tools/valid'] ?? 0,
        training: metrics['reward/correct/mean'] ?? 0,
      }));
    curves.push({ name: `${label}, seed ${seed}`, colour: colours[seeds.indexOf(seed) % 3]!, points });
    const reached = (share: number) => points.find(({ validation }) => validation >= share)?.step ?? null;
    return {
      validFirst: points[0]!.validation,
      validLast: points.at(-1)!.validation,
      stepAt90: reached(0.9),
      stepAt95: reached(0.95),
    };
  };
  return { shaped: await of('shaping', 'shaped', GREENS), unshaped: await of('code', 'unshaped', REDS) };
}

async function draw(name: string, ...drawn: Parameters<typeof curveSvg>): Promise<void> {
  if (tiny || flags.quick) return;
  await mkdir('docs/images', { recursive: true });
  await writeFile(join('docs/images', `task-${name}.svg`), curveSvg(...drawn));
}

const results: Awaited<ReturnType<typeof prove>>[] = [];
const shaping: ({ readonly seed: number } & Awaited<ReturnType<typeof compareShaping>>)[] = [];
for (const name of flags.only.split(',')) {
  const curves: Curve[] = [];
  for (const seed of seeds) results.push(await prove(name, seed, curves));
  if (name !== 'shaping') {
    await draw(name, TITLES[name]!, curves);
    continue;
  }
  const validity: Curve[] = [];
  for (const seed of seeds) shaping.push({ seed, ...(await compareShaping(seed, validity)) });
  const note = 'lines: share of calls that are valid; dots: share of answers that are right; both sampled';
  await draw(name, 'The same task with a shaped and an unshaped reward', validity, note);
}
conclude(
  [
    ...results.map(({ task, seed, after }) =>
      atLeast(`${task}, seed ${seed}: accuracy`, after.accuracy, 0.9),
    ),
    ...results.flatMap(({ task, seed, after, controls }) =>
      Object.entries(controls).map(([what, { trainedSo }]) =>
        atLeast(`${task} ${what}, seed ${seed}: accuracy below the task's`, after.accuracy - trainedSo, 0.2),
      ),
    ),
    ...shaping.map(({ seed, shaped, unshaped }) =>
      atLeast(`shaping, seed ${seed}: more valid calls`, shaped.validLast - unshaped.validLast, 0),
    ),
  ],
  { results, shaping },
);
