/**
 * Runs a recipe at toy size by the commands of its page. Only where the model and the data are, how much of them is used
 * and which engine computes may differ from the recipe's file.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeParquet } from 'rollcall/datasets';
import { encodePng } from 'rollcall/services';
import { answerQuestion, openQuestions } from 'rollcall/users';
import { main } from '../src/cli/main.ts';
import { parseOverrides } from '../src/options/overrides.ts';
import { listSteps, readStepIndex } from '../src/watch/trajectory-store.ts';
import { tinySeeingModel } from './tiny-model.ts';
import { mlflowStandIn } from './trackers-stand-ins.ts';

const FOLDER = 'recipes';
const QUESTIONS = 'runs/human-in-the-loop/questions';

/** Recipes with a run.yaml, by name. */
export const RECIPES: readonly string[] = readdirSync(FOLDER, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && readdirSync(join(FOLDER, entry.name)).includes('run.yaml'))
  .map(({ name }) => name);

/** The keys that a toy run may change. */
const MAY_CHANGE: ReadonlySet<string> = new Set([
  // where things are
  'actor_rollout_ref.model.path',
  'data.train_files',
  'data.val_files',
  'trainer.default_local_dir',
  // how much of them
  'data.train_batch_size',
  'actor_rollout_ref.actor.ppo_mini_batch_size',
  'actor_rollout_ref.rollout.n',
  'data.max_prompt_length',
  'data.max_response_length',
  'reward_model.overlong_buffer.len',
  'trainer.total_training_steps',
  // which engine
  'servers.engine',
  'servers.mode',
  'trainer.name',
  'trainer.options',
]);

/** The commands of a page: the lines of its shell blocks that begin with `rollcall`. */
export function commandsOf(recipe: string): string[][] {
  const page = readFileSync(join(FOLDER, recipe, 'README.md'), 'utf8');
  const blocks = [...page.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block]) => block!);
  return blocks
    .flatMap((block) => block.split('\n'))
    .filter((line) => line.startsWith('rollcall '))
    .map((line) => line.split(/\s+/).slice(1).map(unquoted));
}

const unquoted = (word: string) => word.replace(/^'(.*)'$/, '$1');

/** A folder with every original dataset, six rows each. */
export async function toyData(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-recipes-'));
  const write = (name: string, row: (n: number) => object) => {
    mkdirSync(join(folder, name, '..'), { recursive: true });
    writeFileSync(join(folder, name), [1, 2, 3, 4, 11, 12].map((n) => JSON.stringify(row(n))).join('\n'));
  };
  for (const split of ['train', 'test']) {
    write(`gsm8k/${split}.jsonl`, (n) => ({
      question: `What is ${n} plus ${n}?`,
      answer: `#### ${2 * n}`,
    }));
    write(`search-r1/${split}.jsonl`, (n) => ({ question: `Who is ${n}?`, golden_answers: ['Arto'] }));
    // As on the hub: the picture in a struct, `<image>` where it stands.
    const problems = [1, 2, 3].map((n) => ({
      images: [{ bytes: rightTriangle(n), path: `${n}.png` }],
      problem: `<image>The legs are ${3 * n} and ${4 * n}. Find the longest side.`,
      answer: String(5 * n),
    }));
    await writeParquet(join(folder, 'geo3k', `${split}-00000-of-00001.parquet`), problems);
  }
  write('problems.jsonl', (n) => ({ question: `What is ${n} plus ${n}?`, answer: String(2 * n) }));
  write('code/mbtsp_toy.jsonl', (n) => ({
    task_id: `MBTSP/${n}`,
    prompt: `const add${n} = function (x: number): number {`,
    test: `import * as assert from 'assert'\nassert.deepEqual(add${n}(1), ${n + 1});`,
    entry_point: `add${n}`,
    description: `Adds ${n}.`,
  }));
  return folder;
}

/** Black on white; its legs are 12 n and 9 n pixels long. */
function rightTriangle(n: number): Uint8Array {
  const [width, height] = [60, 48];
  const rgb = new Uint8Array(3 * width * height).fill(255);
  const dot = (x: number, y: number) => rgb.fill(0, 3 * (y * width + x), 3 * (y * width + x) + 3);
  for (let step = 0; step <= 12 * n; step++) {
    const up = Math.round((step * 9) / 12);
    dot(4 + step, 44);
    dot(4, 44 - up);
    dot(4 + 12 * n - step, 44 - up);
  }
  return encodePng({ width, height, rgb });
}

/** Runs the commands of a recipe's page; throws with what was printed where one fails. */
export async function runRecipe(
  recipe: string,
  { model, data }: { model: string; data: string },
): Promise<void> {
  const run = mkdtempSync(join(tmpdir(), `rollcall-${recipe}-`));
  const own = recipe === 'geo3k' ? await tinySeeingModel() : model;
  const standIn = recipe === 'gsm8k-mlflow' ? await mlflowStandIn() : undefined;
  if (standIn) process.env['MLFLOW_TRACKING_URI'] = standIn.url;
  const person = recipe === 'human-in-the-loop' ? answering() : undefined;
  try {
    for (const [command = '', ...words] of commandsOf(recipe)) {
      const toy = toyWords(command, words, { recipe, model: own, data, run });
      if (toy) await rollcall(recipe, toy, run);
    }
  } finally {
    delete process.env['MLFLOW_TRACKING_URI'];
    await person?.stop();
    await standIn?.close();
  }
}

