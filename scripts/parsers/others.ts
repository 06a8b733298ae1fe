import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { toolFormatNamed } from '../../src/chat/detect.ts';
import { type Call, FAMILIES, type Family, schemaFor } from '../../test/tool-call-families.ts';
import { CACHE, run } from '../templates/python.ts';
import { readWith } from './replies.ts';

/** The same replies read by our parsers and by SGLang's and vLLM's own. */

export const RELEASES = { sglang: '0.5.23', vllm: '0.32.0' } as const;

type Engine = keyof typeof RELEASES;

/** Formats with the file and the class that reads them in the engines. */
const PARSERS: Readonly<Record<string, Partial<Record<Engine, readonly string[]>>>> = {
  hermes: {
    sglang: ['qwen25_detector:Qwen25Detector', 'hermes_detector:HermesDetector'],
    vllm: ['hermes_tool_parser:Hermes2ProToolParser', 'granite4_tool_parser:Granite4ToolParser'],
  },
  qwen3_coder: {
    sglang: ['qwen3_coder_detector:Qwen3CoderDetector', 'mimo_detector:MiMoDetector'],
    vllm: ['qwen3_engine_tool_parser:Qwen3EngineToolParser', 'step3p5_tool_parser:Step3p5ToolParser'],
  },
  llama3_json: {
    sglang: ['llama32_detector:Llama32Detector'],
    vllm: ['llama_tool_parser:Llama3JsonToolParser'],
  },
  pythonic: {
    sglang: ['pythonic_detector:PythonicDetector'],
    vllm: ['pythonic_tool_parser:PythonicToolParser', 'llama4_pythonic_tool_parser:Llama4PythonicToolParser'],
  },
  mistral: { sglang: ['mistral_detector:MistralDetector'], vllm: ['mistral_tool_parser:MistralToolParser'] },
  deepseek: {
    sglang: ['deepseekv31_detector:DeepSeekV31Detector'],
    vllm: ['deepseekv31_tool_parser:DeepSeekV31ToolParser'],
  },
  deepseek_v4: {
    sglang: ['deepseekv4_detector:DeepSeekV4Detector', 'deepseekv32_detector:DeepSeekV32Detector'],
    vllm: [
      'deepseekv4_engine_tool_parser:DeepSeekV4EngineToolParser',
      'deepseekv32_engine_tool_parser:DeepSeekV32EngineToolParser',
    ],
  },
  glm: {
    sglang: ['glm4_moe_detector:Glm4MoeDetector', 'glm47_moe_detector:Glm47MoeDetector'],
    vllm: ['glm47_moe_tool_parser:Glm47MoeModelToolParser'],
  },
  'gpt-oss': { sglang: ['gpt_oss_detector:GptOssDetector'] },
  kimi: { sglang: ['kimik2_detector:KimiK2Detector'], vllm: ['kimi_k2_tool_parser:KimiK2ToolParser'] },
  kimi_k3: { sglang: ['kimik3_detector:KimiK3Detector'], vllm: ['kimi_k3_tool_parser:KimiK3ToolParser'] },
  minimax: { sglang: ['minimax_m2:MinimaxM2Detector'], vllm: ['minimax_m2_tool_parser:MinimaxM2ToolParser'] },
  minimax_m3: {
    sglang: ['minimax_m3:MinimaxM3Detector'],
    vllm: ['minimax_m3_tool_parser:MinimaxM3ToolParser'],
  },
  seed: { vllm: ['seed_oss_engine_tool_parser:SeedOssEngineToolParser'] },
  gemma4: {
    sglang: ['gemma4_detector:Gemma4Detector'],
    vllm: ['gemma4_engine_tool_parser:Gemma4EngineToolParser'],
  },
  longcat: { vllm: ['longcat_tool_parser:LongcatFlashToolParser'] },
  ernie45: { vllm: ['ernie45_tool_parser:Ernie45ToolParser'] },
  granite: { vllm: ['granite_engine_tool_parser:GraniteEngineToolParser'] },
  granite_20b_fc: { vllm: ['granite_20b_fc_tool_parser:Granite20bFCToolParser'] },
  jamba: { vllm: ['jamba_tool_parser:JambaToolParser'] },
  hunyuan_a13b: { vllm: ['hunyuan_a13b_tool_parser:HunyuanA13BToolParser'] },
  internlm: {
    sglang: ['internlm_detector:InternlmDetector'],
    vllm: ['internlm2_tool_parser:Internlm2ToolParser'],
  },
  gigachat3: {
    sglang: ['gigachat3_detector:GigaChat3Detector'],
    vllm: ['gigachat3_tool_parser:GigaChat3ToolParser'],
  },
  phi4_mini_json: { vllm: ['phi4mini_tool_parser:Phi4MiniJsonToolParser'] },
  xlam: { vllm: ['xlam_tool_parser:xLAMToolParser'] },
  apertus: {
    sglang: ['apertus2509_detector:Apertus2509Detector'],
    vllm: ['apertus_tool_parser:ApertusToolParser'],
  },
  cohere: {
    sglang: ['cohere_command4_detector:CohereCommand4Detector'],
  },
  step3: { sglang: ['step3_detector:Step3Detector'], vllm: ['step3_tool_parser:Step3ToolParser'] },
  dots: { sglang: ['dots_detector:DotsToolDetector'], vllm: ['dots_tool_parser:DotsToolParser'] },
  minicpm5: {
    sglang: ['minicpm5_detector:MiniCPM5Detector'],
    vllm: ['minicpm5xml_tool_parser:MiniCPM5XMLToolParser'],
  },
  functiongemma: { vllm: ['functiongemma_tool_parser:FunctionGemmaToolParser'] },
  poolside_v1: {
    sglang: ['poolside_v1_detector:PoolsideV1Detector'],
    vllm: ['poolside_v1_tool_parser:PoolsideV1ToolParser'],
  },
  hy_v3: { sglang: ['hunyuan_detector:HunyuanDetector'], vllm: ['hy_v3_tool_parser:HYV3ToolParser'] },
  olmo3: { vllm: ['olmo3_tool_parser:Olmo3PythonicToolParser'] },
};

