import { statSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { loadChatFormat } from '../chat/model-files.ts';
import { type ConvertOptions, convertGguf } from '../engine/gguf/convert.ts';
import type { ModelConfig } from '../engine/model/config.ts';
import { createModel, MODEL_SIZES, type ModelSize } from '../engine/model/create.ts';
import { inspectModel } from '../engine/model/inspect.ts';
import { mergeAdapter } from '../engine/training/merge-adapter.ts';
import { ConfigError } from '../errors.ts';
import { mendTokens } from '../run/untrained-tokens.ts';
import { whole } from './number.ts';

interface NewOptions {
  readonly size: string;
  readonly tokenizer: string;
  readonly family: string;
  readonly seed: number;
}

type Overrides = { readonly [name in keyof typeof OVERRIDES]?: number };

/** Shape overrides, by option name. */
const OVERRIDES = {
  hidden: 'width of the states',
  layers: 'number of layers',
  heads: 'query heads',
  kvHeads: 'key and value heads',
  headSize: 'width of a head',
  intermediate: 'width of the SwiGLU layer',
  contextTokens: 'longest sequence',
  ropeBase: 'base of the rotary positions',
} as const;

export function registerModel(program: Command): void {
  const model = program.command('model').description('makes and describes model folders');
  const create = model
    .command('new <directory>')
    .description('writes a model with random weights')
    .requiredOption('--size <size>', `one of ${Object.keys(MODEL_SIZES).join(', ')}`)
    .requiredOption('--tokenizer <path>', 'a tokenizer.json or the folder it is in')
    .option('--family <family>', 'llama, qwen2 or qwen3', 'llama')
    .option('--seed <n>', 'of the random weights', whole(0), 0);
  for (const [name, what] of Object.entries(OVERRIDES)) create.option(`--${kebab(name)} <n>`, what, whole(1));
  create.action((directory: string, options: NewOptions & Overrides) => newModel(directory, options));
  model
    .command('info <directory>')
    .description('describes a model folder')
    .option('--json', 'as JSON')
    .action((directory: string, options: { json?: boolean }) => showModel(directory, options.json === true));
  model
    .command('mend <directory> <out>')
    .description(
      'copies a model and gives call tokens that were never trained the mean row of their spelling',
    )
    .action(mendModel);
  model
    .command('merge <adapter> <out>')
    .description('writes a model with the product of a low-rank adapter added')
    .option('--model <directory>', 'the model of the adapter (default: the one it names)')
    .action(async (adapter: string, out: string, options: { model?: string }) => {
      await mergeAdapter(adapter, out, options.model);
      showModel(out, false);
    });
  model
    .command('convert <file> <directory>')
    .description('writes the model of a GGUF file as a folder of safetensors with its tokenizer')
    .addOption(
      new Option('--precision <precision>', 'of the weights')
        .choices(['float32', 'bfloat16'])
        .default('float32'),
    )
    .option('--tokenizer <dir>', "the folder of the model's own tokenizer (default: the one in the file)")
    .action((file: string, directory: string, options: ConvertOptions) => {
      convertGguf(file, directory, options);
      showModel(directory, false);
    });
}

async function mendModel(directory: string, out: string): Promise<void> {
  const mended = mendTokens(directory, out, await loadChatFormat(directory));
  for (const { text, id, spelling } of mended) {
    console.log(`${text} (${id}): the mean of its ${spelling.length} tokens`);
  }
  console.log(
    mended.length === 0
      ? `every call token of ${directory} was trained; ${out} is a plain copy`
      : `wrote ${out}; warm-start it with rollcall sft before training by reward`,
  );
}

function newModel(directory: string, options: NewOptions & Overrides): void {
  const families = ['llama', 'qwen2', 'qwen3'] as const;
  const family = families.find((name) => name === options.family);
  if (!family) throw new ConfigError(`--family ${options.family}: ${families.join(', ')} are known`);
  const overrides = Object.fromEntries(
    (Object.keys(OVERRIDES) as (keyof Overrides)[])
      .filter((name) => options[name] !== undefined)
      .map((name) => [name, options[name]]),
  ) as Partial<ModelConfig>;
  createModel({
    directory,
    size: options.size as ModelSize,
    tokenizer: options.tokenizer,
    family,
    seed: options.seed,
    overrides,
  });
  showModel(directory, false);
}

function showModel(directory: string, asJson: boolean): void {
  if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) {
    throw new ConfigError(`${directory}: no such folder`);
  }
  const facts = inspectModel(directory);
  if (asJson) console.log(JSON.stringify(facts));
  else for (const [name, value] of Object.entries(facts)) console.log(`${name.padEnd(20)} ${value}`);
}

const kebab = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
