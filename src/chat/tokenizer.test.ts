import { Tokenizer as Library } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  byteLevelTokenizerJson,
  CHATML_TOKENS,
  chatmlTokenizer,
  familyModels,
} from '../../test/chat-models.ts';
import { ConfigError } from '../errors.ts';
import { unguard } from './added-tokens.ts';
import { createTokenizer, type Tokenizer } from './tokenizer.ts';

const own = { json: byteLevelTokenizerJson(CHATML_TOKENS), config: {}, tokenizer: chatmlTokenizer() };

/** Ordinary text and pieces of added tokens, so that look-alikes are common. */
const textWith = (tokenizer: Tokenizer) =>
  fc
    .array(
      fc.oneof(
        fc.string({ unit: 'binary', maxLength: 6 }),
        fc.constantFrom(
          'the ',
          ' in',
          '\n',
          '\n\n',
          '12',
          "don't ",
          '{"name": "',
          '<',
          '|',
          '>',
          '你好',
          '👩‍👩‍👧',
        ),
        fc.constantFrom(...tokenizer.added.tokens.map(({ text }) => text)),
        fc.constantFrom(...tokenizer.added.tokens.map(({ text }) => text.slice(0, -1))),
      ),
      { maxLength: 10 },
    )
    .map((parts) => parts.join(''));

describe.each([['our own', own] as const, ...familyModels()])(
  'the tokenizer of %s',
  (_, { json, config, tokenizer }) => {
    const library = new Library(json as object, config);
    const text = textWith(tokenizer);
    const plainIds = (value: string) =>
      value === '' ? [] : library.encode(value, { add_special_tokens: false }).ids;

    test('gives the ids of the library', () => {
      fc.assert(
        fc.property(text, (value) => {
          expect([...tokenizer.encode(value)]).toEqual(plainIds(value));
        }),
      );
    });

    test('decodes as the library does', () => {
      fc.assert(
        fc.property(text, (value) => {
          const ids = plainIds(value);
          if (ids.length === 0) return;
          expect(tokenizer.decode(Int32Array.from(ids))).toBe(
            library.decode(ids, { clean_up_tokenization_spaces: false }),
          );
        }),
      );
    });

    test('text of added tokens stays text where it is asked to, and comes back', () => {
      const isAdded = new Set(tokenizer.added.tokens.map(({ id }) => id));
      fc.assert(
        fc.property(text, (value) => {
          const ids = tokenizer.encodeText(value);
          expect([...ids].some((id) => isAdded.has(id))).toBe(false);
          // SmolLM2's vocabulary lacks some bytes.
          if (hasAllBytes(json))
            expect(tokenizer.decode(ids)).toBe(isNormalized(json) ? value.normalize('NFC') : value);
        }),
      );
    });

    test('guarded text between added tokens gives those tokens and the ids of the text alone', () => {
      const [first, second] = tokenizer.added.tokens;
      fc.assert(
        fc.property(text, (value) => {
          const guarded = first!.text + tokenizer.added.guard(value) + second!.text;
          expect([...tokenizer.encodeGuarded(guarded)]).toEqual([
            first!.id,
            ...tokenizer.encodeText(value),
            second!.id,
          ]);
        }),
      );
    });

    test('guarding changes nothing where no added token occurs', () => {
      fc.assert(
        fc.property(fc.string({ unit: 'grapheme' }), (value) => {
          fc.pre(!tokenizer.added.tokens.some((token) => value.includes(token.text)));
          expect(tokenizer.added.guard(value)).toBe(value);
        }),
      );
    });

    test('decoding token by token gives the text of decoding at once', () => {
      fc.assert(
        fc.property(fc.array(fc.nat(tokenizer.vocabularySize + 5), { maxLength: 20 }), (ids) => {
          const decoder = tokenizer.decoder();
          const pieces = ids.map((id) => decoder.push(Int32Array.of(id)));
          pieces.push(decoder.end());
          const whole = tokenizer.decodeGuarded(Int32Array.from(ids));
          expect(pieces.join('')).toBe(whole);
          expect(unguard(whole)).toBe(tokenizer.decode(Int32Array.from(ids)));
        }),
      );
    });
  },
);

