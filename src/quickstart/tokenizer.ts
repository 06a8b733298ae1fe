import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DISTRACTORS, FAMILIES, PEOPLE, THINGS } from './families.ts';

/**
 * The quick start's own tokenizer, in the Hugging Face `tokenizer.json` form: whole words, single digits,
 * and every printable ASCII character for whatever else is written. It is a BPE without merges that takes a
 * piece whole if the vocabulary has it (`ignore_merges`), so any ASCII text encodes and decodes exactly.
 * Digits stand alone because copying numbers is what a tiny model finds hard.
 */

const SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<tool_call>', '</tool_call>', '<unk>'];
/** A word with the space before it, a digit, a run of punctuation, or one white-space character. */
const PIECE = String.raw` ?[A-Za-z]+|\d| ?[^\sA-Za-z\d]+|\s`;
const CHARACTERS = ['\n', ...Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index))];

/** What the dialogues say besides the problems: roles, drills, calls, answers, the calculator's errors. */
const PHRASES = [
  'system\nTools: calculator',
  'user\nassistant\ntool\n',
  'What is 1 + 2 - 3 * 4 / 5?',
  'The answer is 6.',
  '{"name":"calculator","arguments":{"expression":"7*8"}}',
  'error',
];

export const CHAT_TEMPLATE = [
  "{%- if tools %}{{- '<|im_start|>system\\nTools:' }}",
  "{%- for tool in tools %}{{- ' ' + tool.function.name }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}",
  "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}",
  '{%- if message.content %}{{- message.content }}{%- endif %}',
  '{%- for call in message.tool_calls or [] %}{%- if call.function %}{%- set call = call.function %}{%- endif %}',
  '{{- \'<tool_call>{"name":"\' + call.name + \'","arguments":{\' }}',
  "{%- for key, value in call.arguments | items %}{{- key | tojson + ':' + value | tojson }}",
  "{%- if not loop.last %}{{- ',' }}{%- endif %}{%- endfor %}{{- '}}</tool_call>' }}{%- endfor %}",
  "{{- '<|im_end|>\\n' }}{%- endfor %}",
  "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
].join('\n');

function vocabulary(): Map<string, number> {
  const sentences = [...FAMILIES.flatMap((family) => family.sentences.flat()), ...DISTRACTORS];
  const written = sentences
    .map((sentence) => sentence.replace(/\{\w\}/g, '1'))
    // A sentence may open the text, or follow another after a space.
    .flatMap((sentence) => [sentence, ` ${sentence}`])
    .concat(PEOPLE.flatMap((name) => [name, ` ${name}`]))
    .concat(THINGS.map((thing) => ` ${thing}`))
    .concat(PHRASES);
  const pieces = written.flatMap((text) => text.match(new RegExp(PIECE, 'g')) ?? []);
  const words = [...new Set(pieces)].filter((piece) => piece.length > 1).sort();
  return new Map([...SPECIAL, ...CHARACTERS, ...words].map((piece, id) => [piece, id]));
}

export function createTokenizerFiles(): Readonly<Record<string, object>> {
  const vocab = vocabulary();
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
    pre_tokenizer: { type: 'Split', pattern: { Regex: PIECE }, behavior: 'Isolated', invert: false },
    post_processor: null,
    decoder: { type: 'Fuse' },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: '<unk>',
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
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
    unk_token: '<unk>',
    clean_up_tokenization_spaces: false,
    model_max_length: 512,
    chat_template: CHAT_TEMPLATE,
  };
  return { 'tokenizer.json': tokenizer, 'tokenizer_config.json': config };
}

/** Writes the tokenizer into a model directory. */
export async function writeTokenizer(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  for (const [name, content] of Object.entries(createTokenizerFiles())) {
    await writeFile(join(directory, name), `${JSON.stringify(content, null, 1)}\n`);
  }
}
