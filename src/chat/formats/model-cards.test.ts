import { describe, expect, test } from 'vitest';
import { chatmlFormat, chatmlTokenizer, familyFormat } from '../../../test/chat-models.ts';
import { FAMILIES } from '../../../test/tool-call-families.ts';
import type { ToolSchema } from '../../types.ts';
import { toolFormat } from './custom.ts';

/** Replies as public model cards and format descriptions show them. */
const weather: ToolSchema = {
  type: 'function',
  function: {
    name: 'get_current_temperature',
    description: '',
    parameters: {
      type: 'object',
      properties: { location: { type: 'string' }, unit: { type: 'string' }, days: { type: 'integer' } },
    },
  },
};

const cards: [format: string, source: string, reply: string, calls: [string, unknown][], content?: string][] =
  [
    [
      'hermes',
      'qwen.readthedocs.io, function calling: parallel calls',
      '<tool_call>\n{"name": "get_current_temperature", "arguments": {"location": "San Francisco, CA, USA"}}\n</tool_call>\n<tool_call>\n{"name": "get_temperature_date", "arguments": {"location": "San Francisco, CA, USA", "date": "2024-10-01"}}\n</tool_call>',
      [
        ['get_current_temperature', { location: 'San Francisco, CA, USA' }],
        ['get_temperature_date', { location: 'San Francisco, CA, USA', date: '2024-10-01' }],
      ],
    ],
    [
      'hermes',
      'Hermes-2-Pro model card: arguments before the name',
      '<tool_call>\n{"arguments": {"symbol": "TSLA"}, "name": "get_stock_fundamentals"}\n</tool_call>',
      [['get_stock_fundamentals', { symbol: 'TSLA' }]],
    ],
    [
      'qwen3_coder',
      'Qwen3-Coder model card',
      '<tool_call>\n<function=get_current_temperature>\n<parameter=location>\nBeijing\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>',
      [['get_current_temperature', { location: 'Beijing', days: 3 }]],
    ],
    [
      'llama3_json',
      'Llama 3.1 prompt format: JSON based tool calling',
      '{"name": "trending_songs", "parameters": {"n": "10", "genre": "all"}}',
      [['trending_songs', { n: '10', genre: 'all' }]],
    ],
    [
      'llama3_json',
      'Llama 3.1 prompt format: built-in tools',
      '<|python_tag|>brave_search.call(query="current weather in Menlo Park, California")',
      [['brave_search', { query: 'current weather in Menlo Park, California' }]],
    ],
    [
      'llama3_json',
      'words around the object, and a list of two',
      'Sure:\n[{"name": "f", "parameters": {"a": {"b": 1}}}, {"name": "g", "parameters": {}}]',
      [
        ['f', { a: { b: 1 } }],
        ['g', {}],
      ],
      'Sure:',
    ],
    [
      'pythonic',
      'Llama 3.2 prompt format: zero-shot function calling',
      "[get_user_info(user_id=7890, special='black'), get_weather(city='San Francisco', metric='celsius')]",
      [
        ['get_user_info', { user_id: 7890, special: 'black' }],
        ['get_weather', { city: 'San Francisco', metric: 'celsius' }],
      ],
    ],
    [
      'pythonic',
      'values of every kind',
      `[f(a=[1, -2.5e3], b={'k': None, "j": (True, False)}, c="it's \\u00e9\\n", d='''two\nlines''')]`,
      [['f', { a: [1, -2500], b: { k: null, j: [true, false] }, c: "it's é\n", d: 'two\nlines' }]],
    ],
    [
      'pythonic',
      'arguments without names take them from the schema',
      '[get_current_temperature("Paris", "C")]',
      [['get_current_temperature', { location: 'Paris', unit: 'C' }]],
    ],
    [
      'pythonic',
      'words that only look like it',
      'See [1] and [the list](link).',
      [],
      'See [1] and [the list](link).',
    ],
    [
      'mistral',
      'Mistral 7B v0.3 model card',
      '[TOOL_CALLS] [{"name": "get_current_weather", "arguments": {"location": "Paris, FR", "format": "celsius"}, "id": "VvvODy9mT"}]',
      [['get_current_weather', { location: 'Paris, FR', format: 'celsius' }]],
    ],
    [
      'mistral',
      'the tokenizers of v11 and later: a mark for each call',
      'One moment.[TOOL_CALLS]f[ARGS]{"a": "[x]"}[TOOL_CALLS]g[CALL_ID]000000001[ARGS]{}',
      [
        ['f', { a: '[x]' }],
        ['g', {}],
      ],
      'One moment.',
    ],
    [
      'deepseek',
      'DeepSeek R1 and V3: kind, name and a fenced object',
      '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"location": "Tokyo"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"location": "Paris"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
      [
        ['get_weather', { location: 'Tokyo' }],
        ['get_weather', { location: 'Paris' }],
      ],
    ],
    [
      'deepseek',
      'DeepSeek V3.1 model card',
      '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"location": "Tokyo"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
      [['get_weather', { location: 'Tokyo' }]],
    ],
    [
      'glm',
      'GLM-4.5 model card',
      '<think></think>\nI will look.\n<tool_call>get_current_temperature\n<arg_key>location</arg_key>\n<arg_value>北京</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>',
      [['get_current_temperature', { location: '北京', days: 3 }]],
      'I will look.',
    ],
    [
      'gpt-oss',
      'OpenAI harmony response format: preamble, then a call',
      '<|channel|>analysis<|message|>Two files.<|end|><|start|>assistant<|channel|>commentary<|message|>I will create a file.<|end|><|start|>assistant<|channel|>commentary to=functions.generate_file<|constrain|>json<|message|>{"template": "basic_html", "path": "index.html"}<|call|>',
      [['generate_file', { template: 'basic_html', path: 'index.html' }]],
      'I will create a file.',
    ],
    [
      'kimi',
      'Kimi K2 tool-call guide',
      '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Beijing"}<|tool_call_end|><|tool_calls_section_end|>',
      [['get_weather', { city: 'Beijing' }]],
    ],
    [
      'minimax',
      'MiniMax-M2 tool-call guide',
      '<minimax:tool_call>\n<invoke name="search_web">\n<parameter name="query">OpenAI latest news</parameter>\n</invoke>\n</minimax:tool_call>',
      [['search_web', { query: 'OpenAI latest news' }]],
    ],
  ];

