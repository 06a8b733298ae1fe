/**
 * Proves that the algorithms learn, on the quick start's task and from one warm start per seed, at an equal budget of
 * rollout tokens; and that off-policy correction holds where training that ignores it breaks.
 *
 *   npm run prove:algorithms [-- --seeds 1,2] [--variant short] [--part learning,off-policy] [--only grpo,ppo]
 *                               [--lags 0,4,8] [--rates 3e-4,1e-3,3e-3] [--steps 12]
 *
 * Writes docs/images/algorithms.svg and docs/images/off-policy.svg; the last line is JSON. Runs are kept under --runs
 * and taken from there with --keep.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { embedded } from '../src/engine/embedded.ts';
import type { InferenceServer, WeightUpdate } from '../src/inference/server.ts';
import type { Backend } from '../src/options.ts';
import { RECIPES, type Variant } from '../src/quickstart/recipe.ts';
import { trainOptions } from '../src/quickstart/train-options.ts';
import { train } from '../src/train.ts';
import type { Algorithm } from '../src/training/algorithm.ts';
import { dapo, drGrpo, grpo, gspo, ppo, reinforcePlusPlus, rloo } from '../src/training/algorithms.ts';
import { corrections } from '../src/training/correction.ts';
import { readMetrics, type StepMetrics } from '../src/watch/run-directory.ts';
import { accuracyOverTokens, heatPanels } from './algorithm-figures.ts';

const { values: flags } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1,2' },
    variant: { type: 'string', default: 'short' },
    part: { type: 'string', default: 'learning,off-policy' },
    only: { type: 'string' },
    runs: { type: 'string', default: 'runs/prove-algorithms' },
    keep: { type: 'boolean', default: false },
    lags: { type: 'string', default: '0,4,8' },
    rates: { type: 'string', default: '3e-4,1e-3,3e-3' },
    steps: { type: 'string', default: '12' },
  },
});
const variant = flags.variant as Variant;
const recipe = RECIPES[variant];
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
  ppo: ppo({ clip, old: 'behaviour', critic: { warmupSteps: 1 } }),
};

/** The supervised warm start that every algorithm of a seed begins with. */
async function warmStart(seed: number): Promise<string> {
  const directory = join(flags.runs, `warm-${seed}`);
  const model = join(directory, 'warm-start');
  if (flags.keep && existsSync(join(directory, 'summary.json'))) return model;
  await rm(directory, { recursive: true, force: true });
  const args = [
    'quickstart',
    '--seed',
    String(seed),
    '--variant',
    variant,
    '--steps',
    '1',
    '--run',
    directory,
  ];
  const child = spawn(process.execPath, ['bin/rollcall.js', ...args], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const code = await new Promise<number | null>((done) => child.once('exit', done));
  if (code !== 0) throw new Error(`the quick start ended with ${code}`);
  return model;
}

interface Plan {
  readonly seed: number;
  readonly algorithm: Algorithm;
  readonly directory: string;
  readonly learningRate?: number;
  /** Steps by which the engine's weights are behind. */
  readonly lag?: number;
  /** Ends the run once so many tokens were rolled out. */
  readonly tokens?: number;
  /** Instead of the variant's own number. */
  readonly steps?: number;
}

async function run({
  seed,
  algorithm,
  directory,
  learningRate,
  lag,
  tokens,
  steps = recipe.steps,
}: Plan): Promise<StepMetrics[]> {
  const finished = existsSync(join(directory, 'finished'));
  if (!(flags.keep && finished)) {
    await rm(directory, { recursive: true, force: true });
    const model = await warmStart(seed);
    const total = tokens === undefined ? steps : 3 * steps;
    const backend = lagging(lag ?? 0);
    const options = trainOptions({ seed, variant, steps: total, model, runDir: directory, backend });
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
      evaluation: { ...options.evaluation, every: lag === undefined ? 1 : recipe.evaluateEvery },
    })) {
      used += tokensOf(metrics);
      if (tokens !== undefined && used >= tokens) break; // nearestTo() may leave this step out again
    }
    await writeFile(join(directory, 'finished'), '');
  }
  return readMetrics(directory);
}

/** Servers that answer with the weights of `lag` updates ago. Their versions say so. */
function lagging(lag: number): Backend {
  const plain = embedded();
  return {
    ...plain,
    openServers: async (model) =>
      (await plain.openServers(model)).map((server): InferenceServer => {
        const waiting: WeightUpdate[] = [];
        const update = server.update.bind(server);
        server.update = async (weights) => {
          if (weights.kind === 'memory') waiting.push({ ...weights, tensors: copyOf(weights.tensors) });
          while (waiting.length > lag) await update(waiting.shift()!);
        };
        return server;
      }),
  };
}

/** A trainer may publish its live memory, which the next update changes. */
function copyOf(tensors: Extract<WeightUpdate, { kind: 'memory' }>['tensors']) {
  return new Map(
    [...tensors].map(([name, { shape, data }]) => {
      const copy = new Float32Array(new SharedArrayBuffer(data.byteLength));
      copy.set(data);
      return [name, { shape, data: copy }];
    }),
  );
}

