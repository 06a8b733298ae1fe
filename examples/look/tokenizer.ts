import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createTokenizerFiles } from '../quickstart/tokenizer.ts';
import { COLOURS } from './scene.ts';

/** Everything that is said, for the words of the tokenizer. */
const TEXTS: readonly string[] = [
  'system\nTools:\nzoom: Shows a box of the picture, in eighths.\nrotate: Turns what is seen, clockwise.',
  'user\nassistant\ntool\n',
  'Which digit is on the red card? Which digit? Which colour? Where is the card?',
  'The answer is 6.',
  '{"name":"zoom","arguments":{"box":[1,2,3,4]}}',
  '{"name":"rotate","arguments":{"angle":90}}',
  "Error executing tool 'zoom': the box is empty",
  ...Object.keys(COLOURS).map((colour) => ` ${colour}`),
];
const VISION = ['<|vision_start|>', '<|image_pad|>', '<|vision_end|>'];

/** As the quick start's, with images where messages show them and without spaces in lists. */
const CHAT_TEMPLATE = [
  "{%- if tools %}{{- '<|im_start|>system\\nTools:' }}{%- for tool in tools %}",
  "{{- '\\n' + tool.function.name + ': ' + tool.function.description }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}",
  "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}",
  '{%- if message.content is string %}{{- message.content }}{%- else %}{%- for part in message.content or [] %}',
  `{%- if part.type == 'image' %}{{- '${VISION.join('')}' }}{%- else %}{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}`,
  '{%- for call in message.tool_calls or [] %}{%- if call.function %}{%- set call = call.function %}{%- endif %}',
  '{{- \'<tool_call>{"name":"\' + call.name + \'","arguments":{\' }}',
  "{%- for key, value in call.arguments | items %}{{- key | tojson + ':' + (value | tojson | replace(', ', ',')) }}",
  "{%- if not loop.last %}{{- ',' }}{%- endif %}{%- endfor %}{{- '}}</tool_call>' }}{%- endfor %}",
  "{{- '<|im_end|>\\n' }}{%- endfor %}",
  "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
].join('\n');

interface TokenizerJson {
  readonly added_tokens: readonly Record<string, unknown>[];
  readonly model: { readonly vocab: Readonly<Record<string, number>> };
}

/** Writes the tokenizer into a model directory. */
export async function writeTokenizer(directory: string): Promise<void> {
  const files = createTokenizerFiles(TEXTS);
  const json = files['tokenizer.json'] as TokenizerJson;
  const first = Math.max(...Object.values(json.model.vocab)) + 1;
  const marks = VISION.map((content, at) => ({ ...json.added_tokens[0], content, id: first + at }));
  await mkdir(directory, { recursive: true });
  const write = (name: string, content: object) =>
    writeFile(join(directory, name), `${JSON.stringify(content, null, 1)}\n`);
  await write('tokenizer.json', { ...json, added_tokens: [...json.added_tokens, ...marks] });
  await write('tokenizer_config.json', { ...files['tokenizer_config.json'], chat_template: CHAT_TEMPLATE });
}
