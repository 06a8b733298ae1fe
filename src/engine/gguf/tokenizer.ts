/** The tokenizer inside a GGUF file, as the files of a Hugging Face model folder. */
import { ConfigError } from '../../errors.ts';
import type { GgufFile, GgufValue } from './file.ts';

const GPT2_SPLIT = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const modern = (digits: string) =>
  `${contractions}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

const split = (pattern: string) => ({
  type: 'Sequence',
  pretokenizers: [
    { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false },
    { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
  ],
});
const singleDigits = {
  type: 'Sequence',
  pretokenizers: [
    { type: 'Digits', individual_digits: true },
    { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
  ],
};

/** How text is cut before the merges, by GGUF's name for it. */
const CUTS: Readonly<Record<string, object>> = {
  default: split(GPT2_SPLIT),
  'gpt-2': split(GPT2_SPLIT),
  smollm: singleDigits,
  qwen2: split(modern('\\p{N}')),
  'llama-bpe': split(modern('\\p{N}{1,3}')),
};

const CONTROL = 3;
const USER_DEFINED = 4;

/** File names and contents. */
export function tokenizerFiles(file: GgufFile): Readonly<Record<string, unknown>> {
  const get = (name: string) => file.metadata.get(`tokenizer.${name}`);
  const kind = get('ggml.model');
  const cut = String(get('ggml.pre') ?? 'default');
  const tokens = texts(get('ggml.tokens'));
  const merges = texts(get('ggml.merges'));
  if (kind !== 'gpt2' || !Object.hasOwn(CUTS, cut) || !tokens || !merges) {
    throw new ConfigError(
      `${file.path}: its tokenizer (${String(kind)}, ${cut}) is not implemented; byte-level BPE cut as ` +
        `${Object.keys(CUTS).join(', ')} is. Give the model's own with --tokenizer`,
    );
  }
  const types = get('ggml.token_type');
  const typeOf = (id: number) => (Array.isArray(types) ? types[id] : undefined);
  const added = tokens.flatMap((content, id) => {
    const type = typeOf(id);
    if (type !== CONTROL && type !== USER_DEFINED) return [];
    const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    return [{ id, content, ...flags, special: type === CONTROL }];
  });
  const named = (name: string) => {
    const id = get(`ggml.${name}_token_id`);
    return typeof id === 'number' ? { [`${TOKEN_NAMES[name] ?? name}_token`]: tokens[id] } : {};
  };
  const template = get('chat_template');
  return {
    'tokenizer.json': {
      version: '1.0',
      truncation: null,
      padding: null,
      added_tokens: added,
      normalizer: null,
      pre_tokenizer: CUTS[cut],
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
        ignore_merges: cut === 'llama-bpe',
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
        merges,
      },
    },
    'tokenizer_config.json': {
      tokenizer_class: 'PreTrainedTokenizerFast',
      clean_up_tokenization_spaces: false,
      ...Object.assign({}, ...['bos', 'eos', 'unknown', 'padding'].map(named)),
      ...(typeof template === 'string' ? { chat_template: template } : {}),
    },
  };
}

const TOKEN_NAMES: Readonly<Record<string, string>> = { unknown: 'unk', padding: 'pad' };

function texts(value: GgufValue | undefined): readonly string[] | undefined {
  return Array.isArray(value) && value.every((one) => typeof one === 'string') ? value : undefined;
}
