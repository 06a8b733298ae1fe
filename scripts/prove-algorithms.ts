/**
 * Proves that the algorithms learn, on the quick start's task and from one warm start per seed, at an equal budget of
 * rollout tokens; and (off-policy.ts) that correction holds where training that ignores the engine's log-probs breaks.
 *
 *   npm run prove algorithms [-- --seeds 1,2] [--variant short] [--part learning,lag,off-policy] [--only grpo,ppo]
 *                               [--lags 0,4,8] [--rates 3e-3,1e-2,3e-2] [--steps 100]
 *
 * Writes docs/images/algorithms.svg, lag.svg and off-policy.svg. Runs are kept under --runs and taken from there with
 * --keep.
 */
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RECIPES, type Variant } from '../examples/quickstart/recipe.ts';
import { trainOptions } from '../examples/quickstart/train-options.ts';
import { train } from '../src/train.ts';
import type { Algorithm } from '../src/training/algorithm.ts';
import { dapo, drGrpo, grpo, gspo, ppo, reinforcePlusPlus, rloo } from '../src/training/algorithms.ts';
import { readMetrics, type StepMetrics } from '../src/watch/run-directory.ts';
import { accuracyOverTokens } from './algorithm-figures.ts';
import { readFlags } from './flags.ts';
import { lagging, MODES, proveOffPolicy } from './off-policy.ts';
import { validationOf, warmStart } from './short-run.ts';
import { atLeast, atMost, conclude } from './verdict.ts';

const flags = readFlags(
  {
    seeds: '1,2',
    variant: 'short',
    part: 'learning,lag,off-policy',
    only: '',
    runs: 'runs/prove-algorithms',
    keep: false,
    lags: '0,4,8',
    rates: '3e-3,1e-2,3e-2',
    steps: '100',
  },
  { seeds: '1', part: 'learning,off-policy', only: 'grpo,gspo', lags: '8', rates: '3e-2' },
);
const variant = flags.variant as Variant;
const numbers = (list: string) => list.split(',').map(Number);
const seeds = numbers(flags.seeds);
const say = (line: string) => console.error(line);
const mean = (list: readonly number[]) =>
  list.reduce((sum, value) => sum + value, 0) / Math.max(1, list.length);
const percent = (value: number | undefined) => (value === undefined ? '–' : `${(100 * value).toFixed(1)} %`);

const COLOURS = ['#0a7', '#c33', '#36c', '#e80', '#808', '#111', '#999'];
const clip: [number, number] = [0.2, 0.28];
const ALGORITHMS: Record<string, Algorithm> = {
  grpo: grpo({ clip, old: 'behaviour' }),
  drGrpo: drGrpo({ clip, old: 'behaviour' }),
  rloo: rloo({ clip, old: 'behaviour' }),
  reinforcePlusPlus: reinforcePlusPlus({ clip, old: 'behaviour' }),
  dapo: dapo({ old: 'behaviour', dynamicSampling: { maxRefills: 2 } }),
  gspo: gspo({ old: 'behaviour' }),
  // A value head starts from zeros: it makes 64 updates a step where the policy makes two.
  ppo: ppo({ clip, old: 'behaviour', lambda: 0.95, critic: { epochs: 4, miniBatches: 16, warmupSteps: 1 } }),
};
/** Steps of GRPO, whose tokens are the budget of all: with its warm start about 90 seconds on two quiet cores. */
const LEARNING_STEPS = variant === 'short' ? 16 : RECIPES[variant].steps;

interface Plan {
  readonly seed: number;
  readonly algorithm: Algorithm;
  readonly directory: string;
  /** Instead of the variant's own. */
  readonly steps?: number;
  readonly learningRate?: number;
  /** Updates by which the engine is behind. */
  readonly lag?: number;
  /** Ends the run once this many tokens were rolled out. */
  readonly tokens?: number;
}

