import { existsSync, readFileSync } from 'node:fs';
import { type ChatFormatOptions, createChatFormat } from '../src/chat/chat-format.ts';
import type { ChatFormat } from '../src/chat/format.ts';
import { createTokenizer, type Tokenizer } from '../src/chat/tokenizer.ts';
import type { Family } from './tool-call-families.ts';

/**
 * Models for tests of chat formats: own small ones, ones with the structure of real families (test/golden/chat), and the
 * real ones of ../shared where that folder exists.
 */

interface Added {
  readonly text: string;
  readonly special?: boolean;
}

const MERGES =
  't h|th e|Ġ the|i n|Ġ a|o n|e r|Ġ t|a n|c a|ca l|cal l|Ċ Ċ|{ "|" :|} }|< /|Ġ <|n a|na m|nam e|1 2';

/** How Llama 3 and Qwen split text into words. */
const WORDS =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** `tokenizer.json` of a byte-level BPE with a few merges and the given added tokens; its ids begin at 0. */
export function byteLevelTokenizerJson(added: readonly Added[]): Record<string, unknown> {
  const vocabulary = byteCharacters();
  const merges = MERGES.split('|');
  for (const merge of merges) vocabulary.push(merge.replace(' ', ''));
  return {
    version: '1.0',
    added_tokens: added.map(({ text, special = true }, index) => ({
      id: vocabulary.length + index,
      content: text,
      special,
      normalized: false,
      lstrip: false,
      rstrip: false,
      single_word: false,
    })),
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: WORDS }, behavior: 'Isolated', invert: false },
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
      ],
    },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
      merges,
    },
  };
}

/** GPT-2's printable stand-ins for the 256 bytes, in the order of its vocabulary. */
function byteCharacters(): string[] {
  const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at);
  const printable = [...range(33, 126), ...range(161, 172), ...range(174, 255)];
  const rest = range(0, 255).filter((byte) => !printable.includes(byte));
  return [...printable, ...rest.map((_, at) => 256 + at)].map((code) => String.fromCharCode(code));
}

export function byteLevelTokenizer(added: readonly Added[], config: Record<string, unknown> = {}): Tokenizer {
  return createTokenizer(byteLevelTokenizerJson(added), config);
}

export function templateFile(name: string): string {
  return readFileSync(new URL(`data/chat-templates/${name}.jinja`, import.meta.url), 'utf8');
}

export const CHATML_TOKENS: readonly Added[] = [
  { text: '<|endoftext|>' },
  { text: '<|im_start|>' },
  { text: '<|im_end|>' },
  { text: '<tool_call>', special: false },
  { text: '</tool_call>', special: false },
  { text: '<think>', special: false },
  { text: '</think>', special: false },
];

export function chatmlTokenizer(): Tokenizer {
  return byteLevelTokenizer(CHATML_TOKENS, { eos_token: '<|im_end|>', pad_token: '<|endoftext|>' });
}

/** Our own small ChatML model; `template` replaces its chat template. */
export function chatmlFormat(options: Partial<ChatFormatOptions> = {}): ChatFormat {
  return createChatFormat({ tokenizer: chatmlTokenizer(), template: templateFile('chatml'), ...options });
}

/** A family's own small tokenizer and template. */
export function familyFormat({ format: toolFormat, special, plain, config, template }: Family): {
  readonly tokenizer: Tokenizer;
  readonly format: ChatFormat;
} {
  const tokenizer = byteLevelTokenizer(
    [...special.map((text) => ({ text })), ...plain.map((text) => ({ text, special: false }))],
    config,
  );
  const format = template
    ? createChatFormat({ tokenizer, template: templateFile(template) })
    : createChatFormat({ tokenizer, template: templateFile('chatml'), toolFormat });
  return { tokenizer, format };
}

const GOLDEN = ['qwen3', 'llama3', 'gemma4'] as const;

const SHARED = {
  'Qwen2.5': 'data/tokenizers/qwen2_5',
  Qwen3: 'data/tokenizers/qwen3',
  MiniMind2: 'models/minimind2-small',
  SmolLM2: 'data/tokenizers/smollm2',
} as const;

export type SharedName = keyof typeof SHARED;

export interface SharedModel {
  readonly json: unknown;
  readonly config: { readonly chat_template: string };
  readonly tokenizer: Tokenizer;
  readonly template: string;
}

const opened = new Map<string, SharedModel>();

/** Tokenizers with the structure of real families, and the real ones that are there. */
export function familyModels(): (readonly [name: string, model: SharedModel])[] {
  const golden = GOLDEN.map((name) => {
    const folder = new URL(`golden/chat/${name}/`, import.meta.url);
    return [`the structure of ${name}`, openModel(name, folder)] as const;
  });
  const shared = (Object.keys(SHARED) as SharedName[]).flatMap((name) => {
    const model = sharedModel(name);
    return model ? [[name, model] as const] : [];
  });
  return [...golden, ...shared];
}

/** A real model's tokenizer and template, or undefined where ../shared is not there. */
export function sharedModel(name: SharedName): SharedModel | undefined {
  const folder = new URL(`../../shared/${SHARED[name]}/`, import.meta.url);
  return existsSync(folder) ? openModel(name, folder) : undefined;
}

function openModel(name: string, folder: URL): SharedModel {
  let model = opened.get(name);
  if (!model) {
    const read = (file: string) => JSON.parse(readFileSync(new URL(file, folder), 'utf8'));
    const [json, config] = [read('tokenizer.json'), read('tokenizer_config.json')];
    model = { json, config, tokenizer: createTokenizer(json, config), template: config.chat_template };
    opened.set(name, model);
  }
  return model;
}
