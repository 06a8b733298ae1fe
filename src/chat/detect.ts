import { ConfigError } from '../errors.ts';
import { deepseek, deepseekV4 } from './formats/deepseek.ts';
import { gemma4 } from './formats/gemma4.ts';
import { glm } from './formats/glm.ts';
import type { ToolFormat } from './formats/grammar.ts';
import { harmony } from './formats/harmony.ts';
import { hermes } from './formats/hermes.ts';
import { kimi } from './formats/kimi.ts';
import { llama3Json } from './formats/llama3.ts';
import { mistral } from './formats/mistral.ts';
import { pythonic } from './formats/pythonic.ts';
import { minimax, qwen3Coder, seed } from './formats/qwen3-coder.ts';
import type { Tokenizer } from './tokenizer.ts';

/** All formats, each with what betrays it in a chat template; the more telling first. */
const TELLTALES: readonly (readonly [ToolFormat, RegExp])[] = [
  [harmony, /<\|channel\|>.*<\|message\|>/s],
  [deepseekV4, /｜DSML｜/],
  [deepseek, /<｜tool▁calls?▁begin｜>/],
  [kimi, /<\|tool_calls_section_begin\|>/],
  [seed, /<seed:tool_call>/],
  [minimax, /<minimax:tool_call>/],
  [gemma4, /<\|tool_call>/],
  [qwen3Coder, /<tool_call>.*<function=/s],
  [glm, /<arg_key>/],
  [mistral, /\[TOOL_CALLS\]/],
  [hermes, /<tool_call>/],
  [pythonic, /<\|python_start\|>|<\|tool_call_start\|>|func_name1\(params_name1=/],
  [llama3Json, /<\|python_tag\|>|"parameters": dictionary|<\|start_header_id\|>/],
];

export const TOOL_FORMATS: readonly ToolFormat[] = TELLTALES.map(([format]) => format);

export function toolFormatNamed(name: string): ToolFormat {
  const plain = name.toLowerCase().replaceAll('-', '_');
  const found = TOOL_FORMATS.find((format) => format.name.replaceAll('-', '_') === (ALIASES[plain] ?? plain));
  if (found) return found;
  const known = [...TOOL_FORMATS.map((format) => format.name), 'chatml'].join(', ');
  throw new ConfigError(
    `no tool-call format "${name}"; known: ${known}. A format of your own is one function: toolFormat(fn)`,
  );
}

/** Names that verl, SGLang and vLLM use. */
const ALIASES: Readonly<Record<string, string>> = {
  qwen: 'hermes',
  qwen25: 'hermes',
  qwen3: 'hermes',
  qwen3_xml: 'qwen3_coder',
  llama3: 'llama3_json',
  llama4_pythonic: 'pythonic',
  deepseek_v3: 'deepseek',
  deepseekv3: 'deepseek',
  deepseek_v32: 'deepseek_v4',
  glm45: 'glm',
  glm4: 'glm',
  harmony: 'gpt_oss',
  openai: 'gpt_oss',
  kimi_k2: 'kimi',
  minimax_m2: 'minimax',
  seed_oss: 'seed',
};

/** The format a chat template writes calls in; `hermes`, the most common, where it says nothing. */
export function detectToolFormat(template: string): ToolFormat {
  const [format] = TELLTALES.find(([, telltale]) => telltale.test(template)) ?? [];
  return format ?? hermes;
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
