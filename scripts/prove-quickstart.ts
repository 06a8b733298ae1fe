/**
 * Proves the quick start: five seeds with one setting, and for the first three what does not explain their gain.
 *
 *   npm run prove quickstart [-- --seeds 1,2,3,4,5] [--controls 3] [--kernels wasm] [--variant short] [--quick]
 *   npm run prove quickstart -- --confirm --seeds 1
 *
 * - The same seconds of more supervised training instead of GRPO.
 * - GRPO with the rewards of each group shuffled among its attempts.
 * - The trained model without the calculator, and GRPO from the same warm start without it.
 *
 * Every control starts from the warm start that `rollcall quickstart` left in its run directory. With the full variant,
 * five seeds or more and the controls of three it writes the tables and the curves of docs/quickstart.md and README.md.
 * With --confirm it shows instead that changed code still gives the figures of those tables to the digit.
 */
import { spawn } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { curveSvg } from '../examples/quickstart/curve-svg.ts';
import { type Measurement, type MeasureOptions, measure } from '../examples/quickstart/measure.ts';
import { createProblems, type Problem } from '../examples/quickstart/problems.ts';
import type { QuickstartSummary } from '../examples/quickstart/quickstart.ts';
import { RECIPES, type Variant } from '../examples/quickstart/recipe.ts';
import type { CurvePoint } from '../examples/quickstart/report.ts';
import { correct, createSolver, LIMITS } from '../examples/quickstart/solver.ts';
import { teach } from '../examples/quickstart/teach.ts';
import { trainOptions } from '../examples/quickstart/train-options.ts';
import { lessonOf } from '../examples/quickstart/warm-start.ts';
import { loadChatFormat, loadModelFiles } from '../src/chat/model-files.ts';
import { embedded } from '../src/engine/embedded.ts';
import type { TrainOptions } from '../src/options.ts';
import { train } from '../src/train.ts';
import { readMetrics } from '../src/watch/run-directory.ts';
import { readFlags } from './flags.ts';
import {
  CONTROL_NAMES,
  type ControlName,
  MEASURED,
  type Measured,
  type MeasuredSeed,
  readMeasured,
  writeQuickstartPages,
} from './quickstart-page.ts';
import { quickstartStamp } from './quickstart-stamp.ts';
import { shuffledRewards } from './shuffled-rewards.ts';
import { atLeast, atMost, conclude } from './verdict.ts';

const flags = readFlags(
  {
    seeds: '1,2,3,4,5',
    kernels: '',
    variant: 'full',
    /** How many of the seeds have controls. */
    controls: '3',
    runs: 'runs/prove-quickstart',
    /** Takes what is finished from --runs instead of making it again. */
    keep: false,
    confirm: false,
  },
  { seeds: '1', controls: '0' },
);
const variant = flags.variant as Variant;
const kernels = (flags.kernels || undefined) as 'native' | 'wasm' | undefined;
const recipe = RECIPES[variant];
const engine = embedded(kernels ? { kernels } : {});
/** Taken before the first run: what is edited meanwhile is not what is measured. */
const stamp = quickstartStamp();
const say = (line: string) => console.error(line);
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const percent = (value: number) => `${(100 * value).toFixed(1)} %`;

