import { checkTokenizer } from '../../../src/chat/check-tokenizer.ts';
import { createTokenizer } from '../../../src/chat/tokenizer.ts';
import { parseModelConfig } from '../../../src/engine/model/config.ts';
import { jsonFault } from '../../../src/lib/json-fault.ts';
import { byteTokenizerJson } from '../../../testing/byte-model.ts';
import type { FuzzTarget } from '../target.ts';

const vocab = { a: 0, b: 1, ab: 2, ' ': 3, '<e>': 4 };
const small = {
  added_tokens: [{ id: 4, content: '<e>', special: true, lstrip: false, rstrip: false }],
  normalizer: {
    type: 'Sequence',
    normalizers: [{ type: 'NFC' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }],
  },
  pre_tokenizer: { type: 'Split', pattern: { Regex: '\\s+' }, behavior: 'Isolated', invert: false },
  decoder: { type: 'ByteFallback' },
  model: { type: 'BPE', vocab, merges: [['a', 'b']], byte_fallback: true, unk_token: '<e>' },
};
const config = {
  ...{ model_type: 'qwen3', hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16 },
  ...{
    num_hidden_layers: 2,
    intermediate_size: 128,
    vocab_size: 300,
    rms_norm_eps: 1e-6,
    eos_token_id: [1, 2],
  },
};
const CONFIG = 'c'.charCodeAt(0);

/** `tokenizer.json` and a text to encode, or a model's `config.json` where it begins with `c`; both are JSON. */
export const target: FuzzTarget = {
  name: 'tokenizer',
  seeds: () => [
    `t${JSON.stringify(small)}`,
    `t${JSON.stringify({ ...small, model: { ...small.model, type: 'Unigram', vocab: [['a', -1]], unk_id: 0 } })}`,
    `t${JSON.stringify({ ...small, model: { type: 'WordPiece', vocab, unk_token: '<e>' } })}`,
    `t${JSON.stringify({ ...byteTokenizerJson(), model: small.model })}`,
    `c${JSON.stringify(config)}`,
    `c${JSON.stringify({ ...config, model_type: 'llama', rope_scaling: { rope_type: 'llama3' } })}`,
  ],
  words: [
    'null',
    '[]',
    '{}',
    '"type":"ByteLevel"',
    '"Sequence"',
    '"Regex":"(a+)+$"',
    '"merges":',
    '"vocab":',
    '-1',
    '""',
  ],
  run: (bytes) => {
    const text = bytes.toString('utf8', 1);
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {
      if (jsonFault(text) === undefined) throw new TypeError(`jsonFault finds nothing wrong with ${text}`);
      return;
    }
    if (jsonFault(text) !== undefined) throw new TypeError(`jsonFault says ${jsonFault(text)} of ${text}`);
    if (bytes[0] === CONFIG) {
      parseModelConfig(json, 'config.json');
      return;
    }
    checkTokenizer(json, 'tokenizer.json');
    const tokenizer = createTokenizer(json, {});
    tokenizer.decode(tokenizer.encode('ab <e> b é'));
  },
};
