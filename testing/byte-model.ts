import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BYTE_CHARACTERS } from '../src/chat/byte-level.ts';
import { type ChatFormatOptions, createChatFormat } from '../src/chat/chat-format.ts';
import type { ChatFormat } from '../src/chat/format.ts';
import { createTokenizer, type Tokenizer } from '../src/chat/tokenizer.ts';
import { createModel } from '../src/engine/model/create.ts';

/**
 * The smallest model that can be written and read exactly: one token per byte, the marks of ChatML and of tool
 * calls as special tokens, and a chat template with tools. In the form of a Hugging Face model's own files.
 */
const SPECIAL = [
  '<|endoftext|>',
  '<|im_start|>',
  '<|im_end|>',
  '<tool_call>',
  '</tool_call>',
  '<think>',
  '</think>',
  '<|image_pad|>',
];

/** The chat template of the byte model: ChatML with tools, reasoning and images. */
export const BYTE_TEMPLATE = [
  "{%- if tools %}{{- '<|im_start|>system\\nTools:\\n' }}",
  "{%- for tool in tools %}{{- tool | tojson + '\\n' }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}",
  "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}",
  '{%- if message.content is string %}{{- message.content }}',
  "{%- else %}{%- for part in message.content or [] %}{%- if part.type == 'text' %}{{- part.text }}",
  "{%- else %}{{- '<|image_pad|>' }}{%- endif %}{%- endfor %}{%- endif %}",
  '{%- for call in message.tool_calls or [] %}{%- if call.function %}{%- set call = call.function %}{%- endif %}',
  '{{- \'<tool_call>{"name": "\' + call.name + \'", "arguments": \' + call.arguments | tojson + \'}</tool_call>\' }}{%- endfor %}',
  "{{- '<|im_end|>\\n' }}{%- endfor %}",
  "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
].join('\n');

/** The contents of `tokenizer.json`. */
export function byteTokenizerJson(): object {
  const special = SPECIAL.map((content, index) => ({
    id: 256 + index,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: content.includes('|'),
  }));
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: special,
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      byte_fallback: false,
      vocab: Object.fromEntries(BYTE_CHARACTERS.map((character, byte) => [character, byte])),
      merges: [],
    },
  };
}

/** Tokenizer and chat format of the byte model; `options` as of any chat format. */
export function byteModel(options: Partial<Omit<ChatFormatOptions, 'tokenizer'>> = {}): {
  readonly tokenizer: Tokenizer;
  readonly format: ChatFormat;
} {
  const tokenizer = createTokenizer(byteTokenizerJson(), { eos_token: '<|im_end|>' });
  return { tokenizer, format: createChatFormat({ tokenizer, template: BYTE_TEMPLATE, ...options }) };
}

/** Writes the byte model into a folder in the Hugging Face layout: a real decoder of random weights, seconds to load. */
export async function writeByteModel(
  directory: string,
  { seed = 1, contextTokens = 2048 } = {},
): Promise<void> {
  const files = await mkdtemp(join(tmpdir(), 'rollcall-byte-'));
  const config = { eos_token: '<|im_end|>', chat_template: BYTE_TEMPLATE };
  await writeFile(join(files, 'tokenizer.json'), JSON.stringify(byteTokenizerJson()));
  await writeFile(join(files, 'tokenizer_config.json'), JSON.stringify(config));
  createModel({ directory, size: 'tiny', tokenizer: files, seed, overrides: { contextTokens } });
  await rm(files, { recursive: true });
}
