/**
 * Proves examples/look: a model that sees learns by reward where to look.
 *
 *   npm run prove look [-- --seeds 1,2,3] [--controls 3] [--kernels wasm] [--threads 1] [--keep] [--minutes 5] [--quick]
 *
 * Per seed a warm start on drills and clumsy demonstrations, then GRPO; and for the first `--controls` seeds what does not
 * explain the gain: the same processor time of more imitation, GRPO with the rewards of a group shuffled, GRPO on grey pictures,
 * GRPO without the tools. --quick: one seed with the control that is cheapest, the trained model on grey pictures.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createDemonstration, createLooks } from '../examples/look/demonstrations.ts';
import { answer, type LookSetup, measure, trainOptions } from '../examples/look/look.ts';
import { correct, type Look, type LookerOptions } from '../examples/look/looker.ts';
import { PACES, RECIPES } from '../examples/look/recipe.ts';
import { learn, warmStart } from '../examples/look/warm-start.ts';
import { curveSvg } from '../examples/quickstart/curve-svg.ts';
import type { CurvePoint } from '../examples/quickstart/report.ts';
import type { TrainOptions } from '../src/options.ts';
import { train } from '../src/train.ts';
import { readMetrics } from '../src/watch/run-directory.ts';
import { readFlags } from './flags.ts';
import { dialogueSvg } from './look/dialogue-svg.ts';
import { shuffledRewards } from './shuffled-rewards.ts';
import { atLeast, atMost, conclude } from './verdict.ts';

const flags = readFlags(
  {
    seeds: '1,2,3',
    controls: '3',
    kernels: '',
    /** '': as many as there are cores. */
    threads: '',
    runs: 'runs/prove-look',
    /** Takes the parts that are finished from --runs. */
    keep: false,
    /** Begins no part later than this; a run with --keep does the rest. 0: no limit. */
    minutes: '0',
  },
  { seeds: '1', controls: '0' },
);
const recipe = RECIPES[flags.quick ? 'quick' : 'full'];
const say = (line: string) => console.error(line);

const modelOf = ({ directory }: LookSetup, name: string) =>
  join(directory, name, 'checkpoints', `global_step_${recipe.steps}`);

async function grpo(
  setup: LookSetup,
  warm: string,
  name: string,
  { looker = {}, ...change }: Partial<TrainOptions<Look>> & { readonly looker?: LookerOptions } = {},
): Promise<{ readonly model: string; readonly processorSeconds: number }> {
  const runDir = join(setup.directory, name);
  await rm(runDir, { recursive: true, force: true });
  const began = processorSeconds();
  const { validation, ...options } = { ...trainOptions(setup, warm, runDir, looker), ...change };
  const isMain = name === 'run';
  for await (const { step, metrics } of train(isMain && validation ? { ...options, validation } : options)) {
    const score = metrics['critic/score/mean'];
    if (step % 10 === 0 && score !== undefined) say(`  ${name} step ${step}: ${(100 * score).toFixed(1)} %`);
  }
  return { model: modelOf(setup, name), processorSeconds: processorSeconds() - began };
}

/**
 * For the processor time that GRPO took, in courses over which the rate falls: the first says how fast it goes, others
 * fill the time.
 */
async function moreImitation(setup: LookSetup, warm: string, seconds: number): Promise<number> {
  const start = processorSeconds();
  const spent = (since: number) => processorSeconds() - since;
  let [model, done, count] = [warm, 0, 320];
  for (let number = 0; spent(start) < 0.9 * seconds; number++) {
    const began = processorSeconds();
    const to = join(setup.directory, `imitation-${number}`);
    const first = recipe.demonstrations.course * recipe.demonstrations.most + done;
    const until = () => spent(start) > seconds;
    const course = { kind: 'demonstrations', pace: PACES.more, create: createDemonstration };
    await learn(setup, model, to, { ...course, first, count, until });
    [model, done] = [to, done + count];
    count = Math.max(16, Math.ceil((count * (seconds - spent(start))) / spent(began)));
  }
  return measure(setup, model);
}

/** What one seed showed; written after each part, so that a run with --keep goes on where the last one ended. */
interface Result {
  readonly seed: number;
  readonly main: {
    /** From the fresh model to the figure after GRPO. */
    readonly seconds: number;
    /** Of all threads; on a machine that others use as well it says what the seconds would have been. */
    readonly processorSeconds: number;
    readonly grpoProcessorSeconds: number;
    readonly before: number;
    readonly beforeSampled: number;
    readonly after: number;
    /** The trained model on grey pictures. */
    readonly trainedThenBlind: number;
  };
  readonly controls: Readonly<Partial<Record<Control, number>>>;
}

type Control = 'imitation' | 'shuffled' | 'blind' | 'withoutTools';
const CONTROLS = ['imitation', 'shuffled', 'blind', 'withoutTools'] as const satisfies readonly Control[];

const began = performance.now();
const secondsSince = (moment: number) => (performance.now() - moment) / 1000;
function processorSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
const isLate = () => Number(flags.minutes) > 0 && secondsSince(began) > 60 * Number(flags.minutes);

