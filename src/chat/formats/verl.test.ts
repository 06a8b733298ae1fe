import { describe, expect, test } from 'vitest';
import { familyFormat } from '../../../test/chat-models.ts';
import { FAMILIES } from '../../../test/tool-call-families.ts';
import { ConfigError } from '../../errors.ts';
import type { ToolSchema } from '../../types.ts';
import { toolFormatNamed } from '../detect.ts';

/** verl's `multi_turn.format`, a row at a time: what it reads we read; what it drops silently we describe. */
const open = (name: string) => familyFormat(FAMILIES.find(({ format }) => format === name)!);

function reader(name: string, tools: ToolSchema[] = []) {
  const { format, tokenizer } = open(name);
  return (text: string) => {
    const reply = format.parseReply(tokenizer.encode(text), tools);
    return {
      content: reply.content,
      calls: reply.toolCalls.map(({ name: tool, arguments: given }) => [tool, given]),
      problems: reply.problems.map(({ message }) => message),
    };
  };
}

const tool = (name: string, properties: Record<string, unknown>, required: string[] = []): ToolSchema => ({
  type: 'function',
  function: { name, description: name, parameters: { type: 'object', properties, required } },
});

describe('hermes', () => {
  const read = reader('hermes');
  test('content is the text with all blocks removed; arguments keep their letters', () => {
    expect(
      read(
        'Let me <tool_call>{"name": "f", "arguments": {"city": "北京"}}</tool_call> see <tool_call>{"name": "g", "arguments": {}}</tool_call>',
      ),
    ).toEqual({
      content: 'Let me  see',
      calls: [
        ['f', { city: '北京' }],
        ['g', {}],
      ],
      problems: [],
    });
  });
  test('the opening tag must be there; a call that is complete needs no closing one', () => {
    expect(read('<tool_call>{"name": "f", "arguments": {}}').calls).toEqual([['f', {}]]);
    expect(read('<tool_call>{"name": "f", "arguments": {}').calls).toEqual([]);
    expect(read('{"name": "f", "arguments": {}}</tool_call>').calls).toEqual([]);
  });
  test('bad JSON is described and does not take the next call with it', () => {
    const { calls, problems } = read(
      '<tool_call>{"name": }</tool_call><tool_call>{"name": "f", "arguments": {}}</tool_call>',
    );
    expect(calls).toEqual([['f', {}]]);
    expect(problems[0]).toContain('not valid JSON');
  });
  test('name and arguments are needed', () => {
    expect(read('<tool_call>{"arguments": {}}</tool_call>').problems).toEqual([
      'the tool call has no "name"',
    ]);
    expect(read('<tool_call>{"name": "f"}</tool_call>').problems).toEqual([
      'the tool call has no "arguments"',
    ]);
    expect(read('<tool_call>{"name": "f", "arguments": [1]}</tool_call>').problems).toEqual([
      '"arguments" of the tool call is not a JSON object',
    ]);
    expect(read('<tool_call>[]</tool_call>').problems).toEqual(['the list of tool calls is empty']);
  });
  test('arguments may be JSON in a string', () => {
    expect(read('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>').calls).toEqual([
      ['f', { a: 1 }],
    ]);
  });
  test('deep nesting is refused in words', () => {
    const deep = `${'['.repeat(5000)}${']'.repeat(5000)}`;
    expect(read(`<tool_call>{"name": "f", "arguments": {"a": ${deep}}}</tool_call>`).problems[0]).toContain(
      'nested deeper',
    );
  });
});

