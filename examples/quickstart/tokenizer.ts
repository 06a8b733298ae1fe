import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BYTE_CHARACTERS } from 'rollcall/chat';

/**
 * A tokenizer for a task of few words, in the Hugging Face `tokenizer.json` form: the words of given texts, single
 * digits, and single bytes for whatever else is written, so that any text encodes and decodes exactly. It is a
 * byte-level BPE without merges that takes a piece whole if the vocabulary has it (`ignore_merges`). Digits stand
 * alone because copying numbers is what a tiny model finds hard.
 */

const SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<tool_call>', '</tool_call>'];
/** A word with the space before it, a digit, a run of punctuation, or one white-space character. */
const PIECE = String.raw` ?[A-Za-z]+|\d| ?[^\sA-Za-z\d]+|\s`;

export const CHAT_TEMPLATE = [
  "{%- if tools %}{{- '<|im_start|>system\\nTools:' }}{%- for tool in tools %}",
  "{{- '\\n' + tool.function.name + ': ' + tool.function.description }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}",
  "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}",
  '{%- if message.content %}{{- message.content }}{%- endif %}',
  '{%- for call in message.tool_calls or [] %}{%- if call.function %}{%- set call = call.function %}{%- endif %}',
  '{{- \'<tool_call>{"name":"\' + call.name + \'","arguments":{\' }}',
  "{%- for key, value in call.arguments | items %}{{- key | tojson + ':' + value | tojson }}",
  "{%- if not loop.last %}{{- ',' }}{%- endif %}{%- endfor %}{{- '}}</tool_call>' }}{%- endfor %}",
  "{{- '<|im_end|>\\n' }}{%- endfor %}",
  "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
].join('\n');

function vocabulary(texts: readonly string[]): Map<string, number> {
  const pieces = texts.flatMap((text) => text.match(new RegExp(PIECE, 'g')) ?? []);
  const words = [...new Set(pieces)].filter((piece) => piece.length > 1).sort();
  const entries = [...SPECIAL, ...BYTE_CHARACTERS, ...words.map(inByteLetters)];
  return new Map(entries.map((piece, id) => [piece, id]));
}

function inByteLetters(text: string): string {
  return Array.from(Buffer.from(text), (byte) => BYTE_CHARACTERS[byte]!).join('');
}

export function createTokenizerFiles(texts: readonly string[]): Readonly<Record<string, object>> {
  const vocab = vocabulary(texts);
  const tokenizer = {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: SPECIAL.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      // As in Qwen's tokenizers, the marks of a tool call survive `skip_special_tokens`.
      special: !content.includes('tool_call'),
    })),
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: PIECE }, behavior: 'Isolated', invert: false },
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
      ],
    },
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
      ignore_merges: true,
      vocab: Object.fromEntries(vocab),
      merges: [],
    },
  };
  const config = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    eos_token: '<|im_end|>',
    pad_token: '<|endoftext|>',
    clean_up_tokenization_spaces: false,
    model_max_length: 512,
    chat_template: CHAT_TEMPLATE,
  };
  return { 'tokenizer.json': tokenizer, 'tokenizer_config.json': config };
}

/** Writes the tokenizer into a model directory. */
export async function writeTokenizer(directory: string, texts: readonly string[]): Promise<void> {
  await mkdir(directory, { recursive: true });
  for (const [name, content] of Object.entries(createTokenizerFiles(texts))) {
    await writeFile(join(directory, name), `${JSON.stringify(content, null, 1)}\n`);
  }
}
