import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { createModel, embedded, errors, loadChatFormat, type StepReport, type TrainOptions } from 'rollcall';
import { loadModelFiles } from 'rollcall/chat';
import { curveSvg } from './curve-svg.ts';
import { type Measurement, measure, type Score } from './measure.ts';
import { createProblems, type Problem } from './problems.ts';
import { RECIPES, type Variant } from './recipe.ts';
import { type BeforeAfter, type CurvePoint, reportLines } from './report.ts';
import { createSolver, LIMITS } from './solver.ts';
import { TEXTS } from './texts.ts';
import { writeTokenizer } from './tokenizer.ts';
import { type QuickstartRun, trainOptions } from './train-options.ts';
import { warmStart } from './warm-start.ts';

export interface QuickstartOptions {
  readonly seed: number;
  readonly variant: Variant;
  readonly runDir: string;
  readonly kernels?: 'native' | 'wasm' | undefined;
  /** Instead of the variant's own number of GRPO steps. */
  readonly steps?: number | undefined;
  /** A line for the person who waits. */
  say(line: string): void;
  /** Runs `train()`; says whether it went to its end. */
  run(options: TrainOptions<Problem>, onStep: (report: StepReport<Problem>) => void): Promise<boolean>;
  readonly signal?: AbortSignal | undefined;
}

/** `summary.json`. Accuracy on test problems: known wordings and ranges with new numbers; `unseen` has neither. */
export interface QuickstartSummary {
  readonly seed: number;
  /** Without the time to compile the kernels. */
  readonly seconds: number;
  /** The trainer's own words: which kernels, how many threads. */
  readonly engine: string;
  readonly steps: number;
  readonly tokens: { readonly sft: number; readonly rollout: number };
  readonly test: BeforeAfter<Score> & { readonly unseen: BeforeAfter<Score> };
}

/**
 * The main job: a fresh model, a warm start on drills and clumsy demonstrations, then GRPO, and what it changed.
 * `undefined` if it was stopped before its end.
 */
