import { evaluate } from '../src/chat/jinja/evaluate.ts';
import { JinjaError } from '../src/chat/jinja/lexer.ts';
import { parseTemplate } from '../src/chat/jinja/parser.ts';
import { fromJson } from '../src/chat/jinja/python.ts';
import type { TemplateMessage } from '../src/chat/template.ts';
import type { TemplateCase } from './random-templates.ts';

/** The moment that templates are told, here and in scripts/templates/render.py. */
export const NOON = new Date('2024-07-26T12:00:00Z');

/** Text, or why there is none. An error that is not the template's is thrown. */
export function renderPlain({ template, variables }: TemplateCase): { text: string } | { error: string } {
  try {
    const values = Object.entries(variables).map(([name, value]) => [name, fromJson(value)] as const);
    return { text: evaluate(parseTemplate(template), new Map(values)) };
  } catch (error) {
    if (!(error instanceof JinjaError)) throw error;
    return { error: error.message };
  }
}

const call = (id: string, given: Record<string, unknown>) => ({
  id,
  type: 'function',
  function: { name: 'add', arguments: given },
});

const tools = [
  {
    type: 'function',
    function: {
      name: 'add',
      description: 'Adds <two> numbers.',
      parameters: {
        type: 'object',
        properties: {
          a: { type: 'number', description: 'the first' },
          b: { type: ['integer', 'null'], enum: [1, 2] },
          c: { type: 'array', items: { type: 'string' } },
        },
        required: ['a'],
      },
    },
  },
];

const asked = { role: 'user', content: 'Hi there' };
const answer = (id: string, content: string) => ({ role: 'tool', content, tool_call_id: id, name: 'add' });

interface Dialogue {
  readonly messages: readonly TemplateMessage[];
  readonly tools: readonly unknown[] | null;
  readonly add_generation_prompt: boolean;
}

/** Dialogues as chat templates get them: words, tools, calls, parallel calls, reasoning. */
export const DIALOGUES: readonly Dialogue[] = [
  { messages: [asked], tools: null, add_generation_prompt: true },
  {
    messages: [
      { role: 'system', content: 'Be brief.' },
      asked,
      { role: 'assistant', content: 'Yes.' },
      { role: 'user', content: 'é河 {"a"} <b>' },
    ],
    tools: null,
    add_generation_prompt: true,
  },
  { messages: [asked], tools, add_generation_prompt: true },
  { messages: [{ role: 'system', content: 'S' }, asked], tools, add_generation_prompt: false },
  {
    messages: [
      asked,
      {
        role: 'assistant',
        content: '',
        tool_calls: [call('abcdefghi', { a: 1, b: null, c: ['x', 'é'], d: { e: 0.5, f: true } })],
      },
      answer('abcdefghi', '3'),
    ],
    tools,
    add_generation_prompt: true,
  },
  {
    messages: [
      asked,
      {
        role: 'assistant',
        content: 'Let me see',
        reasoning_content: 'hm',
        tool_calls: [call('abcdefghi', { a: 1 }), call('abcdefghj', {})],
      },
      answer('abcdefghi', '3'),
      answer('abcdefghj', '4'),
      { role: 'assistant', content: 'So 3.', reasoning_content: 'right' },
      asked,
    ],
    tools,
    add_generation_prompt: true,
  },
];