/** Rolled out, also in groups that dynamic sampling left out. */
const tokensOf = (metrics: Record<string, number>) =>
  (metrics['perf/total_num_tokens'] ?? 0) + (metrics['training/filter_groups/evicted_tokens'] ?? 0);
const validationOf = ({ metrics }: StepMetrics) =>
  Object.entries(metrics).find(([name]) => name.startsWith('val-core/') && name.includes('/mean@'))?.[1];
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

const median = (list: readonly number[]) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0;

/** Accuracy on the validation problems over the tokens that were rolled out before. */
function accuracyOf(steps: readonly StepMetrics[]) {
  let tokens = 0;
  return steps.flatMap((line) => {
    tokens += tokensOf(line.metrics);
    const accuracy = validationOf(line);
    return accuracy === undefined ? [] : [{ tokens, accuracy }];
  });
}

async function proveLearning() {
  const chosen = Object.entries(ALGORITHMS).filter(
    ([name]) => !flags.only || flags.only.split(',').includes(name),
  );
  const rows: Record<string, unknown>[] = [];
  const curves = new Map<string, ReturnType<typeof accuracyOf>[]>();
  for (const seed of seeds) {
    const base = await run({
      seed,
      algorithm: ALGORITHMS.grpo!,
      directory: join(flags.runs, `grpo-${seed}`),
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
        before: validationOf(steps[0]!) ?? null,
        after: lastValidation(steps) ?? null,
        steps: trained.length,
        tokens: trained.reduce((sum, { metrics }) => sum + tokensOf(metrics), 0),
        secondsPerStep: median(trained.map(({ metrics }) => metrics['timing_s/step'] ?? 0)),
        ...(explained.length > 0 ? { explainedVariance: mean(explained) } : {}),
      });
      curves.set(name, [...(curves.get(name) ?? []), accuracyOf(steps)]);
      const row = rows.at(-1)!;
      say(`${name}, seed ${seed}: ${percent(row.before as number)} → ${percent(row.after as number)}`);
    }
  }
  const lines = [...curves].map(([name, drawn], index) => ({ name, colour: COLOURS[index]!, seeds: drawn }));
  await draw(
    'algorithms',
    accuracyOverTokens("Equal budgets of rollout tokens on the quick start's task, two seeds", lines),
  );
  return rows;
}

/**
 * The engine's weights are `lag` updates behind. Plain: its log-probs are ignored, as if what it sampled were the
 * policy's. Corrected: the same, with importance weights from those log-probs.
 */
async function proveOffPolicy() {
  const modes: Record<string, Algorithm> = {
    plain: grpo({ clip }),
    corrected: grpo({ clip, correction: corrections.tokenTruncated(2) }),
  };
  const rows: { lag: number; learningRate: number; mode: string; after: number; [more: string]: unknown }[] =
    [];
  const [seed] = seeds as [number];
  for (const lag of numbers(flags.lags)) {
    for (const learningRate of numbers(flags.rates)) {
      for (const [mode, algorithm] of Object.entries(modes)) {
        const directory = join(flags.runs, `lag-${lag}-${learningRate}-${mode}-${seed}`);
        const steps = await run({
          seed,
          algorithm,
          directory,
          learningRate,
          lag,
          steps: Number(flags.steps),
        });
        const accuracies = steps.flatMap((line) => validationOf(line) ?? []);
        const last = steps.at(-1)!.metrics;
        rows.push({
          lag,
          learningRate,
          mode,
          after: mean(accuracies.slice(-3)),
          best: Math.max(...accuracies),
          accuracies,
          entropy: last['actor/entropy'],
          gap: last['training/rollout_probs_diff_mean'],
        });
        say(`lag ${lag}, rate ${learningRate}, ${mode}: ${accuracies.map((one) => percent(one)).join(' ')}`);
      }
    }
  }
  const panels = Object.keys(modes).map((name) => ({
    name,
    cells: rows
      .filter(({ mode }) => mode === name)
      .map(({ lag, learningRate, after }) => ({
        row: String(lag),
        column: learningRate.toExponential(),
        value: after,
      })),
  }));
  await draw(
    'off-policy',
    heatPanels('Accuracy at the end, by lag of the engine and learning rate', panels, {
      rows: 'lag',
      columns: 'learning rate; mean of the last three evaluations',
    }),
  );
  return rows;
}

async function draw(name: string, svg: string): Promise<void> {
  await mkdir('docs/images', { recursive: true });
  await writeFile(join('docs/images', `${name}.svg`), svg);
}

const parts = flags.part.split(',');
const learning = parts.includes('learning') ? await proveLearning() : [];
const offPolicy = parts.includes('off-policy') ? await proveOffPolicy() : [];
console.log(JSON.stringify({ variant, seeds, learning, offPolicy }));
