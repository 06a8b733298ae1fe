import { ConfigError } from '../errors.ts';
import { apertus } from './formats/apertus.ts';
import { olmo3, smollm3 } from './formats/call-lines.ts';
import { apriel, hunyuan, jamba } from './formats/call-list.ts';
import { cohere } from './formats/cohere.ts';
import { deepseek, deepseekV4 } from './formats/deepseek.ts';
import { ernie } from './formats/ernie.ts';
import { functionary31, functionary32 } from './formats/functionary.ts';
import { functionGemma, gemma4 } from './formats/gemma4.ts';
import { gigachat } from './formats/gigachat.ts';
import { glm, hunyuan3, poolside } from './formats/glm.ts';
import { THINK, type ToolFormat } from './formats/grammar.ts';
import { granite, granite20b } from './formats/granite.ts';
import { harmony } from './formats/harmony.ts';
import { hermes } from './formats/hermes.ts';
import { internlm } from './formats/internlm.ts';
import { kimi } from './formats/kimi.ts';
import { kimiK3 } from './formats/kimi-k3.ts';
import { llama3Json } from './formats/llama3.ts';
import { longcat } from './formats/longcat.ts';
import { minicpm5 } from './formats/minicpm.ts';
import { dots, minimax } from './formats/minimax.ts';
import { minimaxM3 } from './formats/minimax-m3.ts';
import { mistral } from './formats/mistral.ts';
import { nemotron } from './formats/nemotron.ts';
import { phi4Mini } from './formats/phi.ts';
import { pythonic } from './formats/pythonic.ts';
import { qwen3Coder, seed } from './formats/qwen3-coder.ts';
import { solar } from './formats/solar.ts';
import { step3 } from './formats/step3.ts';
import { textCall } from './formats/text-call.ts';
import { xlam } from './formats/xlam.ts';
import type { Tokenizer } from './tokenizer.ts';

