/**
 * Recipes whose own sizes need GPUs, run by their own commands on a CPU until they learn: `rollcall data gsm8k`, then
 * `rollcall train recipes/NAME/run.yaml`, with a fresh model of 0.2M weights that imitated mostly bad dialogues first. Changed on
 * the command line are paths, sizes, the engine, the learning rate and how often is measured. Draws docs/images/recipe-NAME.svg.
 *
 *   npm run prove recipe-curves [-- --only gsm8k-multiturn,gsm8k-mlflow,shaping] [--keep]
 *
 * gsm8k-mlflow sends metrics and traces to MLFLOW_TRACKING_URI, or else to a stand-in. --keep takes the warm start of the last call.
 */
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TrainOptions } from 'rollcall';
import type { TaskRow } from 'rollcall/datasets';
import { type Curve, curveSvg } from '../examples/quickstart/curve-svg.ts';
import { openGivenRun } from '../src/cli/given-run.ts';
import { main } from '../src/cli/main.ts';
import { embedded } from '../src/engine/embedded.ts';
import { readMetrics, type StepMetrics } from '../src/watch/run-directory.ts';
import { LONG, tinyModel } from '../test/tiny-model.ts';
import { mlflowStandIn } from '../test/trackers-stand-ins.ts';
import { readFlags } from './flags.ts';
import { demonstration, writeProblems } from './recipes/unclear-sums.ts';
import { teachModel } from './tasks/teach-model.ts';
import { type Aim, atLeast, conclude } from './verdict.ts';

const flags = readFlags(
  {
    only: 'gsm8k-multiturn,gsm8k-mlflow,shaping',
    runs: 'runs/recipe-curves',
    steps: '16',
    demonstrations: '4096',
    keep: false,
  },
  { only: 'gsm8k-multiturn' },
);
const STYLES = { 'gsm8k-mlflow': 'agent-loop' } as Readonly<Record<string, string>>;
const warmStart = join(flags.runs, 'warm-start');
const say = (line: string) => console.error(line);

/** What `rollcall` is given after `train`: all that differs from the recipe's file. */
function words(recipe: string, model: string, runDir: string): string[] {
  const data = join(flags.runs, STYLES[recipe] ?? 'tool');
  return [
    `recipes/${recipe}/run.yaml`,
    `actor_rollout_ref.model.path=${model}`,
    `data.train_files=${join(data, 'train.parquet')}`,
    `data.val_files=${join(data, 'test.parquet')}`,
    `trainer.default_local_dir=${runDir}`,
    ...[
      'data.train_batch_size=16',
      'actor_rollout_ref.actor.ppo_mini_batch_size=8',
      'actor_rollout_ref.rollout.n=8',
    ],
    ...[
      'data.max_prompt_length=192',
      'data.max_response_length=320',
      `trainer.total_training_steps=${flags.steps}`,
    ],
    ...['servers.engine=embedded', 'servers.mode=standalone', 'trainer.name=embedded'],
    ...['actor_rollout_ref.actor.optim.lr=5e-4', 'trainer.test_freq=4'],
  ];
}

/** Problems by the recipes' own data command. */
async function prepare(plus: number): Promise<void> {
  const problems = join(flags.runs, 'problems');
  await writeProblems(problems, { plus, train: 1024, test: 96 });
  for (const style of ['tool', 'agent-loop']) {
    const folders = ['--local_dataset_path', problems, '--local_save_dir', join(flags.runs, style)];
    await main(['data', 'gsm8k', '--style', style, ...folders]);
  }
}

async function teach(): Promise<void> {
  await rm(flags.runs, { recursive: true, force: true });
  await prepare(0.5);
  const [file, ...overrides] = words(
    'gsm8k-multiturn',
    await tinyModel(1, 'tiny', LONG),
    join(flags.runs, 'unused'),
  );
  // The model that stands in until there is one writes a token for each byte.
  const long = overrides.map((word) => word.replace('max_prompt_length=192', 'max_prompt_length=8192'));
  const run = await openGivenRun({ file, overrides: long });
  try {
    const rows: TaskRow[] = [];
    for await (const { row } of run.options.tasks.rows()) rows.push(row as unknown as TaskRow);
    const exercise = {
      options: run.options as unknown as TrainOptions<TaskRow>,
      demonstration: (index: number) => demonstration(rows[index % rows.length]!, index),
      demonstrations: Number(flags.demonstrations),
    };
    const { trainer } = embedded();
    const tokens = await teachModel({ exercise, directory: warmStart, seed: 1, tiny: false, trainer, say });
    say(`warm start: ${tokens} tokens`);
  } finally {
    await run.close();
  }
}

