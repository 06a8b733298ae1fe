import { describe, expect, test } from 'vitest';
import {
  byteLevelTokenizer,
  chatmlFormat,
  familyFormat,
  familyModels,
  templateFile,
} from '../../test/chat-models.ts';
import { FAMILIES } from '../../test/tool-call-families.ts';
import { ConfigError } from '../errors.ts';
import { createChatFormat } from './chat-format.ts';
import { requireSelfTest, selfTest } from './self-test.ts';

const failures = (report: ReturnType<typeof selfTest>) =>
  report.checks.filter(({ outcome }) => outcome === 'failed');

test('our own ChatML model passes, parallel calls and several turns included', () => {
  const report = selfTest(chatmlFormat(), { tools: true });
  expect(failures(report)).toEqual([]);
  expect(report.checks.every(({ outcome }) => outcome === 'passed')).toBe(true);
  expect(report.checks.map(({ name }) => name)).toContain('parallel calls, reply 1');
});

describe.each(familyModels().filter(([name]) => name !== 'SmolLM2'))('%s', (_, model) => {
  test('passes on multi-turn tool dialogues', () => {
    const report = selfTest(createChatFormat(model), { tools: true });
    expect(failures(report)).toEqual([]);
    expect(report.passed).toBe(true);
  });
  test.each(['template', 'toolCycle'] as const)(
    'passes with keepThinking %s, tool turns included',
    (keepThinking) => {
      expect(failures(selfTest(createChatFormat({ ...model, keepThinking }), { tools: true }))).toEqual([]);
    },
  );
  test('passes without tools', () => {
    expect(selfTest(createChatFormat(model), { tools: false }).passed).toBe(true);
  });
});

test('a template that ignores tools passes without them and is refused with them', () => {
  const template =
    "{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}" +
    "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";
  const format = chatmlFormat({ template });
  expect(selfTest(format, { tools: false }).passed).toBe(true);
  expect(() => requireSelfTest(format, { tools: true })).toThrow('the template ignores tools');
});

const chatml = templateFile('chatml');
const broken: [what: string, template: string, says: string][] = [
  [
    'ignores the generation prompt',
    chatml.replace('if add_generation_prompt', 'if false'),
    'which is read as {"content":"assistant\\nNothing yet."',
  ],
  [
    'numbers its messages',
    chatml.replace("'<|im_start|>' + message.role +", "'<|im_start|>' + (loop.index | string) +"),
    'appending differs from rendering the whole dialogue',
  ],
  [
    'forgets old replies',
    chatml.replace(
      '{{- message.content -}}',
      "{{- message.content if loop.index0 > messages|length - 3 else '…' -}}",
    ),
    'the next prompt does not begin with this one',
  ],
  [
    'closes the last reply differently',
    chatml.replace(
      "{{- '<|im_end|>\\n' -}}\n  {%- elif message.role == 'tool'",
      "{{- '<|im_end|>\\n' if not loop.last else '\\n<|im_end|>' -}}\n  {%- elif message.role == 'tool'",
    ),
    '',
  ],
  [
    'shouts',
    chatml.replace('{{- message.content -}}', '{{- message.content | upper -}}'),
    '"Nothing yet." does not occur',
  ],
  ['loses tool calls', chatml.replace('message.tool_calls or []', '[]'), '"look_up" does not occur'],
  ['does not tell tools', chatml.replace('(tool | tojson)', "''"), 'does not occur in the prompt'],
  [
    'writes arguments as a Python dictionary',
    chatml.replace(
      'call.function.arguments | tojson',
      '"{\'word\': \'" + call.function.arguments.word + "\'}"',
    ),
    'is not valid JSON',
  ],
  [
    'counts the tools at the end of the dialogue',
    chatml.replace(
      "'<|im_start|>assistant\\n' -}}{%- endif -%}",
      "'<|im_start|>assistant ' + (messages|length|string) + '\\n' -}}{%- endif -%}",
    ),
    'appending differs from rendering the whole dialogue',
  ],
];

const odd: [what: string, template: string][] = [
  [
    'closes a reply only when the next message comes, after a line end',
    chatml
      .replace(
        '{%- for message in messages -%}',
        "{%- for message in messages -%}{%- if loop.previtem and loop.previtem.role == 'assistant' -%}{{- '\\n<|im_end|>\\n' -}}{%- endif -%}",
      )
      .replace(
        "{{- '<|im_end|>\\n' -}}\n  {%- elif message.role == 'tool'",
        "{%- elif message.role == 'tool'",
      ),
  ],
  [
    'ends a prompt otherwise once it is answered',
    chatml.replace(
      "'<|im_start|>assistant\\n' -}}{%- endif -%}",
      "'<|im_start|>assistant\\nHere are my steps:\\n' -}}{%- endif -%}",
    ),
  ],
  [
    'numbers the results of all calls',
    `{%- set seen = namespace(results=0) -%}${chatml.replace(
      "{%- elif message.role == 'tool' -%}",
      "{%- elif message.role == 'tool' -%}{%- set seen.results = seen.results + 1 -%}{{- seen.results | string -}}",
    )}`,
  ],
];

