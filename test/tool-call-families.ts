import type { ToolSchema } from '../src/types.ts';

/** How each family writes calls, written down once more for tests; shares nothing with src/chat/formats. */

export interface Call {
  readonly name: string;
  readonly arguments: Record<string, unknown>;
}

export interface Family {
  readonly format: string;
  readonly template: string;
  /** Added tokens: special ones, then ones that are not. */
  readonly special: readonly string[];
  readonly plain: readonly string[];
  readonly config: Record<string, unknown>;
  write(calls: readonly Call[]): string;
  /** A call that cannot be read, where a call would stand beside others. */
  readonly malformed: string;
  /** A call that stops in the middle. */
  readonly unclosed: string;
  /** Whether the family's template takes several calls in one reply. */
  readonly parallel: boolean;
  /** A mark that must be a token to count. */
  readonly mark?: string;
}

const json = (value: unknown) => JSON.stringify(value);
const bare = (value: unknown) => (typeof value === 'string' ? value : json(value));
const each = (calls: readonly Call[], write: (call: Call) => string, between = '\n') =>
  calls.map(write).join(between);
const pairs = ({ arguments: given }: Call, write: (key: string, value: unknown) => string, between = '\n') =>
  Object.entries(given)
    .map(([key, value]) => write(key, value))
    .join(between);
const gemma = (value: unknown): string => {
  if (typeof value === 'string') return `<|"|>${value}<|"|>`;
  if (Array.isArray(value)) return `[${value.map(gemma).join(',')}]`;
  if (typeof value !== 'object' || value === null) return json(value);
  return `{${Object.entries(value)
    .map(([key, item]) => `${key}:${gemma(item)}`)
    .join(',')}}`;
};

const chatml = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];
const thinking = ['<think>', '</think>'];
const deepseekCalls = [
  'calls▁begin',
  'calls▁end',
  'call▁begin',
  'call▁end',
  'sep',
  'output▁begin',
  'output▁end',
].map((name) => `<｜tool▁${name}｜>`);
const deepseekSpecial = ['<｜begin▁of▁sentence｜>', '<｜end▁of▁sentence｜>'];
const deepseekConfig = { bos_token: deepseekSpecial[0], eos_token: deepseekSpecial[1] };
const v3 = (name: string, text: string) =>
  `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${text}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`;
const coder = ({ name, ...call }: Call, tag: string) =>
  `<${tag}>\n<function=${name}>\n${pairs(call as Call, (key, value) => `<parameter=${key}>\n${bare(value)}\n</parameter>`)}\n</function>\n</${tag}>`;