interface Toy {
  readonly recipe: string;
  readonly model: string;
  readonly data: string;
  readonly run: string;
}

/** The command with toy sizes; undefined for one that only looks at something or talks to a server. */
function toyWords(command: string, words: readonly string[], toy: Toy): string[] | undefined {
  const { recipe, model, data, run } = toy;
  const prepared = join(run, 'data');
  if (command === 'data') return toyDataWords(words, data, prepared);
  if (command === 'sft') {
    return [
      command,
      ...words,
      '--model',
      model,
      '--run',
      join(run, 'sft'),
      '--steps',
      '2',
      '--per-step',
      '2',
    ];
  }
  if (command !== 'train' && command !== 'preview') return undefined;
  const isPrepared = commandsOf(recipe).some(([name]) => name === 'data');
  const files = isPrepared ? [`data.train_files=${join(prepared, 'train.parquet')}`] : [];
  const tests =
    isPrepared && recipe !== 'dapo-multiturn' && recipe !== 'agent-loop-get-started' ? 'test' : 'train';
  const overrides = [
    `actor_rollout_ref.model.path=${model}`,
    ...files,
    ...(isPrepared ? [`data.val_files=${join(prepared, `${tests}.parquet`)}`] : []),
    `trainer.default_local_dir=${join(run, 'run')}`,
    'data.train_batch_size=2',
    'actor_rollout_ref.actor.ppo_mini_batch_size=2',
    'actor_rollout_ref.rollout.n=2',
    'data.max_prompt_length=8192',
    'data.max_response_length=40',
    ...(recipe === 'dapo-multiturn' ? ['reward_model.overlong_buffer.len=8'] : []),
    'trainer.total_training_steps=2',
    'servers.engine=embedded',
    'servers.mode=standalone',
    'trainer.name=embedded',
    'trainer.options={threads: 1}',
  ];
  checkToy(overrides);
  return [command, ...words.filter((word) => !word.startsWith('servers.urls')), ...overrides];
}

/** Throws for an override of a toy run that would change what the recipe shows. */
export function checkToy(overrides: readonly string[]): void {
  const wrong = parseOverrides(overrides).filter(({ key }) => !MAY_CHANGE.has(key));
  if (wrong.length > 0)
    throw new Error(
      `a toy run may not change ${wrong.map(({ key }) => key).join(', ')}: that is the recipe's own`,
    );
}

function toyDataWords(words: readonly string[], data: string, prepared: string): string[] | undefined {
  const [kind] = words;
  if (kind === 'show') return undefined;
  const kept = words.flatMap((word, at) =>
    word === '--local_save_dir' || words[at - 1] === '--local_save_dir' ? [] : [word],
  );
  const save = ['--local_save_dir', prepared];
  if (kind === 'jsonl')
    return ['data', ...kept.map((word) => (word === 'problems.jsonl' ? join(data, word) : word)), ...save];
  return ['data', ...kept, '--local_dataset_path', join(data, kind!), ...save];
}

/** In this process; what it prints is kept for the error. */
async function rollcall(recipe: string, words: readonly string[], run: string): Promise<void> {
  const printed: string[] = [];
  const { log, error } = console;
  const write = process.stderr.write.bind(process.stderr);
  console.log = console.error = (...given: unknown[]) => void printed.push(given.join(' '));
  process.stderr.write = (text: string | Uint8Array) => Boolean(printed.push(String(text)));
  try {
    await main(words);
  } finally {
    Object.assign(console, { log, error });
    process.stderr.write = write;
  }
  const failed = process.exitCode;
  process.exitCode = 0;
  const isTrained =
    words[0] !== 'train' ||
    (printed.some((line) => line.includes('step 2/2')) && (await hasReplies(join(run, 'run'))));
  if (failed || !isTrained)
    throw new Error(`${recipe}: rollcall ${words.join(' ')}\n${printed.slice(-25).join('\n')}`);
}

/**
 * Whether the model spoke in every attempt: where a prompt does not fit, attempts end before their first token. Dynamic
 * sampling keeps no attempt of a group without spread, so a step may have none.
 */
async function hasReplies(run: string): Promise<boolean> {
  const steps = await Promise.all((await listSteps(run)).map((step) => readStepIndex(run, step)));
  return steps.every(({ trajectories }) => trajectories.every(({ turns }) => turns > 0));
}

/** A program in the place of a person. */
function answering(): { stop(): Promise<void> } {
  let isStopped = false;
  const work = (async () => {
    while (!isStopped) {
      for (const [at, { key }] of (await openQuestions(QUESTIONS)).entries())
        await answerQuestion(QUESTIONS, key, { text: '', done: true, rating: at % 2 });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  })();
  return {
    stop: async () => {
      isStopped = true;
      await work;
    },
  };
}