/** Formats with what betrays each in a chat template; the more telling first. */
const TELLTALES: readonly (readonly [ToolFormat, RegExp])[] = [
  [solar, /<\|tool_call:begin\|>/],
  [kimiK3, /<\|open\|>|open_tag\('call'/],
  [harmony, /<\|channel\|>.*<\|message\|>/s],
  [deepseekV4, /｜DSML｜/],
  [deepseek, /<｜tool▁calls?▁begin｜>/],
  [step3, /<｜tool_calls?_begin｜>|steptml:/],
  [kimi, /<\|tool_calls_section_begin\|>/],
  [seed, /<seed:tool_call>/],
  [minimaxM3, /\]<\]minimax\[>\[/],
  [minimax, /<minimax:tool_call>/],
  [dots, /<dots_function_call>/],
  [gemma4, /<\|tool_call>/],
  [functionGemma, /<start_function_call>/],
  [longcat, /<longcat_tool_call>/],
  [cohere, /<\|START_ACTION\|>|Action:(?:\\n|\s)*```json/],
  [apertus, /<\|tools_prefix\|>/],
  [gigachat, /<\|role_sep\|>|<\|function_call\|>/],
  [internlm, /<\|plugin\|>/],
  [nemotron, /<TOOLCALL>/],
  [minicpm5, /<function name=/],
  [functionary32, />>>all/],
  [hunyuan3, /<tool_sep|tool_sep/],
  [apriel, /\[BEGIN FINAL RESPONSE\]|<tool_calls>.*<thinking>/s],
  [hunyuan, /<tool_calls>.*<answer>/s],
  [jamba, /<tool_calls>/],
  [qwen3Coder, /<tool_call>.*<function=/s],
  [functionary31, /<function=/],
  [poolside, /<arg_key>.*unescaped XML-like|unescaped XML-like.*<arg_key>/s],
  [glm, /<arg_key>/],
  [mistral, /\[TOOL_CALLS\]/],
  [ernie, /<tool_call>.*<response>|<response>.*<tool_call>/s],
  [smollm3, /<tool_call>.*<code>|<code>.*<tool_call>/s],
  [hermes, /<tool_call>/],
  [granite20b, /<function_call>/],
  [olmo3, /<function_calls>/],
  [phi4Mini, /functools\[|<\|\/tool_call\|>/],
  [granite, /<\|tool_call\|>/],
  [
    pythonic,
    /<\|python_start\|>|<\|tool_call_start\|>|<\|tool_list_start\|>|List of tools: \[|func_name1\(params_name1=/,
  ],
  [xlam, /"tool_calls": \[|\[\{"name": "func_name1"/],
  [llama3Json, /<\|python_tag\|>|"parameters": dictionary|<\|start_header_id\|>/],
];

export const TOOL_FORMATS: readonly ToolFormat[] = [...TELLTALES.map(([format]) => format), textCall];

export function toolFormatNamed(name: string): ToolFormat {
  const plain = name.toLowerCase().replaceAll('-', '_');
  const found = TOOL_FORMATS.find((format) => format.name.replaceAll('-', '_') === (ALIASES[plain] ?? plain));
  if (found) return found;
  const known = TOOL_FORMATS.map((format) => format.name).join(', ');
  throw new ConfigError(
    `no tool-call format "${name}"; known: ${known}. A custom format is one function: toolFormat(fn)`,
  );
}

/** Names that verl, SGLang and vLLM use. */
const ALIASES: Readonly<Record<string, string>> = {
  chatml: 'hermes', // where a model is at hand, chatml means its own format
  qwen: 'hermes',
  qwen25: 'hermes',
  qwen3: 'hermes',
  granite4: 'hermes',
  trinity: 'hermes',
  qwen3_xml: 'qwen3_coder',
  mimo: 'qwen3_coder',
  nemotron_v3: 'qwen3_coder',
  step3p5: 'qwen3_coder',
  llama3: 'llama3_json',
  llama4_json: 'llama3_json',
  llama4_pythonic: 'pythonic',
  lfm2: 'pythonic',
  deepseek_v3: 'deepseek',
  deepseek_v31: 'deepseek',
  deepseekv3: 'deepseek',
  deepseekv31: 'deepseek',
  deepseek_v32: 'deepseek_v4',
  deepseekv32: 'deepseek_v4',
  deepseekv4: 'deepseek_v4',
  glm45: 'glm',
  glm47: 'glm',
  glm4: 'glm',
  ling3: 'glm',
  harmony: 'gpt_oss',
  openai: 'gpt_oss',
  kimi_k2: 'kimi',
  minimax_m2: 'minimax',
  seed_oss: 'seed',
  apertus2509: 'apertus',
  cohere_command3: 'cohere',
  cohere_command4: 'cohere',
  interns1: 'internlm',
  internlm2: 'internlm',
  hunyuan: 'hy_v3',
  phi4_mini: 'phi4_mini_json',
  nemotron_nano_2: 'nemotron',
};

/** The format a chat template writes calls in; undefined where none of ours is betrayed by it. */
export function detectToolFormat(template: string): ToolFormat | undefined {
  return TELLTALES.find(([, telltale]) => telltale.test(template))?.[0];
}

/** Reads no calls: stands in where a template does not betray its format. */
export const UNKNOWN_FORMAT: ToolFormat = { name: 'unknown', blocks: [THINK] };

/** Formats that share most of their marks, or parts of them, with a template that none of ours fits. */
export function nearestFormats(template: string): string[] {
  const written = new Set(markWords(template));
  return TELLTALES.map(([{ name, blocks, ignored = [] }]) => {
    const marks = new Set(
      [...blocks.flatMap(({ open, close }) => [open, ...close]), ...ignored].flatMap(markWords),
    );
    const shared = [...marks].filter((word) => written.has(word) && word !== 'think').length;
    return { name, share: shared / Math.sqrt(marks.size || 1) };
  })
    .sort((a, b) => b.share - a.share)
    .slice(0, 3)
    .filter(({ share }, at) => share > 0 || at === 0)
    .map(({ name }) => name);
}

/** `tool` and `call` of `<tool_call>`. */
function markWords(text: string): string[] {
  return [...text.matchAll(/[<[][^\s<>[\]]{2,40}[>\]]/g)].flatMap(
    ([mark]) => mark.match(/[A-Za-z]{3,}/g) ?? [],
  );
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