test.each(cards)('%s: %s', (name, _, reply, calls, content = '') => {
  const { format, tokenizer } = familyFormat(FAMILIES.find((family) => family.format === name)!);
  const read = format.parseReply(tokenizer.encode(reply), [weather]);
  expect(read.problems).toEqual([]);
  expect(read.toolCalls.map(({ name: tool, arguments: given }) => [tool, given])).toEqual(calls);
  expect(read.content).toBe(content);
});

describe('a custom format', () => {
  const calculator = toolFormat('calculator', (text) => ({
    calls: [...text.matchAll(/calculator\((.*?)\)/g)].map(([, expression]) => ({
      name: 'calculator',
      arguments: { expression },
    })),
    problems: /calculator(?!\()/.test(text) ? ['calculator needs an expression in parentheses'] : [],
  }));
  const format = chatmlFormat({ toolFormat: calculator });
  const read = (text: string) => format.parseReply(chatmlTokenizer().encode(text), []);

  test('calculator(123 + 456), without JSON', () => {
    expect(format.toolFormat).toBe('calculator');
    expect(read('<think>hm</think>Let me calculate: calculator(123 + 456)<|im_end|>')).toMatchObject({
      content: 'Let me calculate: calculator(123 + 456)',
      reasoning: 'hm',
      toolCalls: [{ id: 'call_0', name: 'calculator', arguments: { expression: '123 + 456' } }],
      problems: [],
    });
  });

  test('what it says is wrong is a problem, and so is an exception', () => {
    expect(read('use the calculator').problems[0]?.message).toContain('needs an expression');
    const throwing = chatmlFormat({
      toolFormat: toolFormat('mine', () => {
        throw new Error('oh');
      }),
    });
    expect(throwing.parseReply(chatmlTokenizer().encode('x'), [])).toMatchObject({
      content: 'x',
      problems: [{ message: 'the format "mine" could not read the reply: oh' }],
    });
  });
});
