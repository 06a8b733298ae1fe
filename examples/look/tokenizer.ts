import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createTokenizerFiles } from '../quickstart/tokenizer.ts';
import { COLOURS } from './scene.ts';

/** Everything that is said, for the words of the tokenizer. */
const TEXTS: readonly string[] = [
  'system\nTools: zoom box rotate angle',
  'user\nassistant\ntool\n',
  'Which digit is on red? Which digit? Which colour? Where is red?',
  'The answer is 6.',
  'Look at red 7.',
  '{"name":"zoom","arguments":{"box": 7}}',
  '{"name":"rotate","arguments":{"angle": 90}}',
  ...Object.keys(COLOURS).map((colour) => ` ${colour}`),
];
const VISION = ['<|vision_start|>', '<|image_pad|>', '<|vision_end|>'];

/** As the quick start's, with images where messages show them. */
const CHAT_TEMPLATE = [
  "{%- if tools %}{{- '<|im_start|>system\\nTools:' }}{%- for tool in tools %}{{- ' ' + tool.function.name + ' ' + tool.function.description }}{%- endfor %}",
  "{{- '<|im_end|>\\n' }}{%- endif %}",
  "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}",
  '{%- if message.content is string %}{{- message.content }}{%- else %}{%- for part in message.content or [] %}',
  `{%- if part.type == 'image' %}{{- '${VISION.join('')}' }}{%- else %}{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}`,
  '{%- for call in message.tool_calls or [] %}{%- if call.function %}{%- set call = call.function %}{%- endif %}',
  '{{- \'<tool_call>{"name":"\' + call.name + \'","arguments":{\' }}',
  "{%- for key, value in call.arguments | items %}{{- key | tojson + ': ' + value | tojson }}",
  "{%- if not loop.last %}{{- ',' }}{%- endif %}{%- endfor %}{{- '}}</tool_call>' }}{%- endfor %}",
  "{{- '<|im_end|>\\n' }}{%- endfor %}",
  "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
].join('\n');

/** A digit with the space before it is one token: what follows a colour is then its box. */
const PIECE = String.raw` ?[A-Za-z]+| ?\d| ?[^\sA-Za-z\d]+|\s`;
const SPACED_DIGITS = Array.from({ length: 10 }, (_, digit) => `Ġ${digit}`);

interface TokenizerJson {
  readonly added_tokens: readonly Record<string, unknown>[];
  readonly pre_tokenizer: { readonly pretokenizers: readonly Record<string, unknown>[] };
  readonly model: { readonly vocab: Readonly<Record<string, number>> };
}

/** Writes the tokenizer into a model directory. */
export async function writeTokenizer(directory: string): Promise<void> {
  const files = createTokenizerFiles(TEXTS);
  const json = files['tokenizer.json'] as TokenizerJson;
  const first = Math.max(...Object.values(json.model.vocab)) + 1;
  const digits = SPACED_DIGITS.map((digit, at) => [digit, first + at] as const);
  const marks = VISION.map((content, at) => ({
    ...json.added_tokens[0],
    content,
    id: first + digits.length + at,
  }));
  const [split, ...bytes] = json.pre_tokenizer.pretokenizers;
  await mkdir(directory, { recursive: true });
  const write = (name: string, content: object) =>
    writeFile(join(directory, name), `${JSON.stringify(content, null, 1)}\n`);
  await write('tokenizer.json', {
    ...json,
    added_tokens: [...json.added_tokens, ...marks],
    pre_tokenizer: {
      ...json.pre_tokenizer,
      pretokenizers: [{ ...split, pattern: { Regex: PIECE } }, ...bytes],
    },
    model: { ...json.model, vocab: { ...json.model.vocab, ...Object.fromEntries(digits) } },
  });
  await write('tokenizer_config.json', {
    ...files['tokenizer_config.json'],
    chat_template: CHAT_TEMPLATE,
    // vLLM asks every Qwen2.5-VL which token stands for a video, and there is none here.
    extra_special_tokens: { image_token: VISION[1], video_token: VISION[2] },
  });
}
