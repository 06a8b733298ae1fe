/**
 * Proves examples/look: a model that sees learns by reward where to look.
 *
 *   npm run prove look [-- --seeds 1,2,3] [--controls 3] [--kernels wasm] [--keep] [--quick]
 *
 * Per seed a warm start on drills and clumsy demonstrations, then GRPO; and for the first `--controls` seeds what does not
 * explain the gain: the same seconds of more imitation, GRPO with the rewards of a group shuffled, GRPO on grey pictures,
 * GRPO without the tools. --quick: one seed with the control that is cheapest, the trained model on grey pictures.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createDemonstration } from '../examples/look/demonstrations.ts';
import { type LookSetup, learn, measure, trainOptions, warmStart } from '../examples/look/look.ts';
import { correct, type Look, type LookerOptions } from '../examples/look/looker.ts';
import { PACES, RECIPES } from '../examples/look/recipe.ts';
import { curveSvg } from '../examples/quickstart/curve-svg.ts';
import type { CurvePoint } from '../examples/quickstart/report.ts';
import type { TrainOptions } from '../src/options.ts';
import { train } from '../src/train.ts';
import { readMetrics } from '../src/watch/run-directory.ts';
import { readFlags } from './flags.ts';
import { shuffledRewards } from './shuffled-rewards.ts';
import { atLeast, atMost, conclude } from './verdict.ts';

const flags = readFlags(
  {
    seeds: '1,2,3',
    controls: '3',
    kernels: '',
    runs: 'runs/prove-look',
    /** Takes the seeds that are finished from --runs. */
    keep: false,
  },
  { seeds: '1', controls: '0' },
);
const recipe = RECIPES[flags.quick ? 'quick' : 'full'];
const say = (line: string) => console.error(line);

async function grpo(
  setup: LookSetup,
  warm: string,
  name: string,
  { looker = {}, ...change }: Partial<TrainOptions<Look>> & { readonly looker?: LookerOptions } = {},
): Promise<{ readonly model: string; readonly seconds: number }> {
  const runDir = join(setup.directory, name);
  await rm(runDir, { recursive: true, force: true });
  const began = performance.now();
  const { validation, ...options } = { ...trainOptions(setup, warm, runDir, looker), ...change };
  const isMain = name === 'run';
  for await (const { step, metrics } of train(isMain && validation ? { ...options, validation } : options)) {
    const score = metrics['critic/score/mean'];
    if (step % 10 === 0 && score !== undefined) say(`  ${name} step ${step}: ${(100 * score).toFixed(1)} %`);
  }
  return {
    model: join(runDir, 'checkpoints', `global_step_${recipe.steps}`),
    seconds: (performance.now() - began) / 1000,
  };
}

/** As long as GRPO took; the rate falls over that time. */
async function moreImitation(setup: LookSetup, warm: string, seconds: number): Promise<number> {
  const to = join(setup.directory, 'imitation');
  const began = performance.now();
  const elapsed = () => (performance.now() - began) / 1000;
  const course = { kind: 'demonstrations', pace: PACES.more, create: createDemonstration };
  const first = recipe.demonstrations;
  const tried = join(setup.directory, 'imitation-begun');
  await learn(setup, warm, tried, [{ ...course, first, count: 320 }]);
  const count = Math.max(16, Math.ceil((320 * (seconds - elapsed())) / elapsed()));
  await learn(setup, tried, to, [{ ...course, first: first + 320, count, until: () => elapsed() > seconds }]);
  return measure(setup, to);
}

interface Result {
  readonly seed: number;
  readonly seconds: number;
  readonly before: number;
  readonly beforeSampled: number;
  readonly after: number;
  /** The trained model on grey pictures. */
  readonly trainedThenBlind: number;
  readonly controls?: Readonly<Record<'imitation' | 'shuffled' | 'blind' | 'withoutTools', number>>;
}

async function runSeed(seed: number, isControlled: boolean): Promise<Result> {
  const directory = join(flags.runs, `seed-${seed}`);
  const file = join(directory, 'result.json');
  const finished = await readFile(file, 'utf8').catch(() => undefined);
  if (flags.keep && finished) return JSON.parse(finished) as Result;
  await mkdir(directory, { recursive: true });
  const kernels = (flags.kernels || undefined) as 'native' | 'wasm' | undefined;
  const setup: LookSetup = { seed, recipe, directory, kernels, say };
  const began = performance.now();
  const warm = await warmStart(setup);
  const before = await measure(setup, warm);
  const beforeSampled = await measure(setup, warm, { temperature: 1 });
  say(`seed ${seed}: ${(100 * before).toFixed(1)} % after the warm start`);
  const main = await grpo(setup, warm, 'run');
  const after = await measure(setup, main.model);
  const seconds = Math.round((performance.now() - began) / 1000);
  say(`seed ${seed}: ${(100 * after).toFixed(1)} % after GRPO, ${seconds} s`);
  const trainedThenBlind = await measure(setup, main.model, { isBlind: true });
  const other = async (name: string, looker: LookerOptions, change: Partial<TrainOptions<Look>> = {}) =>
    measure(setup, (await grpo(setup, warm, name, { looker, ...change })).model, looker);
  const controls = isControlled && {
    imitation: await moreImitation(setup, warm, main.seconds),
    shuffled: await other(
      'shuffled',
      {},
      {
        rewards: [shuffledRewards(correct, recipe.attemptsPerTask, seed)],
      },
    ),
    blind: await other('blind', { isBlind: true }),
    withoutTools: await other('without-tools', { hasTools: false }),
  };
  const result = {
    seed,
    seconds,
    before,
    beforeSampled,
    after,
    trainedThenBlind,
    ...(controls ? { controls } : {}),
  };
  await writeFile(file, JSON.stringify(result));
  say(JSON.stringify(result));
  return result;
}

const results: Result[] = [];
const curves: { name: string; colour: string; points: CurvePoint[] }[] = [];
for (const [index, seed] of flags.seeds.split(',').map(Number).entries()) {
  results.push(await runSeed(seed, index < Number(flags.controls)));
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

const worst = (value: (result: Result) => number) => Math.max(...results.map(value));
const least = (value: (result: Result) => number) => Math.min(...results.map(value));
const controlled = results.filter(({ controls }) => controls);
conclude(
  [
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
    ...(flags.quick
      ? []
      : [
          atMost(
            'seconds of a seed',
            worst(({ seconds }) => seconds),
            900,
          ),
        ]),
    ...controlled.flatMap(({ seed, after, controls }) => [
      ...Object.entries(controls!).map(([name, value]) => atMost(`seed ${seed}: ${name}`, value, 0.55)),
      atLeast(`seed ${seed}: GRPO over imitation of equal time`, after - controls!.imitation, 0.15),
    ]),
  ],
  { seeds: results },
);