async function run(plan: Plan): Promise<StepMetrics[]> {
  const { seed, algorithm, directory, learningRate, lag = 0, tokens } = plan;
  const finished = existsSync(join(directory, 'finished'));
  if (!(flags.keep && finished)) {
    await rm(directory, { recursive: true, force: true });
    const model = await warmStart(flags.runs, { seed, variant });
    const steps = plan.steps ?? 3 * LEARNING_STEPS;
    const engine = lagging(lag);
    const options = trainOptions({ seed, variant, steps, model, runDir: directory, engine });
    let used = 0;
    for await (const { metrics } of train({
      ...options,
      algorithm,
      // Stretched with the steps, so that every algorithm sees the rates of its own share of the budget.
      optimizer: {
        ...options.optimizer,
        schedule: 'constant',
        ...(learningRate === undefined ? {} : { learningRate }),
      },
      evaluation: { ...options.evaluation, every: 1 },
    })) {
      used += tokensOf(metrics);
      if (tokens !== undefined && used >= tokens) break; // nearestTo() may leave this step out again
    }
    await writeFile(join(directory, 'finished'), '');
  }
  return readMetrics(directory);
}

/** Rolled out, also in groups that dynamic sampling left out. */
const tokensOf = (metrics: Record<string, number>) =>
  (metrics['perf/total_num_tokens'] ?? 0) + (metrics['training/filter_groups/evicted_tokens'] ?? 0);
const lastValidation = (steps: readonly StepMetrics[]) =>
  steps.map(validationOf).findLast((value) => value !== undefined);
/** The steps up to the one after which the tokens come nearest to a budget: within half a step of it. */
function nearestTo(tokens: number, steps: readonly StepMetrics[]): StepMetrics[] {
  let used = 0;
  const distances = steps.map(({ metrics }) => {
    used += tokensOf(metrics);
    return Math.abs(used - tokens);
  });
  return steps.slice(0, distances.indexOf(Math.min(...distances)) + 1);
}

/** Rolled out, trained and published, without evaluation; the fastest step is the least disturbed by other programs. */
const secondsOf = (metrics: Record<string, number>) =>
  ['gen', 'update_actor', 'update_weights'].reduce(
    (sum, name) => sum + (metrics[`timing_s/${name}`] ?? 0),
    0,
  );

/** Accuracy on the validation problems over the tokens that were rolled out before. */
function accuracyOf(steps: readonly StepMetrics[]) {
  let tokens = 0;
  return steps.flatMap((line) => {
    tokens += tokensOf(line.metrics);
    const accuracy = validationOf(line);
    return accuracy === undefined ? [] : [{ tokens, accuracy }];
  });
}

interface LearningRow {
  readonly algorithm: string;
  readonly seed: number;
  /** Share of the validation problems that were solved. */
  readonly before: number | undefined;
  readonly after: number | undefined;
  readonly steps: number;
  readonly tokens: number;
  readonly fastestStepSeconds: number;
  /** Share of the variance of returns that the critic explains, where there is one. */
  readonly explainedVariance?: number;
}

async function proveLearning() {
  const chosen = Object.entries(ALGORITHMS).filter(
    ([name]) => !flags.only || flags.only.split(',').includes(name),
  );
  const rows: LearningRow[] = [];
  const curves = new Map<string, ReturnType<typeof accuracyOf>[]>();
  for (const seed of seeds) {
    const base = await run({
      seed,
      algorithm: ALGORITHMS.grpo!,
      directory: join(flags.runs, `grpo-${seed}`),
      steps: LEARNING_STEPS,
    });
    const tokens = base.reduce((sum, { metrics }) => sum + tokensOf(metrics), 0);
    for (const [name, algorithm] of chosen) {
      const directory = join(flags.runs, `${name}-${seed}`);
      const steps =
        name === 'grpo' ? base : nearestTo(tokens, await run({ seed, algorithm, directory, tokens }));
      const trained = steps.filter(({ step }) => step > 0);
      const middle = trained.slice(Math.floor(trained.length / 3), Math.ceil((2 * trained.length) / 3));
      const explained = middle.flatMap(({ metrics }) => metrics['critic/vf_explained_var'] ?? []);
      rows.push({
        algorithm: name,
        seed,
        before: validationOf(steps[0]!),
        after: lastValidation(steps),
        steps: trained.length,
        tokens: trained.reduce((sum, { metrics }) => sum + tokensOf(metrics), 0),
        fastestStepSeconds: Math.min(...trained.map(({ metrics }) => secondsOf(metrics))),
        ...(explained.length > 0 ? { explainedVariance: mean(explained) } : {}),
      });
      curves.set(name, [...(curves.get(name) ?? []), accuracyOf(steps)]);
      const { before, after } = rows.at(-1)!;
      say(`${name}, seed ${seed}: ${percent(before)} → ${percent(after)}`);
    }
  }
  const lines = [...curves].map(([name, drawn], index) => ({ name, colour: COLOURS[index]!, seeds: drawn }));
  await draw(
    'algorithms',
    accuracyOverTokens("Equal budgets of rollout tokens on the quick start's task, two seeds", lines),
  );
  return rows;
}

