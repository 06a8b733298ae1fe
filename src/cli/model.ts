import { statSync } from 'node:fs';
import type { Command } from 'commander';
import type { ModelConfig } from '../engine/model/config.ts';
import { createModel, MODEL_SIZES, type ModelSize } from '../engine/model/create.ts';
import { inspectModel } from '../engine/model/inspect.ts';
import { ConfigError } from '../errors.ts';

interface NewOptions {
  readonly size: string;
  readonly tokenizer: string;
  readonly family: string;
  readonly seed: string;
  readonly [override: string]: string | undefined;
}

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
    .option('--seed <number>', 'of the random weights', '0');
  for (const [name, what] of Object.entries(OVERRIDES)) create.option(`--${kebab(name)} <number>`, what);
  create.action((directory: string, options: NewOptions) => newModel(directory, options));
  model
    .command('info <directory>')
    .description('describes a model folder')
    .option('--json', 'as JSON')
    .action((directory: string, options: { json?: boolean }) => showModel(directory, options.json === true));
}

function newModel(directory: string, options: NewOptions): void {
  const families = ['llama', 'qwen2', 'qwen3'] as const;
  const family = families.find((name) => name === options.family);
  if (!family) throw new ConfigError(`--family ${options.family}: ${families.join(', ')} are known`);
  const overrides = Object.fromEntries(
    Object.keys(OVERRIDES)
      .filter((name) => options[name] !== undefined)
      .map((name) => [name, count(`--${kebab(name)}`, options[name]!)]),
  ) as Partial<ModelConfig>;
  const seed = count('--seed', options.seed, 0);
  createModel({
    directory,
    size: options.size as ModelSize,
    tokenizer: options.tokenizer,
    family,
    seed,
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

function count(name: string, text: string, least = 1): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new ConfigError(`${name} ${text}: an integer of at least ${least} is needed`);
}

const kebab = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