describe('qwen3_coder', () => {
  const schema = tool('list_tool', {
    items: { type: 'array' },
    count: { type: 'integer' },
    ratio: { type: 'number' },
    flag: { type: 'boolean' },
    note: { type: 'string' },
    plan: { type: 'object' },
    maybe: { type: ['integer', 'null'] },
    any: {},
  });
  const read = reader('qwen3_coder', [schema]);
  const given = (key: string, value: string) =>
    read(
      `<tool_call>\n<function=list_tool>\n<parameter=${key}>\n${value}\n</parameter>\n</function>\n</tool_call>`,
    ).calls[0]?.[1];
  test.each([
    ['items', '[1, 2, 3]', [1, 2, 3]],
    ['items', "['a', True, None]", ['a', true, null]],
    ['items', '__import__("os").system("true")', '__import__("os").system("true")'],
    ['count', '12', 12],
    ['count', 'twelve', 'twelve'],
    ['ratio', '2.50', 2.5],
    ['ratio', '3.0', 3],
    ['flag', 'TRUE', true],
    ['flag', 'false', false],
    ['note', '12', '12'],
    ['note', 'null', 'null'],
    ['note', '  two\nlines ', '  two\nlines '],
    ['plan', '{"a": {"b": 1}}', { a: { b: 1 } }],
    ['maybe', 'null', null],
    ['maybe', '4', 4],
    ['any', '4', '4'],
    ['unknown', 'x', 'x'],
  ])('%s: %s is read by its schema', (key, text, expected) => {
    expect(given(key, text)).toEqual({ [key]: expected });
  });
  test('closing tags may be missing where the next tag shows they were meant', () => {
    const call = [['list_tool', { count: 1, note: 'x' }]];
    expect(
      read('<tool_call><function=list_tool><parameter=count>1<parameter=note>x</function></tool_call>').calls,
    ).toEqual(call);
    expect(
      read('<tool_call><function=list_tool><parameter=count>1</parameter><parameter=note>x</tool_call>')
        .calls,
    ).toEqual(call);
    expect(
      read(
        '<tool_call><function=list_tool><parameter=count>1</parameter><parameter=note>x</parameter></function>',
      ).calls,
    ).toEqual(call);
    expect(
      read(
        '<function=list_tool><parameter=count>1</parameter><parameter=note>x</parameter></function></tool_call>',
      ).calls,
    ).toEqual(call);
  });
  test('a header or a parameter without ">" is described', () => {
    expect(read('<tool_call><function=list_tool').problems).toEqual(['the tool call names no function']);
    expect(read('<tool_call><function=list_tool</tool_call>').problems).toEqual([
      'the tool call names no function',
    ]);
    const cut =
      '<tool_call><function=list_tool><parameter=count>1</parameter><parameter=no</function></tool_call>';
    expect(read(cut).problems).toEqual(['a parameter has no ">"']);
  });
  test('works without schemas', () => {
    expect(
      reader('qwen3_coder')('<tool_call><function=f><parameter=a>[1]</parameter></function></tool_call>')
        .calls,
    ).toEqual([['f', { a: '[1]' }]]);
  });
});

describe('gpt-oss', () => {
  const read = reader('gpt-oss');
  test('analysis is reasoning, the call is in commentary', () => {
    expect(
      read(
        '<|channel|>analysis<|message|>Need weather.<|end|><|start|>assistant<|channel|>commentary to=functions.get_current_weather <|constrain|>json<|message|>{"location": "Tokyo"}<|call|>',
      ),
    ).toEqual({ content: '', calls: [['get_current_weather', { location: 'Tokyo' }]], problems: [] });
  });
  test('the recipient may stand in the role', () => {
    expect(
      read(
        '<|channel|>analysis<|message|>x<|end|><|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>',
      ).calls,
    ).toEqual([['f', {}]]);
  });
  test('arguments are checked, which verl leaves to the tool', () => {
    expect(read('<|channel|>commentary to=functions.f<|message|>{a<|call|>').problems).toEqual([
      'the arguments of f are not a JSON object',
    ]);
  });
});

describe('glm', () => {
  const read = reader('glm', [tool('f', { a: { type: 'string' }, b: { type: 'integer' } })]);
  test('values are JSON or strings; with or without line breaks', () => {
    expect(
      read(
        '<think>hm</think><tool_call>f<arg_key>a</arg_key><arg_value>12</arg_value><arg_key>b</arg_key><arg_value>12</arg_value></tool_call>',
      ).calls,
    ).toEqual([['f', { a: '12', b: 12 }]]);
    expect(
      read('<tool_call>f\n<arg_key>c</arg_key>\n<arg_value>{"x": [1]}</arg_value>\n</tool_call>').calls,
    ).toEqual([['f', { c: { x: [1] } }]]);
  });
  test('a reply stops at <|observation|>', () => {
    const { format } = open('glm');
    expect(format.stopIds.map((id) => format.decode(Int32Array.of(id)))).toContain('<|observation|>');
  });
});

