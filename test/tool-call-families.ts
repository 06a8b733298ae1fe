import type { ToolSchema } from '../src/types.ts';

/** How each family writes calls, written down once more for tests; shares nothing with src/chat/formats. */

export interface Call {
  readonly name: string;
  readonly arguments: Record<string, unknown>;
}

export interface Family {
  readonly format: string;
  /** A short template of the family in test/data; without one, the format is asked for by its name. */
  readonly template?: string;
  /** What only the family's template would say, where its calls look like another's. */
  readonly telltale?: string;
  /** Marks around reasoning; `<think>` if not given, none if null. */
  readonly reasoning?: readonly [open: string, close: string] | null;
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
  /** What betrays the format in a template, where its calls do not. */
  readonly detected?: string;
  /** Calls have no closing mark: what follows a bad one belongs to it. */
  readonly runsOn?: boolean;
  /** The model writes the ids of its calls. */
  readonly writesIds?: boolean;
  /** Without a schema for them, values inside objects and lists are text. */
  readonly valuesAsText?: boolean;
}

const json = (value: unknown) => JSON.stringify(value);
const bare = (value: unknown) => (typeof value === 'string' ? value : json(value));
const each = (calls: readonly Call[], write: (call: Call) => string, between = '\n') =>
  calls.map(write).join(between);
const pairs = ({ arguments: given }: Call, write: (key: string, value: unknown) => string, between = '\n') =>
  Object.entries(given)
    .map(([key, value]) => write(key, value))
    .join(between);
