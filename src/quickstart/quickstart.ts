import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { loadChatFormat, loadModelFiles } from '../chat/model-files.ts';
import { embedded } from '../engine/embedded.ts';
import { createModel } from '../engine/model/create.ts';
import { ConfigError } from '../errors.ts';
import { type Clock, realClock } from '../lib/clock.ts';
import type { TrainOptions } from '../options.ts';
import type { StepReport } from '../run.ts';
import { writeSummary } from '../watch/run-directory.ts';
import { curveSvg } from './curve-svg.ts';
import { type Measurement, measure, type Score } from './measure.ts';
import { createProblems, type Problem } from './problems.ts';
import { RECIPES, type Recipe, type Variant } from './recipe.ts';
import {
  type BeforeAfter,
  type CurvePoint,
  chooseDialogues,
  dialogueLines,
  plotCurve,
  scoreTable,
} from './report.ts';
import { writeTokenizer } from './tokenizer.ts';
import { trainOptions } from './train-options.ts';
import { type Classroom, notReady, teach } from './warm-start.ts';

export interface QuickstartOptions {
  readonly seed: number;
  readonly variant: Variant;
  readonly runDir: string;
  readonly kernels?: 'native' | 'wasm' | undefined;
  /** Instead of the variant's own number of GRPO steps. */
  readonly steps?: number | undefined;
  /** A line for the person who waits. */
  say(line: string): void;
  /** Progress of the warm start, which is redrawn or left out. */
  onWarmStart?(progress: { readonly name: string; readonly done: number; readonly total: number }): void;
  /** Runs `train()`; says whether it went to its end. */
  run(options: TrainOptions<Problem>, onStep: (report: StepReport<Problem>) => void): Promise<boolean>;
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock;
}

/** `summary.json`. Accuracy on test problems: known wordings and ranges with new numbers; `unseen` has neither. */
export interface QuickstartSummary {
  readonly seed: number;
  /** Without the time to compile the kernels. */
  readonly seconds: number;
  readonly kernels: 'native' | 'wasm';
  readonly steps: number;
  readonly tokens: { readonly sft: number; readonly rollout: number };
  readonly test: BeforeAfter<Score> & { readonly unseen: BeforeAfter<Score> };
}

/**
 * The main job: a fresh model, a warm start on drills and clumsy demonstrations, then GRPO, and what it changed.
 * `undefined` if it was stopped before its end.
 */