async function runMain(setup: LookSetup): Promise<Result['main']> {
  const [start, startProcessor] = [performance.now(), processorSeconds()];
  const warm = await warmStart(setup);
  const before = await measure(setup, warm);
  say(`seed ${setup.seed}: ${(100 * before).toFixed(1)} % after the warm start`);
  const { model, processorSeconds: ofGrpo } = await grpo(setup, warm, 'run');
  const after = await measure(setup, model);
  const seconds = Math.round(secondsSince(start));
  const ofAll = Math.round(processorSeconds() - startProcessor);
  say(`seed ${setup.seed}: ${(100 * after).toFixed(1)} % after GRPO, ${seconds} s, ${ofAll} s of processors`);
  const beforeSampled = await measure(setup, warm, { temperature: 1 });
  const trainedThenBlind = await measure(setup, model, { isBlind: true });
  return {
    seconds,
    processorSeconds: ofAll,
    grpoProcessorSeconds: Math.round(ofGrpo),
    before,
    beforeSampled,
    after,
    trainedThenBlind,
  };
}

async function runControl(
  setup: LookSetup,
  control: Control,
  { grpoProcessorSeconds }: Result['main'],
): Promise<number> {
  const warm = join(setup.directory, 'warm-start');
  const other = async (looker: LookerOptions, change: Partial<TrainOptions<Look>> = {}) =>
    measure(setup, (await grpo(setup, warm, control, { looker, ...change })).model, looker);
  switch (control) {
    case 'imitation':
      return moreImitation(setup, warm, grpoProcessorSeconds);
    case 'shuffled':
      return other({}, { rewards: [shuffledRewards(correct, recipe.attemptsPerTask, setup.seed)] });
    case 'blind':
      return other({ isBlind: true });
    case 'withoutTools':
      return other({ hasTools: false });
  }
}

const setupOf = (seed: number): LookSetup => ({
  seed,
  recipe,
  directory: join(flags.runs, `seed-${seed}`),
  kernels: (flags.kernels || undefined) as LookSetup['kernels'],
  threads: flags.threads ? Number(flags.threads) : undefined,
  say,
});

/** Undefined when there was no time for the main run. */
async function runSeed(seed: number, isControlled: boolean): Promise<Result | undefined> {
  const setup = setupOf(seed);
  const { directory } = setup;
  const file = join(directory, 'result.json');
  const finished = flags.keep ? await readFile(file, 'utf8').catch(() => undefined) : undefined;
  if (!finished && isLate()) return undefined;
  await mkdir(directory, { recursive: true });
  let result: Result = finished
    ? (JSON.parse(finished) as Result)
    : { seed, main: await runMain(setup), controls: {} };
  await writeFile(file, JSON.stringify(result));
  for (const control of isControlled ? CONTROLS : []) {
    if (result.controls[control] !== undefined || isLate()) continue;
    const value = await runControl(setup, control, result.main);
    say(`seed ${seed}: ${control} ${(100 * value).toFixed(1)} %`);
    result = { ...result, controls: { ...result.controls, [control]: value } };
    await writeFile(file, JSON.stringify(result));
  }
  say(JSON.stringify(result));
  return result;
}

const results: Result[] = [];
const curves: { name: string; colour: string; points: CurvePoint[] }[] = [];
for (const [index, seed] of flags.seeds.split(',').map(Number).entries()) {
  const result = await runSeed(seed, index < Number(flags.controls));
  if (!result) continue;
  results.push(result);
  const steps = await readMetrics(join(flags.runs, `seed-${seed}`, 'run'));
  curves.push({
    name: `seed ${seed}`,
    colour: ['#0a7', '#c50', '#36c'][index % 3]!,
    points: steps.map(({ step, metrics }) => {
      const training = metrics['critic/score/mean'];
      const validation = metrics['val-core/validation/reward/mean@1'];
      return {
        step,
        ...(training === undefined ? {} : { training }),
        ...(validation === undefined ? {} : { validation }),
      };
    }),
  });
}
await writeFile(join(flags.runs, 'curves.svg'), curveSvg('examples/look, by seed', curves));
if (results[0]) {
  const { seed } = results[0];
  const setup = setupOf(seed);
  const attempts = await answer(setup, modelOf(setup, 'run'));
  const looks = createLooks('test', seed, recipe.looks.test);
  const at = attempts.findIndex(({ reward }, index) => reward === 1 && looks[index]!.scene.turn !== 0);
  if (at >= 0) {
    await writeFile(join(flags.runs, 'dialogue.svg'), dialogueSvg(looks[at]!, attempts[at]!.trajectory));
  }
}

const seeds = flags.seeds.split(',');
const worst = (value: (main: Result['main']) => number) =>
  Math.max(...results.map(({ main }) => value(main)));
const least = (value: (main: Result['main']) => number) =>
  Math.min(...results.map(({ main }) => value(main)));
conclude(
  [
    atLeast('seeds', results.length, seeds.length),
    atMost(
      'accuracy before GRPO, worst seed',
      worst(({ before }) => before),
      0.45,
    ),
    atLeast(
      'accuracy after GRPO, worst seed',
      least(({ after }) => after),
      0.85,
    ),
    atMost(
      'the trained model on grey pictures',
      worst(({ trainedThenBlind }) => trainedThenBlind),
      0.55,
    ),
    // Where nobody else computes, a seed takes fewer seconds than this.
    atMost(
      'processor seconds of a seed',
      worst(({ processorSeconds }) => processorSeconds),
      900,
    ),
    ...results
      .slice(0, Number(flags.controls))
      .flatMap(({ seed, main, controls }) => [
        ...CONTROLS.map((control) => atMost(`seed ${seed}: ${control}`, controls[control], 0.55)),
        atLeast(
          `seed ${seed}: GRPO over imitation of equal time`,
          controls.imitation === undefined ? undefined : main.after - controls.imitation,
          0.15,
        ),
      ]),
  ],
  { seeds: results },
);