const gemma = (value: unknown, quote = '<|"|>'): string => {
  if (typeof value === 'string') return `${quote}${value}${quote}`;
  if (Array.isArray(value)) return `[${value.map((item) => gemma(item, quote)).join(',')}]`;
  if (typeof value !== 'object' || value === null) return json(value);
  return `{${Object.entries(value)
    .map(([key, item]) => `${key}:${gemma(item, quote)}`)
    .join(',')}}`;
};
const python = (call: Call) => `${call.name}(${pairs(call, (key, value) => `${key}=${json(value)}`, ', ')})`;
const space = ']<]minimax[>[';
const minimaxTree = (value: unknown): string => {
  if (Array.isArray(value))
    return value.map((item) => `${space}<item>${minimaxTree(item)}${space}</item>`).join('');
  if (typeof value !== 'object' || value === null) return bare(value);
  return Object.entries(value)
    .map(([key, item]) => `${space}<${key}>${minimaxTree(item)}${space}</${key}>`)
    .join('');
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

/** What families share that are only asked for by name here. */
const plainChatml = {
  special: chatml,
  plain: thinking,
  config: { eos_token: '<|im_end|>' },
  parallel: true,
} as const;

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
    reasoning: null,
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
    reasoning: ['[THINK]', '[/THINK]'],
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
    reasoning: ['<|channel|>analysis<|message|>', '<|end|><|start|>assistant'],
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
    reasoning: ['<seed:think>', '</seed:think>'],
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
    reasoning: ['<|channel>thought\n', '<channel|>'],
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
  {
    format: 'longcat',
    ...plainChatml,
    plain: ['<longcat_tool_call>', '</longcat_tool_call>', '<longcat_think>', '</longcat_think>'],
    reasoning: ['<longcat_think>', '</longcat_think>'],
    write: (calls) => each(calls, (call) => `<longcat_tool_call>\n${json(call)}\n</longcat_tool_call>`),
    malformed: '<longcat_tool_call>\n{"name": "add", "arguments": {"a": }}\n</longcat_tool_call>',
    unclosed: '<longcat_tool_call>\n{"name": "add", "arguments": {"a": 1',
    mark: '<longcat_tool_call>',
  },
  {
    format: 'ernie45',
    ...plainChatml,
    telltale: '<response>',
    plain: ['<tool_call>', '</tool_call>', '<response>', '</response>', ...thinking],
    write: (calls) => each(calls, (call) => `<tool_call>\n${json(call)}\n</tool_call>`),
    malformed: '<tool_call>\n{"name": "add", "arguments": {"a": }}\n</tool_call>',
    unclosed: '<tool_call>\n{"name": "add", "arguments": {"a": 1',
    mark: '<tool_call>',
  },
  {
    format: 'smollm3',
    ...plainChatml,
    telltale: '<code>',
    plain: ['<tool_call>', '</tool_call>', '<code>', '</code>', ...thinking],
    write: (calls) => `<code>\n${each(calls, (call) => `print(${python(call)})`)}\n</code>`,
    malformed: '<code>import os; add(1)</code>',
    unclosed: '<code>add(a="1',
    detected: '<tool_call>',
  },
  {
    format: 'granite',
    ...plainChatml,
    special: [...chatml, '<|tool_call|>'],
    write: (calls) => `<|tool_call|>${json(calls)}`,
    malformed: '<|tool_call|>[{"name": "add", "arguments": {"a": }}]',
    unclosed: '<|tool_call|>[{"name": "add", "arguments": {"a": 1',
    mark: '<|tool_call|>',
    runsOn: true,
  },
  {
    format: 'granite_20b_fc',
    ...plainChatml,
    plain: ['<function_call>', ...thinking],
    write: (calls) => each(calls, (call) => `<function_call> ${json(call)}`),
    malformed: '<function_call> {"name": "add", "arguments": {"a": }}',
    unclosed: '<function_call> {"name": "add", "arguments": {"a": 1',
    mark: '<function_call>',
  },
  {
    format: 'jamba',
    ...plainChatml,
    plain: ['<tool_calls>', '</tool_calls>', ...thinking],
    write: (calls) => `<tool_calls>${json(calls)}</tool_calls>`,
    malformed: '<tool_calls>[{"name": "add", "arguments": {"a": }}]</tool_calls>',
    unclosed: '<tool_calls>[{"name": "add", "arguments": {"a": 1',
    mark: '<tool_calls>',
  },
  {
    format: 'hunyuan_a13b',
    ...plainChatml,
    telltale: '<answer>',
    plain: [],
    write: (calls) => `<tool_calls>${json(calls)}</tool_calls>`,
    malformed: '<tool_calls>[{"name": "add", "arguments": {"a": }}]</tool_calls>',
    unclosed: '<tool_calls>[{"name": "add", "arguments": {"a": 1',
  },
  {
    format: 'apriel',
    ...plainChatml,
    telltale: '[BEGIN FINAL RESPONSE]',
    plain: ['<tool_calls>', '</tool_calls>'],
    reasoning: ['Here are my reasoning steps:\n', '\n[BEGIN FINAL RESPONSE]\n'],
    write: (calls) => `<tool_calls>${json(calls)}</tool_calls>`,
    malformed: '<tool_calls>[{"name": "add", "arguments": {"a": }}]</tool_calls>',
    unclosed: '<tool_calls>[{"name": "add", "arguments": {"a": 1',
  },
  {
    format: 'nemotron',
    ...plainChatml,
    plain: thinking,
    write: (calls) => `<TOOLCALL>${json(calls)}</TOOLCALL>`,
    malformed: '<TOOLCALL>[{"name": "add", "arguments": {"a": }}]</TOOLCALL>',
    unclosed: '<TOOLCALL>[{"name": "add", "arguments": {"a": 1',
  },
  {
    format: 'internlm',
    ...plainChatml,
    special: [...chatml, '<|action_start|>', '<|action_end|>', '<|plugin|>'],
    write: (calls) =>
      each(
        calls,
        ({ name, ...rest }) =>
          `<|action_start|><|plugin|>\n${json({ name, parameters: rest.arguments })}<|action_end|>`,
      ),
    malformed: '<|action_start|><|plugin|>\n{"name": "add", "parameters": {"a": }}<|action_end|>',
    unclosed: '<|action_start|><|plugin|>\n{"name": "add", "parameters": {"a": 1',
    mark: '<|action_start|>',
  },
  {
    format: 'gigachat3',
    ...plainChatml,
    special: [...chatml, '<|message_sep|>', '<|role_sep|>', '<|function_call|>'],
    reasoning: null,
    write: (calls) => each(calls, (call) => `<|function_call|>${json(call)}<|message_sep|>`, ''),
    malformed: 'function call<|role_sep|>\n{"name": "add", "arguments": {"a": }}<|message_sep|>',
    unclosed: 'function call<|role_sep|>\n{"name": "add", "arguments": {"a": 1',
  },
  {
    format: 'phi4_mini_json',
    ...plainChatml,
    reasoning: null,
    write: (calls) => `functools${json(calls)}`,
    malformed: 'functools[{"name": "add", "arguments": {"a": }}]',
    unclosed: 'functools[{"name": "add", "arguments": {"a": 1',
    runsOn: true,
  },
  {
    format: 'xlam',
    ...plainChatml,
    telltale: '[{"name": "func_name1", "arguments": {}}]',
    write: (calls) => json(calls),
    malformed: '[{"name": "add", "arguments": {"a": }}]',
    unclosed: '[{"name": "add", "arguments": {"a": 1',
  },
  {
    format: 'apertus',
    ...plainChatml,
    special: [...chatml, '<|tools_prefix|>', '<|tools_suffix|>', '<|inner_prefix|>', '<|inner_suffix|>'],
    reasoning: ['<|inner_prefix|>', '<|inner_suffix|>'],
    write: (calls) =>
      `<|tools_prefix|>[${each(calls, (call) => json({ [call.name]: call.arguments }), ', ')}]<|tools_suffix|>`,
    malformed: '<|tools_prefix|>[{"add": {"a": }}]<|tools_suffix|>',
    unclosed: '<|tools_prefix|>[{"add": {"a": 1',
    mark: '<|tools_prefix|>',
  },
  {
    format: 'cohere',
    ...plainChatml,
    special: [...chatml, '<|START_ACTION|>', '<|END_ACTION|>', '<|START_THINKING|>', '<|END_THINKING|>'],
    reasoning: ['<|START_THINKING|>', '<|END_THINKING|>'],
    write: (calls) =>
      `<|START_ACTION|>[\n${calls.map((call, at) => `    ${json({ tool_call_id: String(at), tool_name: call.name, parameters: call.arguments })}`).join(',\n')}\n]<|END_ACTION|>`,
    malformed: '<|START_ACTION|>[{"tool_name": "add", "parameters": {"a": }}]<|END_ACTION|>',
    unclosed: '<|START_ACTION|>[{"tool_name": "add", "parameters": {"a": 1',
    mark: '<|START_ACTION|>',
  },
  {
    format: 'solar',
    ...plainChatml,
    special: [
      ...chatml,
      '<|begin|>',
      '<|end|>',
      '<|think|>',
      '<|content|>',
      '<|tool_calls|>',
      '<|calls|>',
      '<|tool_call:begin|>',
      '<|tool_call:name|>',
      '<|tool_call:args|>',
      '<|tool_call:end|>',
    ],
    reasoning: ['<|think|>', '<|end|><|begin|>assistant'],
    write: (calls) =>
      `<|tool_calls|>${calls.map((call, at) => `<|tool_call:begin|>call_${at}<|tool_call:name|>${call.name}<|tool_call:args|>${json(call.arguments)}<|tool_call:end|>`).join('')}<|calls|>`,
    malformed: '<|tool_call:begin|>x<|tool_call:name|>add<|tool_call:args|>{"a": }<|tool_call:end|>',
    unclosed: '<|tool_calls|><|tool_call:begin|>x<|tool_call:name|>add<|tool_call:args|>{"a": 1',
    mark: '<|tool_call:begin|>',
    writesIds: true,
  },
  {
    format: 'functionary_v3_1',
    ...plainChatml,
    special: [...chatml, '<|python_tag|>'],
    reasoning: null,
    write: (calls) => each(calls, (call) => `<function=${call.name}>${json(call.arguments)}</function>`, ''),
    malformed: '<function=add>{"a": }</function>',
    unclosed: '<function=add>{"a": 1',
  },
  {
    format: 'functionary_v3_2',
    ...plainChatml,
    telltale: '>>>all',
    reasoning: null,
    write: (calls) => each(calls, (call) => `>>>${call.name}\n${json(call.arguments)}`, ''),
    malformed: '>>>add\n{"a": }',
    unclosed: '>>>add\n{"a": 1',
  },
  {
    format: 'step3',
    ...plainChatml,
    write: (calls) =>
      `<｜tool_calls_begin｜>${each(calls, (call) => `<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="${call.name}">${pairs(call, (key, value) => `<steptml:parameter name="${key}">${bare(value)}</steptml:parameter>`, '')}</steptml:invoke><｜tool_call_end｜>`, '')}<｜tool_calls_end｜>`,
    malformed:
      '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke>add</steptml:invoke><｜tool_call_end｜>',
    unclosed:
      '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="add"><steptml:parameter name="a">1',
  },
  {
    format: 'dots',
    ...plainChatml,
    write: (calls) =>
      `<dots_function_call>\n${each(calls, (call) => `<invoke name="${call.name}">\n${pairs(call, (key, value) => `<parameter name="${key}">${bare(value)}</parameter>\n`, '')}</invoke>`)}\n</dots_function_call>`,
    malformed: '<dots_function_call>\n<invoke>\n<parameter name="a">1</parameter>\n</dots_function_call>',
    unclosed: '<dots_function_call>\n<invoke name="add">\n<parameter name="a">1',
  },
  {
    format: 'minicpm5',
    ...plainChatml,
    write: (calls) =>
      each(
        calls,
        (call) =>
          `<function name="${call.name}">${pairs(call, (key, value) => `<param name="${key}"><![CDATA[${bare(value)}]]></param>`, '')}</function>`,
      ),
    malformed: '<function name=><param name="a">1</param></function>',
    unclosed: '<function name="add"><param name="a">1',
  },
  {
    format: 'functiongemma',
    ...plainChatml,
    special: [...chatml, '<start_function_call>', '<end_function_call>', '<escape>'],
    reasoning: null,
    write: (calls) =>
      each(
        calls,
        (call) =>
          `<start_function_call>call:${call.name}${gemma(call.arguments, '<escape>')}<end_function_call>`,
        '',
      ),
    malformed: '<start_function_call>call:add{a:}<end_function_call>',
    unclosed: '<start_function_call>call:add{a:1',
    mark: '<start_function_call>',
  },
  {
    format: 'poolside_v1',
    ...plainChatml,
    telltale: 'return an unescaped XML-like object',
    write: (calls) =>
      each(
        calls,
        (call) =>
          `<tool_call>${call.name}\n${pairs(call, (key, value) => `<arg_key>${key}</arg_key>\n<arg_value>${bare(value)}</arg_value>\n`, '')}</tool_call>`,
      ),
    malformed: '<tool_call>add\n<arg_key>a</arg_key>\n</tool_call>',
    unclosed: '<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1',
    detected: '<arg_key>',
  },
  {
    format: 'hy_v3',
    ...plainChatml,
    reasoning: ['<think:opensource>', '</think:opensource>'],
    write: (calls) =>
      `<tool_calls:opensource>\n${each(calls, (call) => `<tool_call:opensource>${call.name}<tool_sep:opensource>\n${pairs(call, (key, value) => `<arg_key:opensource>${key}</arg_key:opensource>\n<arg_value:opensource>${bare(value)}</arg_value:opensource>\n`, '')}</tool_call:opensource>`)}\n</tool_calls:opensource>`,
    malformed: '<tool_calls><tool_call>add<tool_sep>\n<arg_key>a</arg_key>\n</tool_call></tool_calls>',
    unclosed: '<tool_calls><tool_call>add<tool_sep>\n<arg_key>a</arg_key>\n<arg_value>1',
  },
  {
    format: 'olmo3',
    ...plainChatml,
    plain: ['<function_calls>', '</function_calls>', ...thinking],
    write: (calls) => `<function_calls>\n${each(calls, python)}\n</function_calls>`,
    malformed: '<function_calls>add(a=eval("1"))</function_calls>',
    unclosed: '<function_calls>add(a="1',
    mark: '<function_calls>',
  },
  {
    format: 'kimi_k3',
    ...plainChatml,
    special: [...chatml, '<|open|>', '<|close|>', '<|sep|>'],
    reasoning: ['<|open|>think<|sep|>', '<|close|>think<|sep|>'],
    write: (calls) =>
      `<|open|>tools<|sep|>${calls.map((call, at) => `<|open|>call tool="${call.name}" index="${at + 1}"<|sep|>${pairs(call, (key, value) => `<|open|>argument key="${key}" type="${typeof value}"<|sep|>${bare(value)}<|close|>argument<|sep|>`, '')}<|close|>call<|sep|>`).join('')}<|close|>tools<|sep|>`,
    malformed:
      '<|open|>call tool="add" index="1"<|sep|><|open|>argument key="a" type="number"<|sep|>1<|close|>call<|sep|>',
    unclosed:
      '<|open|>tools<|sep|><|open|>call tool="add" index="1"<|sep|><|open|>argument key="a" type="number"<|sep|>1',
    mark: '<|open|>',
  },
  {
    format: 'minimax_m3',
    ...plainChatml,
    special: [...chatml, ']<]minimax[>['],
    reasoning: ['<mm:think>', '</mm:think>'],
    write: (calls) =>
      `${space}<tool_call>${each(calls, (call) => `${space}<invoke name="${call.name}">${minimaxTree(call.arguments)}${space}</invoke>`, '')}${space}</tool_call>`,
    malformed: `${space}<tool_call>${space}<invoke name="add">${space}<a>1${space}</b>${space}</invoke>${space}</tool_call>`,
    unclosed: `${space}<tool_call>${space}<invoke name="add">${space}<a>1`,
    mark: ']<]minimax[>[',
    valuesAsText: true,
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