/** `npm start`, as a user runs it. */
async function runQuickstart(seed: number, directory: string): Promise<QuickstartSummary> {
  const finished = await readFile(join(directory, 'summary.json'), 'utf8').catch(() => undefined);
  if (flags.keep && finished?.includes('"unseen"')) return JSON.parse(finished) as QuickstartSummary;
  await rm(directory, { recursive: true, force: true });
  const args = ['quickstart', '--seed', String(seed), '--variant', variant, '--json', '--run', directory];
  if (kernels) args.push('--kernels', kernels);
  const child = spawn(process.execPath, ['bin/rollcall.js', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  for await (const chunk of child.stdout) output += String(chunk);
  return JSON.parse(output.trimEnd().split('\n').at(-1)!) as QuickstartSummary;
}

/** A model on the test problems, by an agent that may lack its tool. */
async function measureModel(
  model: string,
  seed: number,
  agent: MeasureOptions['agent'] = createSolver(),
): Promise<Measurement> {
  const [server] = await engine.servers.open(model);
  try {
    const format = await loadChatFormat(model);
    const problems = createProblems('test', seed, recipe.problems.test);
    return await measure('test', problems, { server: server!, format, seed, agent });
  } finally {
    await server!.close();
  }
}

const accuracyOf = async (...args: Parameters<typeof measureModel>) =>
  (await measureModel(...args)).score.accuracy;

async function moreSupervised(
  seed: number,
  warm: string,
  seconds: number,
  directory: string,
): Promise<number> {
  const { tokenizer } = await loadModelFiles(warm);
  const format = await loadChatFormat(warm);
  const trainer = await engine.trainer.open('policy', warm);
  try {
    const classroom = { trainer, agent: createSolver(), limits: LIMITS, tokenizer, format };
    const first = recipe.demonstrations + recipe.moreDemonstrations.count * recipe.moreDemonstrations.times;
    const began = performance.now();
    const elapsed = () => (performance.now() - began) / 1000;
    await teach(lessonOf('more', { seed, first, count: 640 }), classroom);
    // The rate falls over what is left of the time.
    const count = Math.ceil((640 * (seconds - elapsed())) / elapsed());
    await teach(
      {
        ...lessonOf('more', { seed, first: first + 640, count }),
        until: () => elapsed() > seconds,
      },
      classroom,
    );
    await trainer.save(directory);
  } finally {
    await trainer.close();
  }
  return accuracyOf(directory, seed);
}

/** GRPO on other rewards or without the tool, from the same warm start. */
async function otherGrpo(
  seed: number,
  warm: string,
  directory: string,
  change: Partial<TrainOptions<Problem>>,
): Promise<number> {
  await rm(directory, { recursive: true, force: true });
  const options = { ...trainOptions({ seed, variant, model: warm, runDir: directory, engine }), ...change };
  const { validation: _, ...rest } = options;
  for await (const _report of train(rest));
  return accuracyOf(join(directory, 'checkpoints', `global_step_${recipe.steps}`), seed, options.agent);
}

/** What the gain must not come from, by test accuracy. */
async function runControls(
  seed: number,
  directory: string,
  grpoSeconds: number,
): Promise<Readonly<Record<ControlName, number>>> {
  const file = join(directory, 'controls.json');
  const finished = await readFile(file, 'utf8').catch(() => undefined);
  if (flags.keep && finished) return JSON.parse(finished) as Record<ControlName, number>;
  const warm = join(directory, 'warm-start');
  const trained = join(directory, 'checkpoints', `global_step_${recipe.steps}`);
  const withoutTool = createSolver([]);
  const at = (name: string) => join(directory, 'controls', name);
  const controls = {
    moreSupervised: await moreSupervised(seed, warm, grpoSeconds, at('supervised')),
    shuffledRewards: await otherGrpo(seed, warm, at('shuffled'), {
      rewards: [shuffledRewards(correct, recipe.attemptsPerTask, seed)],
    }),
    trainedThenWithoutTool: await accuracyOf(trained, seed, withoutTool),
    grpoWithoutTool: await otherGrpo(seed, warm, at('no-tool'), { agent: withoutTool }),
  };
  await writeFile(file, JSON.stringify(controls));
  return controls;
}

type Result = QuickstartSummary & {
  readonly grpoSeconds: number;
  /** Share of the solved test problems whose calls build on one another. */
  readonly dependent: number;
  readonly controls?: Readonly<Record<ControlName, number>>;
};
/** What the tables keep of a run. */
const figuresOf = ({ seed, seconds, test, tokens, controls }: Result): MeasuredSeed => ({
  seed,
  seconds,
  test: { before: test.before.accuracy, after: test.after.accuracy },
  unseen: { before: test.unseen.before.accuracy, after: test.unseen.after.accuracy },
  validCalls: { before: test.before.validToolCalls, after: test.after.validToolCalls },
  tokens,
  ...(controls ? { controls } : {}),
});

const results: Result[] = [];
const curves: { name: string; colour: string; points: CurvePoint[] }[] = [];
for (const [index, seed] of flags.seeds.split(',').map(Number).entries()) {
  const directory = join(flags.runs, `seed-${seed}`);
  const summary = await runQuickstart(seed, directory);
  const steps = await readMetrics(directory);
  const points = steps.map(({ step, metrics }) => ({
    step,
    ...(metrics['critic/score/mean'] === undefined ? {} : { training: metrics['critic/score/mean'] }),
    ...(metrics['val-core/validation/reward/mean@1'] === undefined
      ? {}
      : { validation: metrics['val-core/validation/reward/mean@1'] }),
  }));
  curves.push({ name: `seed ${seed}`, colour: ['#0a7', '#c50', '#36c', '#a3a', '#777'][index % 5]!, points });
  const grpoSeconds = steps.at(-1)!.seconds;
  const trained = join(directory, 'checkpoints', `global_step_${summary.steps}`);
  const { dependent } = await measureModel(trained, seed);
  const controls =
    !flags.confirm && index < Number(flags.controls)
      ? await runControls(seed, directory, grpoSeconds)
      : undefined;
  results.push({ ...summary, grpoSeconds, dependent, ...(controls ? { controls } : {}) });
  say(`seed ${seed}: ${JSON.stringify(results.at(-1))}`);
}
if (flags.confirm) {
  const measured = readMeasured();
  const digits = ({ seconds: _, controls: __, ...figures }: MeasuredSeed) => JSON.stringify(figures);
  const same = results.map(figuresOf).map((now) => {
    const then = measured.seeds.find(({ seed }) => seed === now.seed);
    return then !== undefined && digits(then) === digits(now);
  });
  if (!same.includes(false)) {
    const seeds = results.map(({ seed }) => seed);
    await writeFile(MEASURED, `${JSON.stringify({ ...measured, confirmed: { stamp, seeds } }, null, 2)}\n`);
    writeQuickstartPages();
  }
  conclude([atLeast('seeds with the same figures', same.filter(Boolean).length, same.length)], {
    seeds: results,
  });
  process.exit();
}
const controlled = results.filter(({ controls }) => controls);
const isWhole = variant === 'full' && results.length >= 5 && controlled.length >= 3;
if (isWhole && kernels !== 'wasm') {
  const measured: Measured = {
    stamp,
    engine: results[0]!.engine,
    seeds: results.map(figuresOf),
  };
  await writeFile(MEASURED, `${JSON.stringify(measured, null, 2)}\n`);
  await writeFile('docs/images/quickstart-curves.svg', curveSvg('Quick start, by seed', curves));
  writeQuickstartPages();
}

const meanOf = (value: (result: Result) => number) => mean(results.map(value));
const summary = {
  seeds: results,
  mean: {
    seconds: meanOf(({ seconds }) => seconds),
    before: meanOf(({ test }) => test.before.accuracy),
    after: meanOf(({ test }) => test.after.accuracy),
    validToolCalls: meanOf(({ test }) => test.after.validToolCalls),
    dependent: meanOf(({ dependent }) => dependent),
    unseenBefore: meanOf(({ test }) => test.unseen.before.accuracy),
    unseenAfter: meanOf(({ test }) => test.unseen.after.accuracy),
    unseenWorst: Math.min(...results.map(({ test }) => test.unseen.after.accuracy)),
    ...(controlled.length > 0
      ? Object.fromEntries(
          CONTROL_NAMES.map((name) => [name, mean(controlled.map(({ controls }) => controls![name]))]),
        )
      : {}),
  },
};
for (const [name, value] of Object.entries(summary.mean)) {
  say(`${name}: ${name === 'seconds' ? `${value.toFixed(0)} s` : percent(value)}`);
}
const { after, unseenAfter, unseenWorst, validToolCalls, ...rest } = summary.mean as Record<string, number>;
conclude(
  [
    atLeast('mean test accuracy', after, 0.9),
    atLeast('mean accuracy on unseen wordings and ranges', unseenAfter, 0.95),
    atLeast('accuracy on unseen wordings and ranges, the worst seed', unseenWorst, 0.9),
    atLeast('valid tool calls', validToolCalls, 0.95),
    ...(controlled.length > 0
      ? CONTROL_NAMES.map((name) => atMost(`test accuracy of the control ${name}`, rest[name], after! - 0.2))
      : []),
  ],
  summary,
);