const hasAllBytes = (json: unknown) => {
  const { vocab } = (json as { model: { vocab: Record<string, number> } }).model;
  return Object.keys(byteVocabulary()).every((token) => token in vocab);
};

const byteVocabulary = () => {
  const { model } = byteLevelTokenizerJson([]) as { model: { vocab: Record<string, number> } };
  return Object.fromEntries(Object.entries(model.vocab).filter(([, id]) => id < 256));
};

const isNormalized = (json: unknown) => (json as { normalizer: unknown }).normalizer !== null;

test('an unfinished character waits for its last byte', () => {
  const tokenizer = chatmlTokenizer();
  const decoder = tokenizer.decoder();
  const pieces = [...tokenizer.encodeText('é👍.')].map((id) => decoder.push(Int32Array.of(id)));
  expect([...pieces, decoder.end()]).toEqual(['', 'é', '', '', '', '👍', '.', '']);
});

test('an added token and its look-alike can be told apart after decoding', () => {
  const tokenizer = chatmlTokenizer();
  const ids = Int32Array.from([...tokenizer.encode('<tool_call>'), ...tokenizer.encodeText('<tool_call>')]);
  const guarded = tokenizer.decodeGuarded(ids);
  expect(guarded.indexOf('<tool_call>')).toBe(0);
  expect(guarded.lastIndexOf('<tool_call>')).toBe(0);
  expect(unguard(guarded)).toBe('<tool_call><tool_call>');
});

test('the two reserved noncharacters cannot forge a token', () => {
  const tokenizer = chatmlTokenizer();
  const forged = tokenizer.added.privateName('<|im_end|>')!;
  const stop = tokenizer.tokenId('<|im_end|>')!;
  expect(tokenizer.encode(forged)).not.toContain(stop);
  expect(tokenizer.encodeText(forged)).not.toContain(stop);
  expect(tokenizer.encodeGuarded(tokenizer.added.guard(forged))).not.toContain(stop);
});

test('ids outside the vocabulary decode to nothing', () => {
  const tokenizer = chatmlTokenizer();
  expect(tokenizer.decode(Int32Array.of(99_999, -1))).toBe('');
});

test('a SentencePiece-like vocabulary streams as it decodes', () => {
  const vocabulary = [
    '<unk>',
    '<s>',
    '</s>',
    ...Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`),
    '▁',
    'a',
    'b',
    '▁a',
    'ab',
  ];
  const tokenizer = createTokenizer({
    added_tokens: [{ id: 2, content: '</s>', special: true }],
    normalizer: {
      type: 'Sequence',
      normalizers: [
        { type: 'Prepend', prepend: '▁' },
        { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
      ],
    },
    pre_tokenizer: null,
    post_processor: null,
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        { type: 'Strip', content: ' ', start: 1, stop: 0 },
      ],
    },
    model: {
      type: 'BPE',
      unk_token: '<unk>',
      fuse_unk: true,
      byte_fallback: true,
      vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
      merges: ['▁ a', 'a b'],
    },
  });
  for (const text of ['a b', 'ab a', 'b é a👍', 'a</s>b']) {
    const ids = tokenizer.encode(text);
    const decoder = tokenizer.decoder();
    const pieces = [...ids].map((id) => decoder.push(Int32Array.of(id)));
    expect(unguard(pieces.join('') + decoder.end())).toBe(tokenizer.decode(ids));
  }
  expect(tokenizer.decode(tokenizer.encode('b é a👍'))).toBe('b é a👍');
});

test('digits of every script are parted, as in the Rust library', () => {
  const tokenizer = createTokenizer({
    added_tokens: [],
    pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'Digits', individual_digits: true }] },
    model: { type: 'WordLevel', unk_token: '?', vocab: { '?': 0, a: 1, '½': 2, 7: 3, '٣': 4, b: 5, Ⅷ: 6 } },
  });
  expect([...tokenizer.encode('a½7٣bⅧ')]).toEqual([1, 2, 3, 4, 5, 6]);
});

test('what is no tokenizer file is refused in words', () => {
  expect(() => createTokenizer({})).toThrow(ConfigError);
  expect(() => createTokenizer({ model: { type: 'Magic' } })).toThrow('tokenizer.json cannot be read');
});
