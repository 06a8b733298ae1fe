import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../errors.ts';
import { type ChatFormatOptions, createChatFormat } from './chat-format.ts';
import { checkTokenizer } from './check-tokenizer.ts';
import type { ChatFormat } from './format.ts';
import { findModelFolder, type ModelFolderOptions } from './model-folder.ts';
import { createTokenizer, type Tokenizer } from './tokenizer.ts';

/** The files of a model's folder that concern text. The engine reads the weights. */
export interface ModelFiles {
  readonly folder: string;
  readonly tokenizer: Tokenizer;
  /** By name: `default`, and `tool_use` where the model has one for tools. */
  readonly templates: Readonly<Record<string, string>>;
  readonly eosIds: readonly number[];
  readonly config: Readonly<Record<string, unknown>>;
}

/** The tokenizer, templates and configuration of a model, by folder or hub name. */
export async function loadModelFiles(
  nameOrPath: string,
  options: ModelFolderOptions = {},
): Promise<ModelFiles> {
  const folder = await findModelFolder(nameOrPath, options);
  const [tokenizerJson, tokenizerConfig, config, generation, templateFile] = await Promise.all([
    readJson(folder, 'tokenizer.json'),
    readJson(folder, 'tokenizer_config.json'),
    readJson(folder, 'config.json'),
    readJson(folder, 'generation_config.json'),
    readText(folder, 'chat_template.jinja'),
  ]);
  if (!tokenizerJson) {
    throw new ConfigError(
      `the model folder ${folder} has no tokenizer.json; Python's \`AutoTokenizer.from_pretrained(…)` +
        '.save_pretrained(…)` writes one from a tokenizer.model',
    );
  }
  checkTokenizer(tokenizerJson, join(folder, 'tokenizer.json'));
  return {
    folder,
    tokenizer: createTokenizer(tokenizerJson, tokenizerConfig),
    templates: templatesOf(templateFile, tokenizerConfig?.chat_template),
    eosIds: [generation?.eos_token_id ?? config?.eos_token_id ?? []]
      .flat()
      .filter(Number.isInteger) as number[],
    config: config ?? {},
  };
}

/** A chat format for a model by folder or hub name; `template` replaces the model's own. */
export async function loadChatFormat(
  nameOrPath: string,
  options: Omit<ChatFormatOptions, 'tokenizer' | 'template'> & {
    readonly template?: string;
  } & ModelFolderOptions = {},
): Promise<ChatFormat> {
  const { folder, tokenizer, templates, eosIds } = await loadModelFiles(nameOrPath, options);
  const template = options.template ?? templates.tool_use ?? templates.default ?? Object.values(templates)[0];
  if (template === undefined) {
    throw new ConfigError(
      `the model ${folder} has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json): ` +
        'a base model? Give one with the option `template`',
    );
  }
  return createChatFormat({ eosIds, ...options, tokenizer, template });
}

/** A separate file is preferred over the configuration, which holds one template or a list of named ones. */
function templatesOf(file: string | undefined, inConfig: unknown): Record<string, string> {
  if (file !== undefined) return { default: file };
  if (typeof inConfig === 'string') return { default: inConfig };
  if (!Array.isArray(inConfig)) return {};
  return Object.fromEntries(
    inConfig.flatMap((entry: { name?: unknown; template?: unknown }) =>
      typeof entry?.name === 'string' && typeof entry.template === 'string'
        ? [[entry.name, entry.template]]
        : [],
    ),
  );
}

async function readText(folder: string, name: string): Promise<string | undefined> {
  try {
    return await readFile(join(folder, name), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

async function readJson(folder: string, name: string): Promise<Record<string, unknown> | undefined> {
  const text = await readText(folder, name);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new ConfigError(`${join(folder, name)} is not valid JSON: ${(error as Error).message}`);
  }
}