export async function quickstart(options: QuickstartOptions): Promise<QuickstartSummary | undefined> {
  const { seed, variant, say, signal, clock = realClock() } = options;
  const runDir = resolve(options.runDir);
  if (existsSync(join(runDir, 'metrics.jsonl'))) {
    throw new ConfigError(`${runDir} already holds a run; choose another folder with --run`);
  }
  const recipe = { ...RECIPES[variant], ...(options.steps === undefined ? {} : { steps: options.steps }) };
  const backend = embedded({
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
  await writeTokenizer(join(fresh, 'tokenizer'));
  await createModel({
    directory: fresh,
    size: recipe.model.size,
    tokenizer: join(fresh, 'tokenizer'),
    seed,
    overrides: { contextTokens: 512 },
  });
  await rm(join(fresh, 'tokenizer'), { recursive: true });
  const { tokenizer } = await loadModelFiles(fresh);
  const format = await loadChatFormat(fresh, {});
  const trainer = await backend.openTrainer('policy', fresh);
  const began = clock.now();
  const [server] = await backend.openServers(fresh);
  say(`Engine: ${trainer.description}`);
  let sftTokens = 0;
  let before: { readonly test: Measurement; readonly unseen: Measurement };
  try {
    const look = { server: server!, format, seed, signal };
    const classroom: Classroom = { trainer, tokenizer, format, signal };
    sftTokens = await warmStart(options, recipe, held.validation, classroom, async (greedy) => {
      await server!.update(await trainer.publish(0));
      return measure('validation', held.validation, {
        ...look,
        ...(greedy ? {} : { temperature: 1, attempts: 4 }),
      });
    });
    before = {
      test: await measure('test', held.test, look),
      unseen: await measure('unseen', held.unseen, look),
    };
    await trainer.save(warm);
  } finally {
    await Promise.all([trainer.close(), server!.close()]);
  }
  say(
    `After the warm start ${percent(before.test.score.accuracy)} of the test problems are solved. Now GRPO.`,
  );

  await writeRunFile({ ...options, runDir, model: warm });
  const curve: CurvePoint[] = [];
  let rolloutTokens = 0;
  const finished = await options.run(
    trainOptions({ seed, variant, steps: recipe.steps, model: warm, runDir, backend }),
    (report) => {
      curve.push(curvePoint(report));
      rolloutTokens += report.metrics['perf/total_num_tokens'] ?? 0;
    },
  );
  if (!finished) return undefined;

  const model = join(runDir, 'checkpoints', `global_step_${recipe.steps}`);
  const [trained] = await backend.openServers(model);
  const look = { server: trained!, format, seed, signal };
  const after = {
    test: await measure('test', held.test, look),
    unseen: await measure('unseen', held.unseen, look),
  };
  await trained!.close();

  const summary: QuickstartSummary = {
    seed,
    seconds: Math.round((clock.now() - began) / 100) / 10,
    kernels: trainer.description.includes('native') ? 'native' : 'wasm',
    steps: recipe.steps,
    tokens: { sft: sftTokens, rollout: rolloutTokens },
    test: {
      before: before.test.score,
      after: after.test.score,
      unseen: { before: before.unseen.score, after: after.unseen.score },
    },
  };
  await writeSummary(runDir, summary);
  await writeFile(
    join(runDir, 'curve.svg'),
    curveSvg(`Quick start, seed ${seed}`, [{ name: `seed ${seed}`, colour: '#0a7', points: curve }]),
  );
  tell(say, { summary, curve, before: before.test, after: after.test, runDir, model });
  return summary;
}

/** Drills, demonstrations, and more of these while the model is not ready for GRPO. Returns the tokens it took. */
async function warmStart(
  { seed, say, onWarmStart }: QuickstartOptions,
  recipe: Recipe,
  _validation: readonly Problem[],
  classroom: Classroom,
  look: (greedy: boolean) => Promise<Measurement>,
): Promise<number> {
  const learn = (kind: 'drills' | 'demonstrations' | 'more', first: number, count: number) => {
    let loss = 0;
    return teach(
      { kind, seed, first, count },
      {
        ...classroom,
        onProgress: (progress) => {
          loss = progress.loss;
          onWarmStart?.({ name: kind, ...progress });
        },
      },
    ).then((tokens) => {
      say(
        `  ${count} ${kind === 'drills' ? 'drills' : 'demonstrations'}: ${tokens} tokens, loss ${loss.toFixed(3)}`,
      );
      return tokens;
    });
  };
  say('Warm start: supervised training on drills, then on demonstrations, some of them clumsy.');
  let tokens = await learn('drills', 0, recipe.drills);
  tokens += await learn('demonstrations', 0, recipe.demonstrations);
  const { count, times } = recipe.moreDemonstrations;
  for (let round = 0; round < times; round++) {
    const reason = notReady(await look(true), await look(false));
    if (reason === undefined) break;
    say(`  Not ready for GRPO: ${reason}. More demonstrations.`);
    tokens += await learn('more', recipe.demonstrations + round * count, count);
  }
  await look(true);
  return tokens;
}

/** What `rollcall train --resume`, `preview` and `chat` read to know the agent, its tools and the tasks. */
async function writeRunFile({
  seed,
  variant,
  steps,
  model,
  runDir,
}: QuickstartOptions & { readonly model: string }): Promise<void> {
  const source =
    new URL('./train-options', import.meta.url).href + (import.meta.url.endsWith('.ts') ? '.ts' : '.js');
  const given = { seed, variant, ...(steps === undefined ? {} : { steps }), model, runDir };
  await mkdir(runDir, { recursive: true });
  await writeFile(
    join(runDir, 'train.ts'),
    `// The run file of this quick start.\nimport { trainOptions } from '${source}';\n\n` +
      `export const options = trainOptions(${JSON.stringify(given, null, 2)});\n`,
  );
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

const percent = (value: number) => `${(100 * value).toFixed(1)} %`;

function tell(
  say: (line: string) => void,
  result: {
    readonly summary: QuickstartSummary;
    readonly curve: readonly CurvePoint[];
    readonly before: Measurement;
    readonly after: Measurement;
    readonly runDir: string;
    readonly model: string;
  },
): void {
  const { summary, curve, before, after, runDir, model } = result;
  const lines = [
    '',
    ...scoreTable({ 'test problems': summary.test, 'unseen wordings, numbers': summary.test.unseen }),
    '',
    `Of the solved test problems, ${percent(after.dependent)} took calls that build on one another.`,
    '',
    ...chooseDialogues(before, after).flatMap((at) => [
      ...dialogueLines(before.groups[at]!, after.groups[at]!),
      '',
    ]),
    ...plotCurve(curve),
    '',
    `${summary.seconds.toFixed(0)} s, ${summary.kernels} kernels, ${summary.tokens.sft} tokens in the warm start, ${summary.tokens.rollout} in rollouts.`,
    `Run:    ${runDir}`,
    `Model:  ${model}`,
    `Curve:  ${join(runDir, 'curve.svg')}`,
    '',
    'Next:',
    `  npm run rollcall -- show ${runDir} ${summary.steps}    what the model did in the last step, token by token`,
    `  npm run rollcall -- chat ${runDir}    ask it something`,
    `  npm run rollcall -- preview ${join(runDir, 'train.ts')}    what training sees of one task`,
  ];
  for (const line of lines) say(line);
}