/** One cell of the sweep, on the quick start's task: six updates behind, at three times the usual rate. */
async function proveLag() {
  const [seed] = seeds as [number];
  const plan = { seed, learningRate: 1e-3, steps: 12 };
  const plans: Record<string, Plan> = {
    'no lag': { ...plan, lag: 0, algorithm: MODES.plain!, directory: join(flags.runs, `no-lag-${seed}`) },
  };
  for (const [name, algorithm] of Object.entries(MODES)) {
    if (name === 'token weights') continue; // the sweep has it
    const directory = join(flags.runs, `lag-6-${name.replace(/\W+/g, '-')}-${seed}`);
    plans[`lag 6, ${name}`] = { ...plan, lag: 6, algorithm, directory };
  }
  const rows: { readonly name: string; readonly accuracies: readonly number[] }[] = [];
  const lines: Parameters<typeof accuracyOverTokens>[1][number][] = [];
  for (const [name, each] of Object.entries(plans)) {
    const points = accuracyOf(await run(each));
    lines.push({ name, colour: COLOURS[lines.length]!, seeds: [points] });
    rows.push({ name, accuracies: points.map(({ accuracy }) => accuracy) });
    say(`${name}: ${points.map(({ accuracy }) => percent(accuracy)).join(' ')}`);
  }
  const title = "The quick start's task with an engine six updates behind, learning rate 1e-3";
  await draw('lag', accuracyOverTokens(title, lines));
  return rows;
}

/** A partial or reduced run makes no picture for the docs. */
async function draw(name: string, svg: string): Promise<void> {
  if (flags.only || flags.quick || variant === 'tiny') return;
  await mkdir('docs/images', { recursive: true });
  await writeFile(join('docs/images', `${name}.svg`), svg);
}

const PLAIN = 'lag 6, plain';
const parts = flags.part.split(',');
const learning = parts.includes('learning') ? await proveLearning() : [];
const lag = parts.includes('lag') ? await proveLag() : [];
const lastOfPlain = lag.find(({ name }) => name === PLAIN)?.accuracies.at(-1);
const offPolicy = parts.includes('off-policy')
  ? await proveOffPolicy({
      lags: numbers(flags.lags),
      rates: numbers(flags.rates),
      steps: Number(flags.steps),
      seeds,
      directory: flags.runs,
      keep: flags.keep,
      say,
      draw: (svg) => draw('off-policy', svg),
    })
  : [];
conclude(
  [
    ...learning.map(({ algorithm, seed, before, after }) =>
      atLeast(`${algorithm}, seed ${seed}: points gained`, 100 * ((after ?? 0) - (before ?? 1)), 10),
    ),
    ...lag
      .filter(({ name }) => name !== PLAIN)
      .map(({ name, accuracies }) =>
        atLeast(`${name}: last accuracy over that of plain training`, accuracies.at(-1)! - lastOfPlain!, 0.1),
      ),
    ...offPolicy
      .filter(({ mode }) => mode === "ratio to the engine's")
      .map(({ lag, learningRate, fall }) =>
        atMost(`ratio to the engine's, lag ${lag}, rate ${learningRate}: deepest fall`, fall, 0.1),
      ),
  ],
  { variant, seeds, learning, lag, offPolicy },
);
