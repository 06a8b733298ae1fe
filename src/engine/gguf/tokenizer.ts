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

const NORMAL = 1;
const CONTROL = 3;
const USER_DEFINED = 4;

/** File names and contents. */
export function tokenizerFiles(file: GgufFile): Readonly<Record<string, unknown>> {
  const get = (name: string) => file.metadata.get(`tokenizer.${name}`);
  const kind = get('ggml.model');
  const cut = String(get('ggml.pre') ?? 'default');
  const tokens = texts(get('ggml.tokens'));
  const merges = texts(get('ggml.merges'));
  const scores = get('ggml.scores');
  const types = get('ggml.token_type');
  const typeOf = (id: number) => (Array.isArray(types) ? types[id] : undefined);
  let text: object | undefined;
  if (kind === 'gpt2' && Object.hasOwn(CUTS, cut) && tokens && merges) text = byteLevel(tokens, merges, cut);
  if (kind === 'llama' && tokens && Array.isArray(scores)) {
    const isNormal = (id: number) => (typeOf(id) ?? NORMAL) === NORMAL;
    const unknown = get('ggml.unknown_token_id');
    text = sentencePiece(tokens, {
      merges: mergesByScore(tokens, scores.map(Number), isNormal),
      unknown: typeof unknown === 'number' ? tokens[unknown] : undefined,
      isPrefixed: get('ggml.add_space_prefix') !== false,
    });
  }
  if (!text || !tokens) {
    throw new ConfigError(
      `${file.path}: its tokenizer (${String(kind)}, ${cut}) is not implemented; SentencePiece's BPE (llama) and byte-level ` +
        `BPE (gpt2) cut as ${Object.keys(CUTS).join(', ')} are. Give the model's own with --tokenizer`,
    );
  }
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
    'tokenizer.json': { version: '1.0', truncation: null, padding: null, added_tokens: added, ...text },
    'tokenizer_config.json': {
      tokenizer_class: 'PreTrainedTokenizerFast',
      clean_up_tokenization_spaces: false,
      ...Object.assign({}, ...['bos', 'eos', 'unknown', 'padding'].map(named)),
      ...(typeof template === 'string' ? { chat_template: template } : {}),
    },
  };
}

const model = (tokens: readonly string[], merges: readonly (string | readonly string[])[]) => ({
  type: 'BPE',
  dropout: null,
  unk_token: null as string | null,
  continuing_subword_prefix: null,
  end_of_word_suffix: null,
  fuse_unk: false,
  byte_fallback: false,
  ignore_merges: false,
  vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
  merges,
});

function byteLevel(tokens: readonly string[], merges: readonly string[], cut: string): object {
  return {
    normalizer: null,
    pre_tokenizer: CUTS[cut],
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: { ...model(tokens, merges), ignore_merges: cut === 'llama-bpe' },
  };
}

/** Spaces are written ▁, and what no token holds in tokens of single bytes. */
function sentencePiece(
  tokens: readonly string[],
  {
    merges,
    unknown,
    isPrefixed,
  }: {
    readonly merges: readonly (readonly string[])[];
    readonly unknown: string | undefined;
    /** Whether a text begins with a space that it does not have. */
    readonly isPrefixed: boolean;
  },
): object {
  const replace = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
  const back = { type: 'Replace', pattern: { String: '▁' }, content: ' ' };
  const decoders = [back, { type: 'ByteFallback' }, { type: 'Fuse' }];
  return {
    normalizer: isPrefixed
      ? { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, replace] }
      : replace,
    pre_tokenizer: null,
    post_processor: null,
    decoder: {
      type: 'Sequence',
      decoders: isPrefixed ? [...decoders, { type: 'Strip', content: ' ', start: 1, stop: 0 }] : decoders,
    },
    model: { ...model(tokens, merges), unk_token: unknown ?? null, fuse_unk: true, byte_fallback: true },
  };
}

/**
 * SentencePiece joins the neighbours whose whole has the highest score; a list of merges in the order of the scores does
 * the same. Every way to make a token of two others is one.
 */
function mergesByScore(
  tokens: readonly string[],
  scores: readonly number[],
  isNormal: (id: number) => boolean,
): readonly (readonly [string, string])[] {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const found: { readonly pair: readonly [string, string]; readonly score: number }[] = [];
  for (const [id, token] of tokens.entries()) {
    if (!isNormal(id)) continue;
    for (let at = 1; at < token.length; at++) {
      const pair = [token.slice(0, at), token.slice(at)] as const;
      if (ids.has(pair[0]) && ids.has(pair[1])) found.push({ pair, score: scores[id]! });
    }
  }
  return found.sort((a, b) => b.score - a.score).map(({ pair }) => pair);
}

const TOKEN_NAMES: Readonly<Record<string, string>> = { unknown: 'unk', padding: 'pad' };

function texts(value: GgufValue | undefined): readonly string[] | undefined {
  return Array.isArray(value) && value.every((one) => typeof one === 'string') ? value : undefined;
}