test.each(odd)('a template that %s passes', (_, template) => {
  expect(template.length).toBeGreaterThan(chatml.length);
  expect(failures(selfTest(chatmlFormat({ template }), { tools: true }))).toEqual([]);
});

test('a template that leaves calls to the text of a message gets them in the words of the format', () => {
  const template =
    "{%- if tools -%}{{- '<|im_start|>system\\nList of tools: [' + (tools | tojson) + ']<|im_end|>\\n' -}}{%- endif -%}" +
    "{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}" +
    "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";
  const marks = ['<|im_start|>', '<|im_end|>', '<|tool_call_start|>', '<|tool_call_end|>'];
  const tokenizer = byteLevelTokenizer(
    marks.map((text) => ({ text })),
    { eos_token: '<|im_end|>' },
  );
  const format = createChatFormat({ tokenizer, template });
  expect(format.toolFormat).toBe('pythonic');
  expect(failures(selfTest(format, { tools: true }))).toEqual([]);
  const call = { id: 'c', name: 'add', arguments: { a: null, b: '<|im_end|>', c: [true, 1.5] } };
  const { ids } = format.renderPrompt(
    [
      { role: 'user', content: 'Go.' },
      { role: 'assistant', content: 'So: ', toolCalls: [call] },
    ],
    [],
  );
  expect(format.decode(ids)).toContain(
    "So: <|tool_call_start|>[add(a=None, b='<|im_end|>', c=[True, 1.5])]<|tool_call_end|><|im_end|>",
  );
  expect(ids.filter((id) => id === tokenizer.tokenId('<|im_end|>'))).toHaveLength(2);
});

test.each(broken)('a template that %s is caught', (_, template, says) => {
  expect(template).not.toBe(chatml);
  const format = chatmlFormat({ template });
  const report = selfTest(format, { tools: true });
  if (says === '') {
    // Nothing wrong is appended: each such turn begins a new segment.
    expect(report.checks.some(({ outcome }) => outcome === 'segments')).toBe(true);
    return;
  }
  expect(report.passed).toBe(false);
  expect(() => requireSelfTest(format, { tools: true })).toThrow(ConfigError);
  expect(() => requireSelfTest(format, { tools: true })).toThrow(says);
});

test('a difference is shown token by token, with ids and texts', () => {
  const template = chatml.replace(
    "'<|im_start|>' + message.role +",
    "'<|im_start|>' + (loop.index | string) +",
  );
  const [first] = failures(selfTest(chatmlFormat({ template }), { tools: false }));
  expect(first?.detail).toMatch(/first difference at token \d+, after .*\nexpected 20 "5".*\ngot +18 "3"/);
});

/** Which turns of a family begin a new segment, and which dialogues its template refuses; the rest is proven. */
const notAppended: Record<string, RegExp> = {
  // gpt-oss writes <|return|> after its last words and <|end|> once more follows.
  'gpt-oss': /^a dialogue|^one call, reply 2|^several turns of calls, reply 3|^parallel calls/,
  llama3_json: /^parallel calls$|^a call after words/,
};

test.each(FAMILIES.filter(({ template }) => template).map((family) => [family.format, family] as const))(
  'the template of %s passes, and says which turns it cannot append',
  (name, family) => {
    const report = selfTest(familyFormat(family).format, { tools: true });
    expect(failures(report)).toEqual([]);
    const others = report.checks
      .filter(({ outcome }) => outcome !== 'passed')
      .map(({ name: check }) => check);
    for (const check of others) expect(check).toMatch(notAppended[name] ?? /^$/);
  },
);

test('a template that refuses every dialogue with tool calls fails, in the words of the template', () => {
  const template = chatml.replace(
    "{%- elif message.role == 'tool'",
    "{%- elif message.role == 'tool' -%}{{- raise_exception('no tools here') -}}{%- elif message.role == 'none'",
  );
  expect(template).not.toBe(chatml);
  const format = chatmlFormat({ template });
  expect(() => requireSelfTest(format, { tools: true })).toThrow(
    /refuses every dialogue with tool calls: .*no tools here/,
  );
  expect(selfTest(format, { tools: false }).passed).toBe(true);
});

test('a format that trusts its prompts passes: what users and tools write is still only text', () => {
  const report = selfTest(chatmlFormat({ trustPromptSpecialTokens: true }), { tools: true });
  expect(failures(report)).toEqual([]);
});

test('a template that writes calls in a format nobody knows is said so, with the nearest formats', () => {
  const template = templateFile('chatml').replaceAll('tool_call>', 'my_tool_invocation>');
  const format = chatmlFormat({ template });
  expect(format.toolFormat).toBe('unknown');
  const report = selfTest(format, { tools: true });
  const [unknown] = failures(report).filter(({ name }) => name.includes('is known'));
  expect(unknown?.detail).toMatch(/none of the known formats. The nearest: \w+/);
});
