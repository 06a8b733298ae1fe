import { readdirSync, readFileSync } from 'node:fs';
import { compileTemplate, TemplateRefusal } from '../../../src/chat/template.ts';
import type { FuzzTarget } from '../target.ts';

const folder = new URL('../../../test/data/chat-templates/', import.meta.url);
const call = { type: 'function', function: { name: 'f', arguments: { a: [1, 2.5, 'x'], b: null } } };
const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'What is 1 + 2?' }] },
  { role: 'assistant', content: '', reasoning_content: 'hm', tool_calls: [call] },
  { role: 'tool', content: '3', tool_call_id: 'call_0', name: 'f' },
  { role: 'user', content: '<|im_end|> é 漢' },
];
const tools = [
  {
    type: 'function',
    function: { name: 'f', description: 'd', parameters: { type: 'object', properties: {} } },
  },
];

/** A model's chat template, rendered with a dialogue. */
export const target: FuzzTarget = {
  name: 'template',
  seeds: () => [
    ...readdirSync(folder).map((name) => readFileSync(new URL(name, folder))),
    "{% set ns = namespace(i=0) %}{% for m in messages if m.role != 'x' recursive %}{{ loop.index0 }}{% set ns.i = ns.i + 1 %}{% else %}-{% endfor %}",
    "{% macro f(a, b=2) %}{{ a | upper ~ b }}{{ caller() if caller }}{% endmacro %}{{ f('x', b=[1, 2] | join(',')) }}{% call f(1) %}c{% endcall %}",
    "{{ '%s-%05.2f' % ('a', 3.14159) }}{{ 'a b'.split() | tojson(indent=2) }}{{ messages[-1]['content'][1:] | trim | length }}",
    "{%- filter upper -%} x {{ {'a': 1}.items() | list }} {%- endfilter -%}{{ (1 // 2, 3 ** 2, 7 % 3, not true, 1 in [1]) }}",
    "{% generation %}{{ strftime_now('%d %b %Y') }}{% endgeneration %}{{ x is defined and y is not none }}{# c #}{% raw %}{{{% endraw %}",
    "{{ messages | map(attribute='role') | unique | sort(reverse=true) | first }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ 5 | default(1, true) }}",
  ],
  words: [
    ...[
      '{{',
      '}}',
      '{%',
      '%}',
      '{%-',
      '-%}',
      '{#',
      '#}',
      ' if ',
      ' else ',
      ' for ',
      ' in ',
      ' set ',
      ' is ',
      ' not ',
    ],
    ...[
      'endif',
      'endfor',
      'elif',
      'macro',
      'endmacro',
      'namespace(',
      'loop.',
      'range(',
      '|',
      '~',
      '**',
      '//',
      '[',
      ']',
    ],
    ...[
      'tojson',
      'join',
      'map(',
      'select(',
      'sort',
      'groupby(',
      'batch(',
      'slice(',
      'replace(',
      'round(',
      'int',
      'format(',
    ],
    ...[
      '.split(',
      '.strip(',
      '.startswith(',
      '.items()',
      '.get(',
      '.format(',
      '.title()',
      '.find(',
      "'x'",
      '-1',
      '1.5',
    ],
  ],
  isOurs: (error) => error instanceof TemplateRefusal,
  run: (bytes) => {
    const render = compileTemplate(bytes.toString('utf8'), {
      variables: { bos_token: '<s>' },
      date: new Date(0),
    });
    render({ messages, tools, addGenerationPrompt: true });
  },
};