/** The recipe by its own command; the figures of its steps. */
async function trained(
  recipe: string,
  name: string,
  more: readonly string[] = [],
): Promise<readonly StepMetrics[]> {
  const runDir = join(flags.runs, name);
  await rm(runDir, { recursive: true, force: true });
  say(`rollcall train ${[...words(recipe, warmStart, runDir), ...more].join(' ')}`);
  await main(['train', ...words(recipe, warmStart, runDir), ...more]);
  if (process.exitCode) throw new Error(`${name} did not run to its end`);
  return readMetrics(runDir);
}

const VALIDATED = 'val-aux/openai/gsm8k/score/mean@1';
type Steps = readonly StepMetrics[];
const series = (steps: Steps, metric: string) => steps.flatMap(({ metrics }) => metrics[metric] ?? []);
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

function curve(name: string, colour: string, steps: Steps, line: string, dots?: string): Curve {
  const points = steps.map(({ step, metrics }) => {
    const [validation, training] = [metrics[line], dots === undefined ? undefined : metrics[dots]];
    return {
      step,
      ...(training === undefined ? {} : { training }),
      ...(validation === undefined ? {} : { validation }),
    };
  });
  return { name, colour, points };
}

const aims: Aim[] = [];
const figures: Record<string, unknown> = {};

/** Right answers to the test problems, greedy, and among the attempts of training. */
async function learnsAnswers(recipe: string): Promise<void> {
  const needsStandIn = recipe === 'gsm8k-mlflow' && !process.env['MLFLOW_TRACKING_URI'];
  const standIn = needsStandIn ? await mlflowStandIn() : undefined;
  if (standIn) process.env['MLFLOW_TRACKING_URI'] = standIn.url;
  const steps = await trained(recipe, recipe).finally(() => standIn?.close());
  const right = series(steps, VALIDATED);
  aims.push(atLeast(`${recipe}: gain in right answers`, right.at(-1)! - right[0]!, 0.25));
  figures[recipe] = { right, training: series(steps, 'reward/score/mean') };
  const drawn = curve('test problems', '#0a7', steps, VALIDATED, 'reward/score/mean');
  const title = `${recipe}: share of right answers`;
  await writeFile(`docs/images/recipe-${recipe}.svg`, curveSvg(title, [drawn]));
}

/** Calls that could be run, with the recipe's shaping and without it. */
async function learnsCalls(): Promise<void> {
  const shaped = await trained('shaping', 'shaping');
  const unshaped = await trained('shaping', 'unshaped', ['reward_shaping.enable=false']);
  const [valid, others] = [shaped, unshaped].map((steps) => series(steps, 'tools/valid')) as [
    number[],
    number[],
  ];
  const last = (values: readonly number[]) => mean(values.slice(-4));
  aims.push(atLeast('shaping: gain in valid calls, last 4 steps', last(valid) - valid[0]!, 0.15));
  aims.push(
    atLeast('shaping: valid calls of the last 4 steps, more than unshaped', last(valid) - last(others), 0.02),
  );
  figures['shaping'] = { shaped: valid, unshaped: others };
  const drawn = [
    curve('shaped', '#0a7', shaped, 'tools/valid'),
    curve('unshaped', '#c50', unshaped, 'tools/valid'),
  ];
  const svg = curveSvg('Share of calls that could be run', drawn, 'attempts in training');
  await writeFile('docs/images/recipe-shaping.svg', svg);
}

if (!(flags.keep && existsSync(warmStart))) await teach();
await prepare(0.25); // the first guess, plus, is mostly wrong
for (const recipe of flags.only.split(',')) {
  if (recipe === 'shaping') await learnsCalls();
  else await learnsAnswers(recipe);
}
conclude(aims, figures);