export async function quickstart(options: QuickstartOptions): Promise<QuickstartSummary | undefined> {
  const { seed, variant, say, signal } = options;
  const runDir = resolve(options.runDir);
  if (existsSync(join(runDir, 'metrics.jsonl'))) {
    throw new errors.ConfigError(`${runDir} already holds a run; choose another folder with --run`);
  }
  const recipe = { ...RECIPES[variant], ...(options.steps === undefined ? {} : { steps: options.steps }) };
  const engine = embedded({
    ...(options.kernels === undefined ? {} : { kernels: options.kernels }),
    log: say,
  });
  const held = {
    validation: createProblems('validation', seed, recipe.problems.validation),
    test: createProblems('test', seed, recipe.problems.test),
    unseen: createProblems('unseen', seed, recipe.problems.unseen),
  };

  const fresh = join(runDir, 'fresh-model');
  const warm = join(runDir, 'warm-start');
  await rm(fresh, { recursive: true, force: true });
  await writeTokenizer(join(fresh, 'tokenizer'), TEXTS);
  createModel({
    directory: fresh,
    size: recipe.model.size,
    tokenizer: join(fresh, 'tokenizer'),
    seed,
    overrides: { contextTokens: 512 },
  });
  await rm(join(fresh, 'tokenizer'), { recursive: true });
  const { tokenizer } = await loadModelFiles(fresh);
  const format = await loadChatFormat(fresh);
  const trainer = await engine.trainer.open('policy', fresh);
  const began = performance.now();
  const [server] = await engine.servers.open(fresh);
  say(`Engine: ${trainer.description}`);
  let sftTokens = 0;
  let before: { readonly test: Measurement; readonly unseen: Measurement };
  try {
    const look = { server: server!, format, seed, signal };
    const publish = async () => server!.update(await trainer.publish(0));
    say('Warm start: supervised training on drills, then on demonstrations, some of them clumsy.');
    sftTokens = await warmStart({
      seed,
      recipe,
      say,
      classroom: { trainer, agent: createSolver(), limits: LIMITS, tokenizer, format, signal },
      look: async (how) => {
        await publish();
        const sampling = how === 'greedy' ? {} : { temperature: 1, attempts: 8 };
        return measure('validation', held.validation, { ...look, ...sampling });
      },
    });
    await publish();
    before = {
      test: await measure('test', held.test, look),
      unseen: await measure('unseen', held.unseen, look),
    };
    await trainer.save(warm);
  } finally {
    await Promise.all([trainer.close(), server!.close()]);
  }
  await rm(fresh, { recursive: true });
  const solved = (100 * before.test.score.accuracy).toFixed(1);
  say(`After the warm start ${solved} % of the test problems are solved. Now GRPO.`);

  const curve: CurvePoint[] = [];
  let rolloutTokens = 0;
  const finished = await options.run(
    {
      ...trainOptions({ seed, variant, steps: recipe.steps, model: warm, runDir, engine }),
      config: await writeRunFile({ seed, variant, steps: recipe.steps, model: warm, runDir }),
    },
    (report) => {
      curve.push(curvePoint(report));
      rolloutTokens += report.metrics['perf/total_num_tokens'] ?? 0;
    },
  );
  if (!finished) return undefined;

  const model = join(runDir, 'checkpoints', `global_step_${recipe.steps}`);
  const [trained] = await engine.servers.open(model);
  const look = { server: trained!, format, seed, signal };
  const after = {
    test: await measure('test', held.test, look),
    unseen: await measure('unseen', held.unseen, look),
  };
  await trained!.close();

  const summary: QuickstartSummary = {
    seed,
    seconds: Math.round((performance.now() - began) / 100) / 10,
    engine: trainer.description,
    steps: recipe.steps,
    tokens: { sft: sftTokens, rollout: rolloutTokens },
    test: {
      before: before.test.score,
      after: after.test.score,
      unseen: { before: before.unseen.score, after: after.unseen.score },
    },
  };
  await writeFile(join(runDir, 'summary.json'), `${JSON.stringify({ format: 1, ...summary }, null, 2)}\n`);
  await writeFile(
    join(runDir, 'curve.svg'),
    curveSvg(`Quick start, seed ${seed}`, [{ name: `seed ${seed}`, colour: '#0a7', points: curve }]),
  );
  const lines = reportLines({ ...summary, curve, solved: { before: before.test, after: after.test } });
  for (const line of [...lines, ...whatNext(summary, runDir, model)]) say(line);
  return summary;
}

/** What `rollcall train --resume`, `preview` and `chat` read to know the agent, its tools and the tasks. */
async function writeRunFile(run: QuickstartRun): Promise<{ path: string; sha256: string }> {
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  const source = new URL(`./train-options${extension}`, import.meta.url).href;
  const text =
    `// The run file of this quick start.\nimport { trainOptions } from '${source}';\n\n` +
    `export const options = trainOptions(${JSON.stringify(run, null, 2)});\n`;
  const path = join(run.runDir, 'train.ts');
  await mkdir(run.runDir, { recursive: true });
  await writeFile(path, text);
  return { path, sha256: createHash('sha256').update(text).digest('hex') };
}

function curvePoint({ step, metrics }: StepReport<Problem>): CurvePoint {
  const validation = Object.entries(metrics).find(([name]) => /^val-core\/validation\//.test(name))?.[1];
  const training = metrics['critic/score/mean'];
  return {
    step,
    ...(training === undefined ? {} : { training }),
    ...(validation === undefined ? {} : { validation }),
  };
}

function whatNext({ seconds, engine, tokens }: QuickstartSummary, runDir: string, model: string): string[] {
  const shown = relative(process.cwd(), runDir).startsWith('..') ? runDir : relative(process.cwd(), runDir);
  return [
    `${seconds.toFixed(0)} s, ${engine}; ${tokens.sft} tokens in the warm start, ${tokens.rollout} in rollouts.`,
    `Run:    ${runDir}`,
    `Model:  ${model}`,
    `Curve:  ${join(runDir, 'curve.svg')}`,
    '',
    'Next:',
    `  npx rollcall watch ${shown}                curves, trajectories and tokens in the browser`,
    `  npx rollcall show ${shown} 1 --task 1      attempts of the first step, token by token`,
    `  npx rollcall chat ${shown}                 ask it something`,
    `  npx rollcall preview ${shown}/train.ts     what training sees of one task`,
  ];
}