describe('seed', () => {
  test('its own tags, values JSON or string by schema', () => {
    const read = reader('seed', [tool('f', { a: { type: 'array' } })]);
    expect(
      read(
        '<seed:think>x</seed:think><seed:tool_call>\n<function=f>\n<parameter=a>[1]</parameter>\n</function>\n</seed:tool_call>',
      ).calls,
    ).toEqual([['f', { a: [1] }]]);
  });
});

describe('minimax', () => {
  test('several invokes in a block', () => {
    const read = reader('minimax', [tool('f', { a: { type: 'number' } })]);
    expect(
      read(
        'ok\n<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">1.5</parameter>\n</invoke>\n<invoke name="g">\n</invoke>\n</minimax:tool_call>',
      ),
    ).toEqual({
      content: 'ok',
      calls: [
        ['f', { a: 1.5 }],
        ['g', {}],
      ],
      problems: [],
    });
  });
});

describe('kimi', () => {
  const weather = tool('get_weather', { city: {}, unit: {} }, ['city']);
  const search = tool('search', { query: {} }, ['query']);
  const call = (id: string, given: string) =>
    `Let me check.<|tool_calls_section_begin|><|tool_call_begin|>${id}<|tool_call_argument_begin|>${given}<|tool_call_end|><|tool_calls_section_end|>`;
  const { format, tokenizer } = open('kimi');
  const read = (text: string) => format.parseReply(tokenizer.encode(text), [weather, search]);
  test('the id is kept and names the tool', () => {
    expect(read(call('call-get_weather-0', '{"city": "Seattle", "unit": "celsius"}'))).toMatchObject({
      content: 'Let me check.',
      toolCalls: [
        { id: 'call-get_weather-0', name: 'get_weather', arguments: { city: 'Seattle', unit: 'celsius' } },
      ],
    });
    expect(read(call('functions.search:3', '{}')).toolCalls[0]).toMatchObject({
      id: 'functions.search:3',
      name: 'search',
    });
  });
  test('an id that names nothing is resolved by its arguments, or described', () => {
    expect(read(call('abc', '{"query": "x"}')).toolCalls[0]?.name).toBe('search');
    expect(read(call('abc', '{"neither": 1}')).problems[0]?.message).toContain('does not say which tool');
  });
  test('bad arguments are described; verl calls the tool with none', () => {
    expect(read(call('functions.search:0', '{bad')).toolCalls).toEqual([]);
    expect(read(call('functions.search:0', '{bad')).problems).toHaveLength(1);
  });
});

describe('deepseek_v4', () => {
  test('each parameter says whether it is a string; reasoning is apart', () => {
    const read = reader('deepseek_v4');
    expect(
      read(
        '<think>x</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">12</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="false">12</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
      ).calls,
    ).toEqual([['f', { a: '12', b: 12 }]]);
  });
});

describe('gemma4', () => {
  test('bare keys, quoted strings, nested values', () => {
    const read = reader('gemma4');
    expect(
      read('<|tool_call>call:f{a:<|"|>x, {y}<|"|>,n:1,o:{p:[true,null,<|"|>z<|"|>]}}<tool_call|>').calls,
    ).toEqual([['f', { a: 'x, {y}', n: 1, o: { p: [true, null, 'z'] } }]]);
  });
});

test('unknown parser: the error names the known ones', () => {
  expect(() => toolFormatNamed('x')).toThrow(ConfigError);
  expect(() => toolFormatNamed('x')).toThrow(/no tool-call format "x"; known: .*hermes, /);
  for (const name of [
    'hermes',
    'qwen3_coder',
    'gpt-oss',
    'glm',
    'seed',
    'minimax',
    'kimi',
    'deepseek_v4',
    'gemma4',
    'llama3_json',
  ]) {
    expect(toolFormatNamed(name).name).toBe(name);
  }
});
