import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { Message, ToolSchema } from '../types.ts';
import { AddedTokens } from './added-tokens.ts';
import { detectToolFormat } from './detect.ts';
import { ReplyParser } from './reply-parser.ts';
import { compileTemplate, type TemplateMessage } from './template.ts';
import { probeShape, templateMessage, templateTools } from './template-messages.ts';

/** Public templates with the renderings their authors expect, and the tool-call formats they write. */
interface Golden {
  readonly name: string;
  readonly chat_template: string;
  readonly data: Record<string, unknown> & { messages: TemplateMessage[]; tools?: unknown[] };
  readonly target: string;
}

/** Ours, rendered by transformers (test/golden/chat/make.py). */
const folder = new URL('../../test/', import.meta.url);
const readText = (path: string) => readFileSync(new URL(path, folder), 'utf8');
const own = (JSON.parse(readText('golden/chat/templates.json')) as (Golden & { template: string })[]).map(
  (golden) => ({ ...golden, chat_template: readText(`data/chat-templates/${golden.template}`) }),
);
/** Those of public models, where they are beside the repository. */
const file = new URL('../../../shared/data/chat-template-golden/huggingface-jinja-e2e.json', import.meta.url);
const published: Golden[] = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : [];
/** Hammer prints a list: Jinja2 writes it with single quotes, as Python does, and the published text with double ones. */
const goldens = published.filter(({ name }) => name !== 'MadeAgents/Hammer2.1');
const noon = new Date('2025-07-10T12:00:00Z');

describe('chat templates', () => {
  test.each([...own, ...goldens].map((golden) => [golden.name, golden] as const))(
    '%s renders as its golden',
    (_, golden) => {
      // Jamba's template asks for a reply unless it is told not to; we always tell.
      const unasked = golden.name.includes('Jamba');
      const { messages, tools = [], add_generation_prompt = unasked, ...variables } = golden.data;
      const render = compileTemplate(golden.chat_template, { variables, date: noon });
      const text = render({ messages, tools, addGenerationPrompt: add_generation_prompt === true });
      expect(text).toBe(golden.target);
    },
  );
});

const asked: Message = { role: 'user', content: 'What is the weather?' };
const tools: ToolSchema[] = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Tells the weather.',
      parameters: {
        type: 'object',
        properties: {
          city: { type: 'string', description: 'the city' },
          days: { type: 'integer', description: 'the days' },
          units: { type: 'string', description: 'the units' },
        },
        required: ['city'],
      },
    },
  },
];
const families: [name: string, format: string, calls: number][] = [
  ['Qwen/Qwen2.5-7B-Instruct', 'hermes', 2],
  ['Qwen/Qwen3-0.6B', 'hermes', 2],
  // Its template opens only the first of several calls.
  ['NousResearch/Hermes-2-Pro-Llama-3-8B (JSON Schema)', 'hermes', 1],
  ['Qwen/Qwen3.5-4B', 'qwen3_coder', 2],
  ['meta-llama/Llama-3.1-8B-Instruct', 'llama3_json', 1],
  ['mistralai/Mistral-7B-Instruct-v0.3 (JSON Schema)', 'mistral', 2],
  ['mistralai/Mistral-Nemo-Instruct-2407', 'mistral', 2],
  ['deepseek-ai/DeepSeek-R1', 'deepseek', 2],
  ['zai-org/GLM-5.1', 'glm', 2],
  ['moonshotai/Kimi-K2-Thinking', 'kimi', 2],
  ['LiquidAI/LFM2.5-VL-450M', 'pythonic', 2],
];

const present = families.filter(([name]) => goldens.some((golden) => golden.name === name));
test.each(present)('%s: calls that its own template wrote are read as %s', (name, formatName, count) => {
  const golden = goldens.find((each) => each.name === name)!;
  const format = detectToolFormat(golden.chat_template)!;
  expect(format.name).toBe(formatName);
  const render = compileTemplate(golden.chat_template, {
    variables: { bos_token: '<s>', eos_token: '</s>' },
    date: noon,
  });
  const shape = probeShape(render);
  const given = [
    { city: 'São Paulo 河', days: 3 },
    // LFM2's template writes quotes in strings as they are, which nothing could read back.
    { city: name.includes('LFM2') ? 'Paris' : 'Paris "FR"', units: 'C, F' },
  ].slice(0, count);
  const toolCalls = given.map((each, at) => ({ id: `call_${at}`, name: 'get_weather', arguments: each }));
  const messages: Message[] = [asked, { role: 'assistant', content: '', toolCalls }];
  const text = render({
    messages: messages.map((message) => templateMessage(message, shape, (each) => each)),
    tools: templateTools(tools, (each) => each),
    addGenerationPrompt: false,
  });
  const parser = new ReplyParser({ format, tools, added: new AddedTokens([]) });
  const reply = text.slice(text.indexOf(asked.content as string) + (asked.content as string).length);
  const read = [parser.push(reply), parser.end()].flatMap((delta) => delta.toolCalls);
  expect(read.map(({ name, arguments: each }) => [name, each])).toEqual(
    given.map((each) => ['get_weather', each]),
  );
});