const ADD: Call = { name: 'add', arguments: { a: 1, b: -2.5 } };
const LOOK: Call = {
  name: 'look_up',
  arguments: { word: 'tea', deep: { list: [1, true, { k: 'v' }], none: null } },
};
const SAY: Call = {
  name: 'say',
  arguments: { text: 'río 河 👍', code: 'if (a < b && c > "d") {\n  return \'x\\n\';\n}' },
};
const NOW: Call = { name: 'now', arguments: {} };
const MIX: Call = {
  name: 'mix',
  arguments: { flag: true, off: false, count: 12, name: '12', list: ['a', 'b'], empty: '' },
};
const TOOLS = schemaFor([ADD, LOOK, SAY, NOW, MIX]);

const json = (value: unknown) => JSON.stringify(value);
const python = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`;
  if (value === null || typeof value === 'boolean')
    return { null: 'None', true: 'True', false: 'False' }[String(value)]!;
  if (typeof value !== 'object') return json(value);
  return `{${Object.entries(value)
    .map(([key, item]) => `${json(key)}: ${python(item)}`)
    .join(', ')}}`;
};
const pythonCall = ({ name, arguments: given }: Call) =>
  `${name}(${Object.entries(given)
    .map(([key, value]) => `${key}=${python(value)}`)
    .join(', ')})`;

type Write = Family['write'];

/** Formats whose releases write calls in several ways, in the one that a parser is for. Ours reads all of them. */
const DIALECTS: Readonly<Record<string, (write: Write) => Write>> = {
  HunyuanDetector: (write) => (calls) => write(calls).replaceAll(':opensource', ''),
  HYV3ToolParser: (write) => (calls) => write(calls).replaceAll(':opensource', ''),
  InternlmDetector: (write) => (calls) =>
    write(calls).replaceAll('<|action_start|><|plugin|>', '<|action_start|> <|plugin|>'),
  GigaChat3Detector: (write) => (calls) => write(calls).replaceAll('<|message_sep|>', ''),
  GigaChat3ToolParser: (write) => (calls) => write(calls).replaceAll('<|message_sep|>', ''),
  GptOssDetector: (write) => (calls) =>
    write(calls).replaceAll(
      /(?:<\|start\|>assistant)?<\|channel\|>commentary/g,
      '<|start|>assistant<|channel|>commentary',
    ),
  Glm47MoeDetector: (write) => (calls) => write(calls).replaceAll(/\n(?=<\/?(?:arg_|tool_call))/g, ''),
  MiMoDetector: (write) => (calls) =>
    write(calls).replaceAll(/(<parameter=\w+>)\n|\n(<\/parameter>)/g, '$1$2'),
  DeepSeekV4EngineToolParser: (write) => (calls) => write(calls).replaceAll('function_calls', 'tool_calls'),
  DeepSeekV4Detector: (write) => (calls) => write(calls).replaceAll('function_calls', 'tool_calls'),
  MistralToolParser: () => (calls) =>
    calls.map((call) => `[TOOL_CALLS]${call.name}[ARGS]${json(call.arguments)}`).join(''),
  PythonicDetector: () => (calls) => `[${calls.map(pythonCall).join(', ')}]`,
  PythonicToolParser: () => (calls) => `[${calls.map(pythonCall).join(', ')}]`,
  Llama4PythonicToolParser: () => (calls) => `[${calls.map(pythonCall).join(', ')}]`,
  Olmo3PythonicToolParser: () => (calls) =>
    `<function_calls>\n${calls.map(pythonCall).join('\n')}\n</function_calls>`,
  FunctionGemmaToolParser: () => (calls) =>
    calls
      .map(({ name, arguments: given }) => {
        const pairs = Object.entries(given).map(
          ([key, value]) => `${key}:<escape>${typeof value === 'string' ? value : json(value)}<escape>`,
        );
        return `<start_function_call>call:${name}{${pairs.join(',')}}<end_function_call>`;
      })
      .join(''),
};

/** Replies of one family by what is special about each. */
function repliesOf(write: Write): Record<string, string> {
  const one = write([ADD]);
  return {
    'one call': one,
    'nested arguments': write([LOOK]),
    'odd characters': write([SAY]),
    'no arguments': write([NOW]),
    'every kind of value': write([MIX]),
    'two calls': write([ADD, LOOK]),
    'three calls': write([NOW, ADD, ADD]),
    'words before': `Let me see.\n${one}`,
    'words after': `${one}\nThat is all.`,
    'words around two calls': `First. ${write([ADD, MIX])} Last.`,
    'space around': `\n  ${one}\n\n`,
    'no call': 'The answer is 4. <b>bold</b> [1] {"a": 1}',
    'cut before its end': one.slice(0, Math.ceil(one.length * 0.9)),
    'cut in the arguments': one.slice(0, Math.ceil(one.length * 0.6)),
    'a value with tags': write([{ name: 'say', arguments: { text: '<b>x</b> & </p> {1} [2]', code: '' } }]),
    'a word for a number': write([{ name: 'mix', arguments: { count: 'many', flag: 'True', name: '007' } }]),
    'an argument without a type': write([{ name: 'add', arguments: { a: 3, extra: 'yes', more: '4' } }]),
    'long numbers': write([{ name: 'mix', arguments: { count: 12345678901, name: '1e5' } }]),
    'white space in values': write([{ name: 'say', arguments: { text: '  two\n\n  lines ', code: '\tx' } }]),
    'a tool that is not known': write([{ name: 'fly', arguments: { to: 'moon' } }]),
  };
}

interface Answer {
  readonly content?: string;
  readonly calls?: readonly (readonly [string, unknown])[];
  readonly error?: string;
}

export interface Difference {
  readonly format: string;
  readonly parser: string;
  readonly reply: string;
  readonly text: string;
  readonly ours: Answer;
  readonly theirs: Answer;
  readonly problems: readonly string[];
}

/** Every difference, and how many replies were read alike. Content is compared without the space around it. */
export function compareWithEngines(): { readonly alike: number; readonly differences: Difference[] } {
  const { python: program, sources } = installed();
  const questions = FAMILIES.flatMap((family) =>
    Object.entries(PARSERS[family.format] ?? {}).flatMap(([engine, parsers]) =>
      parsers.flatMap((parser) =>
        Object.entries(repliesOf(writerFor(family, parser))).map(([reply, text]) => ({
          family,
          engine,
          parser,
          reply,
          text,
        })),
      ),
    ),
  );
  const lines = questions.map(({ engine, parser, text }) =>
    JSON.stringify({ engine, parser, text, tools: TOOLS }),
  );
  const answers = run(program, [join(import.meta.dirname, 'others.py'), sources], `${lines.join('\n')}\n`)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Answer);
  const differences = questions.flatMap(({ family, engine, parser, reply, text }, at): Difference[] => {
    const read = readWith(toolFormatNamed(family.format), text, TOOLS);
    const ours = {
      content: read.content,
      calls: read.calls.map((call) => [call.name, call.arguments] as const),
    };
    const theirs = answers[at]!;
    const isAlike =
      isDeepStrictEqual(ours.calls, theirs.calls) && squeezed(ours.content) === squeezed(theirs.content);
    return isAlike
      ? []
      : [
          {
            format: family.format,
            parser: `${engine} ${parser}`,
            reply,
            text,
            ours,
            theirs,
            problems: read.problems.map(({ message }) => message),
          },
        ];
  });
  return { alike: questions.length - differences.length, differences };
}

function writerFor({ write }: Family, parser: string): Write {
  return DIALECTS[parser.split(':')[1]!]?.(write) ?? write;
}

const squeezed = (text = '') => text.replace(/\s+/g, ' ').trim();

/** Why a reply may be read otherwise, the general reasons first; a difference without one is a fault of ours. */
const REASONS: readonly (readonly [why: string, is: (one: Difference) => boolean])[] = [
  ['their parser throws', ({ theirs }) => theirs.error !== undefined],
  [
    'they drop calls of tools that they do not know; here the tool answers that it is not known',
    ({ reply, ours, theirs }) =>
      reply === 'a tool that is not known' && ours.calls!.length > theirs.calls!.length,
  ],
  [
    'they drop words after or between calls',
    ({ ours, theirs }) =>
      isDeepStrictEqual(ours.calls, theirs.calls) &&
      ours.calls!.length > 0 &&
      isPart(theirs.content!, ours.content!),
  ],
  [
    'a call that is cut off is a problem here, which the model is told; they give it as content, or nothing',
    ({ ours, theirs, problems }) =>
      ours.calls!.length === 0 && theirs.calls!.length === 0 && problems.length > 0,
  ],
  [
    'they make a call of the part that arrived; a call that is cut off is not made here',
    ({ reply, ours, problems }) => reply.startsWith('cut') && ours.calls!.length === 0 && problems.length > 0,
  ],
  [
    'only the closing mark is missing: the call is whole and read here',
    ({ reply, ours, theirs }) =>
      reply.startsWith('cut') && ours.calls!.length > 0 && theirs.calls!.length === 0,
  ],
  [
    'they read calls only where a reply has nothing else',
    ({ reply, ours, theirs, text }) =>
      /^words|^space/.test(reply) &&
      ours.calls!.length > 0 &&
      theirs.calls!.length === 0 &&
      isPart(theirs.content!, text),
  ],
  [
    'they cut the white space around a value',
    (one) => areAlike(one, (value) => (typeof value === 'string' ? value.trim() : value)),
  ],
  [
    'they turn a quoted text into the type that the schema asks for; here the tool says what is wrong',
    (one) => areAlike(one, (value) => String(value).toLowerCase()),
  ],
];

/** What single parsers of theirs do, by the replies that show it. */
const OF_THEIRS: Readonly<Record<string, readonly [why: string, replies: RegExp]>> = {
  PythonicDetector: [
    'they drop a call with a negative number',
    /one call|two calls|three calls|space around/,
  ],
  Gemma4Detector: ['null inside a value is the text "null"', /nested|two calls/],
  Gemma4EngineToolParser: ['numbers, true and null inside a value are text', /nested|two calls/],
  GigaChat3Detector: ['they read one call a reply', /two calls|three calls/],
  GigaChat3ToolParser: ['they read one call a reply', /two calls|three calls/],
  Phi4MiniJsonToolParser: [
    'they cut the list of calls at the first ]',
    /nested|kind of value|two calls|tags/,
  ],
  Step3Detector: [
    'they lose a value with <, a call without arguments and the type of an argument without a schema',
    /odd|no arguments|three|tags|without a type/,
  ],
  Step3ToolParser: [
    'they lose a value with <; lists and objects stay text',
    /nested|odd|kind of value|two calls|tags|without a type/,
  ],
  FunctionGemmaToolParser: ['they read every value as JSON, a text too', /kind of value|two calls|long/],
  MinimaxM3Detector: ['values without a schema are text here', /nested|two calls/],
  MinimaxM3ToolParser: ['they read a list without a schema as {"item": […]}', /nested|two calls/],
  Glm47MoeModelToolParser: ['an argument without a schema is JSON where it can be', /without a type/],
  Glm4MoeDetector: ['they read a text as a number first', /long/],
  MiniCPM5Detector: ['they drop a call with an argument that the schema does not have', /without a type/],
  MiniCPM5XMLToolParser: ['they drop an argument that the schema does not have', /without a type/],
};

/** Whether the calls are the same once every argument of a call is changed in the same way. */
function areAlike({ ours, theirs }: Difference, change: (value: unknown) => unknown): boolean {
  const changed = ({ calls }: Answer) =>
    calls?.map(([name, given]) => [
      name,
      Object.entries(given as Record<string, unknown>).map(([key, value]) => [key, change(value)]),
    ]);
  return isDeepStrictEqual(changed(ours), changed(theirs));
}

/** All characters of a text in their order within another, white space aside. */
function isPart(part: string, whole: string): boolean {
  let at = 0;
  for (const character of part.replace(/\s+/g, '')) {
    at = whole.indexOf(character, at) + 1;
    if (at === 0) return false;
  }
  return true;
}

/** Why a difference is none of ours to mend; undefined if nothing says so. */
export function reasonFor(one: Difference): string | undefined {
  const general = REASONS.find(([, is]) => is(one))?.[0];
  const [why, replies] = OF_THEIRS[one.parser.split(':')[1]!] ?? [];
  return general ?? (replies?.test(one.reply) ? why : undefined);
}

const FOLDER = join(CACHE, 'parsers');
const PACKAGES = ['pydantic', 'orjson', 'partial-json-parser', 'regex', 'msgspec', 'jsonschema', 'ijson'];

/** A Python with what the parsers import, and the parsers of the releases above, fetched at the first run. */
function installed(): { readonly python: string; readonly sources: string } {
  const python = join(FOLDER, 'bin', 'python');
  if (!existsSync(python)) run('python3', ['-m', 'venv', FOLDER]);
  run(python, ['-m', 'pip', 'install', '--quiet', ...PACKAGES]);
  const wanted = Object.entries(RELEASES).map(([name, version]) => `${name}==${version}`);
  const sources = join(FOLDER, wanted.join('+'));
  if (!existsSync(sources)) {
    const partial = `${sources}.partial`;
    run(python, [join(import.meta.dirname, 'fetch-engines.py'), partial, ...wanted]);
    renameSync(partial, sources);
  }
  return { python, sources };
}
