import { extname } from 'node:path';
import type { Command } from 'commander';
import type { Dataset } from '../dataset/dataset.ts';
import { expandHome, openDataset } from '../dataset/open.ts';
import { ConfigError } from '../errors.ts';
import { realClock } from '../lib/clock.ts';
import { assembleTrainer } from '../options/trainers.ts';
import { type DemonstrationRow, type SftOptions, sft } from '../sft.ts';
import { taskRow } from '../verl/task-row.ts';
import { isRunFile, resolveWords, splitWords } from './given-run.ts';
import { number, whole } from './number.ts';
import { createDisplay } from './progress.ts';
import { loadRunFile } from './run-file.ts';
import { notEmpty } from './text.ts';

interface SftFlags {
  readonly model?: string;
  readonly run?: string;
  readonly steps?: number;
  readonly perStep?: number;
  readonly learningRate?: number;
  readonly seed?: number;
  readonly resume?: boolean;
}

export function registerSft(program: Command): void {
  program
    .command('sft')
    .description('warm-start a model on demonstrations: cross-entropy on the replies')
    .argument(
      '<words...>',
      'demonstrations (JSONL, CSV or parquet; rows have `messages` and may have `tools`), a run file or YAML, overrides',
    )
    .option('--model <dir>', "model to start from; else the run's")
    .option('--run <dir>', 'run directory; the trained model lies in its checkpoints/', notEmpty)
    .option('--steps <n>', 'updates (100)', whole(1))
    .option('--per-step <n>', 'demonstrations per update (32)', whole(1))
    .option('--learning-rate <x>', 'peak (1e-5); falls linearly to 0', number(0))
    .option('--seed <n>', 'order of the demonstrations (1)', whole(0))
    .option('--resume', 'continue from the latest checkpoint')
    .addHelpText(
      'after',
      '\nExamples:\n  rollcall sft demonstrations.jsonl --model MODEL --run runs/warm\n  rollcall sft demonstrations.jsonl sft.yaml optimizer.learningRate=2e-5',
    )
    .action(async (words: string[], flags: SftFlags) => {
      const display = createDisplay({ stream: process.stderr, now: realClock().now });
      let model: string | undefined;
      for await (const report of sft({ ...(await optionsOf(words, flags)), onProgress: display.progress })) {
        const loss = report.metrics['train/loss'] ?? Number.NaN;
        report.notices.forEach(display.say);
        display.say(`step ${report.step}/${report.steps}  loss ${loss.toFixed(4)}`);
        model = report.model ?? model;
      }
      display.done();
      console.error(`The model is in ${model}`);
    });
}

const isData = (word: string) => /\.(jsonl|json|csv|parquet)$/.test(word) && !word.includes('=');

/** Flags go before what a file or overrides say. */
async function optionsOf(words: readonly string[], flags: SftFlags): Promise<SftOptions> {
  const given = await givenBy(words.filter((word) => !isData(word)));
  const files = words.filter(isData);
  const model = flags.model ?? given.model;
  const runDir = flags.run ?? given.runDir;
  if (model === undefined) throw new ConfigError('which model? Give --model DIR, or a run that names one');
  if (runDir === undefined) throw new ConfigError('which run directory? Give --run DIR, or runDir=DIR');
  const from = files.length > 0 ? files : (given.files ?? []);
  if (from.length === 0) throw new ConfigError('no demonstrations; give a JSONL, CSV or parquet file');
  return {
    ...given.options,
    model: expandHome(model),
    runDir,
    demonstrations: await demonstrationsIn(from),
    steps: flags.steps ?? given.options.steps ?? 100,
    ...defined(flags.perStep, 'demonstrationsPerStep'),
    optimizer: { ...given.options.optimizer, ...defined(flags.learningRate, 'learningRate') },
    ...defined(flags.seed, 'seed'),
    resume: flags.resume ?? false,
  };
}

function defined<K extends string, V>(value: V | undefined, name: K): Partial<Record<K, V>> {
  return value === undefined ? {} : ({ [name]: value } as Record<K, V>);
}

interface Given {
  readonly model?: string | undefined;
  readonly runDir?: string | undefined;
  readonly files?: readonly string[];
  readonly options: Partial<SftOptions>;
}

/** What a run says that is read here too. The rest is named, so that nobody takes it for heeded. */
const OPTIMIZER = [
  'learningRate',
  'schedule',
  'warmupSteps',
  'tokensPerMicroBatch',
  'beta1',
  'beta2',
  'epsilon',
  'weightDecay',
  'clipNorm',
] as const;
const CHECKPOINTS = ['every', 'keep'] as const;
const READ: ReadonlySet<string> = new Set([
  ...['model', 'runDir', 'steps', 'tasksPerStep', 'seed', 'tasks.files'],
  ...OPTIMIZER.map((name) => `optimizer.${name}`),
  ...CHECKPOINTS.map((name) => `checkpoints.${name}`),
]);
const isRead = (path: string) => READ.has(path) || path.startsWith('trainer.');

async function givenBy(words: readonly string[]): Promise<Given> {
  if (words.length === 0) return { options: {} };
  const split = splitWords(words);
  if (isRunFile(split.file)) {
    const { model, trainer, seed } = await loadRunFile(split.file);
    const { options, ...said } = await givenBy(split.overrides);
    const own = { ...defined(trainer, 'trainer'), ...defined(seed, 'seed') };
    return { model, ...said, options: { ...own, ...options } };
  }
  if (split.file !== undefined && !['.yaml', '.yml', '.sh'].includes(extname(split.file)))
    throw new ConfigError(`${split.file} is neither demonstrations nor a run; see rollcall sft --help`);
  const { options, values, notes, refused } = await resolveWords(split);
  for (const note of notes) console.error(note);
  if (refused.length > 0) throw new ConfigError(refused.join('\n'));
  const unread = Object.keys(values).filter((path) => !isRead(path));
  if (unread.length > 0) console.error(`sft does not read ${unread.join(', ')}`);
  const has = (path: string) => Object.hasOwn(values, path);
  const picked = <G extends object, K extends keyof G & string>(name: string, group: G, keys: readonly K[]) =>
    Object.fromEntries(
      keys.filter((key) => has(`${name}.${key}`)).map((key) => [key, group[key]]),
    ) as Partial<Pick<G, K>>;
  return {
    ...(has('model') && { model: options.model }),
    ...(has('runDir') && options.runDir !== null && { runDir: options.runDir }),
    files: options.tasks.files.map(expandHome),
    options: {
      ...(has('steps') && { steps: options.steps }),
      ...(has('tasksPerStep') && { demonstrationsPerStep: options.tasksPerStep }),
      ...(has('seed') && { seed: options.seed }),
      optimizer: picked('optimizer', options.optimizer, OPTIMIZER),
      checkpoints: picked('checkpoints', options.checkpoints, CHECKPOINTS),
      ...(has('trainer.name') && { trainer: assembleTrainer(options.trainer) }),
    },
  };
}

async function demonstrationsIn(files: readonly string[]): Promise<Dataset<DemonstrationRow>> {
  const rows = await openDataset(files);
  return rows.map((row) => ({
    messages: taskRow({ messages: row['messages'] }, { promptKey: 'messages' }).prompt,
    ...(Array.isArray(row['tools']) ? { tools: row['tools'] } : {}),
  })) as Dataset<DemonstrationRow>;
}