export const FAMILIES: readonly Family[] = [
  {
    format: 'hermes',
    template: 'chatml',
    special: chatml,
    plain: ['<tool_call>', '</tool_call>', ...thinking],
    config: { eos_token: '<|im_end|>' },
    write: (calls) => each(calls, (call) => `<tool_call>\n${json(call)}\n</tool_call>`),
    malformed: '<tool_call>\n{"name": "add", "arguments": {"a": }}\n</tool_call>',
    unclosed: '<tool_call>\n{"name": "add", "arguments": {"a": 1',
    parallel: true,
    mark: '<tool_call>',
  },
  {
    format: 'qwen3_coder',
    template: 'qwen3-coder',
    special: chatml,
    plain: ['<tool_call>', '</tool_call>', ...thinking],
    config: { eos_token: '<|im_end|>' },
    write: (calls) => each(calls, (call) => coder(call, 'tool_call')),
    malformed: '<tool_call>\n<function=add\n<parameter=a>\n1\n</parameter>\n</tool_call>',
    unclosed: '<tool_call>\n<function=add>\n<parameter=a>\n1',
    parallel: true,
  },
  {
    format: 'llama3_json',
    template: 'llama3',
    special: [
      '<|begin_of_text|>',
      '<|start_header_id|>',
      '<|end_header_id|>',
      '<|eot_id|>',
      '<|eom_id|>',
      '<|python_tag|>',
    ],
    plain: [],
    config: { bos_token: '<|begin_of_text|>', eos_token: '<|eot_id|>' },
    write: (calls) => each(calls, ({ name, ...rest }) => json({ name, parameters: rest.arguments }), '; '),
    malformed: '{"name": "add", "parameters": {"a": }}',
    unclosed: '{"name": "add", "parameters": {"a": 1',
    parallel: false,
  },
  {
    format: 'pythonic',
    template: 'pythonic',
    special: [
      '<|begin_of_text|>',
      '<|header_start|>',
      '<|header_end|>',
      '<|eot|>',
      '<|python_start|>',
      '<|python_end|>',
    ],
    plain: thinking,
    config: { bos_token: '<|begin_of_text|>', eos_token: '<|eot|>' },
    write: (calls) =>
      `[${each(calls, (call) => `${call.name}(${pairs(call, (key, value) => `${key}=${json(value)}`, ', ')})`, ', ')}]`,
    malformed: '[add(a=eval("1"))]',
    unclosed: '[add(a="1',
    parallel: true,
  },
  {
    format: 'mistral',
    template: 'mistral',
    special: [
      '<s>',
      '</s>',
      '[INST]',
      '[/INST]',
      '[TOOL_CALLS]',
      '[AVAILABLE_TOOLS]',
      '[/AVAILABLE_TOOLS]',
      '[TOOL_RESULTS]',
      '[/TOOL_RESULTS]',
      '[ARGS]',
      '[CALL_ID]',
      '[THINK]',
      '[/THINK]',
    ],
    plain: [],
    config: { bos_token: '<s>', eos_token: '</s>' },
    write: (calls) => `[TOOL_CALLS] [${each(calls, json, ', ')}]`,
    malformed: '[TOOL_CALLS] [{"name": "add", "arguments": {"a": }}]',
    unclosed: '[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1',
    parallel: true,
    mark: '[TOOL_CALLS]',
  },
  {
    format: 'deepseek',
    template: 'deepseek',
    special: deepseekSpecial,
    plain: ['<｜User｜>', '<｜Assistant｜>', ...deepseekCalls, ...thinking],
    config: deepseekConfig,
    write: (calls) =>
      `<｜tool▁calls▁begin｜>${each(calls, ({ name, ...rest }) => `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${json(rest.arguments)}<｜tool▁call▁end｜>`, '')}<｜tool▁calls▁end｜>`,
    malformed: v3('add', '{"a": }'),
    unclosed: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 1',
    parallel: true,
    mark: '<｜tool▁call▁begin｜>',
  },
  {
    format: 'glm',
    template: 'glm',
    special: [
      '<|endoftext|>',
      '[gMASK]',
      '<sop>',
      '<|system|>',
      '<|user|>',
      '<|assistant|>',
      '<|observation|>',
    ],
    plain: [
      '<tool_call>',
      '</tool_call>',
      '<arg_key>',
      '</arg_key>',
      '<arg_value>',
      '</arg_value>',
      '<tool_response>',
      '</tool_response>',
      ...thinking,
    ],
    config: { eos_token: '<|endoftext|>' },
    write: (calls) =>
      each(
        calls,
        (call) =>
          `<tool_call>${call.name}\n${pairs(call, (key, value) => `<arg_key>${key}</arg_key>\n<arg_value>${bare(value)}</arg_value>\n`, '')}</tool_call>`,
      ),
    malformed: '<tool_call>add\n<arg_key>a</arg_key>\n</tool_call>',
    unclosed: '<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1',
    parallel: true,
    mark: '<tool_call>',
  },
  {
    format: 'gpt-oss',
    template: 'gpt-oss',
    special: [
      '<|start|>',
      '<|end|>',
      '<|message|>',
      '<|channel|>',
      '<|constrain|>',
      '<|return|>',
      '<|call|>',
      '<|endoftext|>',
    ],
    plain: [],
    config: { eos_token: '<|return|>' },
    write: (calls) =>
      each(
        calls,
        ({ name, ...rest }) =>
          `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${json(rest.arguments)}<|call|>`,
        '<|start|>assistant',
      ),
    malformed: '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": }<|call|>',
    unclosed: '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1',
    parallel: false,
    mark: '<|message|>',
  },
  {
    format: 'kimi',
    template: 'kimi',
    special: ['<|im_end|>', '<|im_user|>', '<|im_assistant|>', '<|im_system|>', '<|im_middle|>'],
    plain: [
      '<|tool_calls_section_begin|>',
      '<|tool_calls_section_end|>',
      '<|tool_call_begin|>',
      '<|tool_call_argument_begin|>',
      '<|tool_call_end|>',
      ...thinking,
    ],
    config: { eos_token: '<|im_end|>' },
    write: (calls) =>
      `<|tool_calls_section_begin|>${calls.map(({ name, ...rest }, at) => `<|tool_call_begin|>functions.${name}:${at}<|tool_call_argument_begin|>${json(rest.arguments)}<|tool_call_end|>`).join('')}<|tool_calls_section_end|>`,
    malformed: '<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": }<|tool_call_end|>',
    unclosed:
      '<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1',
    parallel: true,
    mark: '<|tool_call_begin|>',
  },
  {
    format: 'minimax',
    template: 'minimax',
    special: [']~!b[', ']~b]', '[e~['],
    plain: ['<minimax:tool_call>', '</minimax:tool_call>', ...thinking],
    config: { eos_token: '[e~[' },
    write: (calls) =>
      `<minimax:tool_call>\n${each(calls, (call) => `<invoke name="${call.name}">\n${pairs(call, (key, value) => `<parameter name="${key}">${bare(value)}</parameter>\n`, '')}</invoke>`)}\n</minimax:tool_call>`,
    malformed: '<minimax:tool_call>\n<invoke>\n<parameter name="a">1</parameter>\n</minimax:tool_call>',
    unclosed: '<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1',
    parallel: true,
    mark: '<minimax:tool_call>',
  },
  {
    format: 'seed',
    template: 'seed',
    special: ['<seed:bos>', '<seed:eos>'],
    plain: ['<seed:tool_call>', '</seed:tool_call>', '<seed:think>', '</seed:think>'],
    config: { bos_token: '<seed:bos>', eos_token: '<seed:eos>' },
    write: (calls) => each(calls, (call) => coder(call, 'seed:tool_call')),
    malformed: '<seed:tool_call>\n<function=add\n</seed:tool_call>',
    unclosed: '<seed:tool_call>\n<function=add>\n<parameter=a>1',
    parallel: true,
    mark: '<seed:tool_call>',
  },
  {
    format: 'deepseek_v4',
    template: 'deepseek-v4',
    special: deepseekSpecial,
    plain: ['<｜User｜>', '<｜Assistant｜>', '｜DSML｜', ...thinking],
    config: deepseekConfig,
    write: (calls) =>
      `<｜DSML｜function_calls>\n${each(calls, (call) => `<｜DSML｜invoke name="${call.name}">\n${pairs(call, (key, value) => `<｜DSML｜parameter name="${key}" string="${typeof value === 'string'}">${bare(value)}</｜DSML｜parameter>\n`, '')}</｜DSML｜invoke>`)}\n</｜DSML｜function_calls>`,
    malformed: '<｜DSML｜function_calls>\n<｜DSML｜invoke>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    unclosed:
      '<｜DSML｜function_calls>\n<｜DSML｜invoke name="add">\n<｜DSML｜parameter name="a" string="false">1',
    parallel: true,
  },
  {
    format: 'gemma4',
    template: 'gemma4',
    special: [
      '<bos>',
      '<eos>',
      '<|turn>',
      '<turn|>',
      '<|tool>',
      '<tool|>',
      '<|tool_call>',
      '<tool_call|>',
      '<|tool_response>',
      '<tool_response|>',
      '<|"|>',
      '<|channel>',
      '<channel|>',
    ],
    plain: [],
    config: { bos_token: '<bos>', eos_token: '<eos>' },
    write: (calls) =>
      each(calls, (call) => `<|tool_call>call:${call.name}${gemma(call.arguments)}<tool_call|>`, ''),
    malformed: '<|tool_call>call:add{a:}<tool_call|>',
    unclosed: '<|tool_call>call:add{a:1',
    parallel: true,
    mark: '<|tool_call>',
  },
];

/** A schema that says of each argument what it is, as formats with bare values need it. */
export function schemaFor(calls: readonly Call[]): ToolSchema[] {
  const names = [...new Set(calls.map(({ name }) => name))];
  return names.map((name) => {
    const properties = calls
      .filter((call) => call.name === name)
      .flatMap((call) => Object.entries(call.arguments))
      .map(([key, value]) => [key, { type: typeOf(value) }] as const);
    return {
      type: 'function',
      function: {
        name,
        description: `does ${name}`,
        parameters: { type: 'object', properties: Object.fromEntries(properties) },
      },
    };
  });
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}
