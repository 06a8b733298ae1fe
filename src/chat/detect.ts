import { ConfigError } from '../errors.ts';
import type { ToolFormat } from './formats/grammar.ts';
import { hermes } from './formats/hermes.ts';
import type { Tokenizer } from './tokenizer.ts';

const FORMATS: readonly ToolFormat[] = [hermes];

export function toolFormatNamed(name: string): ToolFormat {
  const plain = name.toLowerCase().replaceAll('-', '_');
  const found = FORMATS.find((format) => format.name.replaceAll('-', '_') === (ALIASES[plain] ?? plain));
  if (found) return found;
  const known = [...FORMATS.map((format) => format.name), 'chatml'].join(', ');
  throw new ConfigError(
    `no tool-call format "${name}"; known: ${known}. A format of your own is one function: toolFormat(fn)`,
  );
}

/** Names that verl, SGLang and vLLM use. */
const ALIASES: Readonly<Record<string, string>> = {
  qwen: 'hermes',
  qwen25: 'hermes',
  qwen3: 'hermes',
};

/** The format a chat template writes calls in; `hermes`, the most common, where it says nothing. */
export function detectToolFormat(_template: string, _tokenizer: Tokenizer): ToolFormat {
  return hermes;
}

/** For reports: whose marks the template writes. */
export function detectFamily(template: string, tokenizer: Tokenizer): string {
  const writes = (mark: string) => template.includes(mark) || tokenizer.specialTokens.eos_token === mark;
  const [, family] = FAMILY_MARKS.find(([mark]) => writes(mark)) ?? [];
  return family ?? 'generic';
}

const FAMILY_MARKS: readonly (readonly [mark: string, family: string])[] = [
  ['<|channel|>', 'gpt-oss'],
  ['<|im_end|>', 'chatml'],
  ['<|eot_id|>', 'llama3'],
  ['<|eot|>', 'llama4'],
  ['<end_of_turn>', 'gemma'],
  ['[/INST]', 'mistral'],
  ['<｜Assistant｜>', 'deepseek'],
  ['<|observation|>', 'glm'],
];
