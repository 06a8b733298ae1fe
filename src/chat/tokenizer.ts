import { Tokenizer as Library } from '@huggingface/tokenizers';
import { ConfigError } from '../errors.ts';
import { type AddedToken, AddedTokens, sanitize, unguard } from './added-tokens.ts';
import { bytesOfToken } from './byte-level.ts';
import { withAllNumerals } from './numeric-digits.ts';

export interface IdDecoder {
  /** Text that is certain by now: an unfinished character waits for its last byte. */
  push(ids: Int32Array): string;
  end(): string;
}

/** Text ⇄ ids. Synchronous; never adds a BOS or EOS. */
export interface Tokenizer {
  readonly vocabularySize: number;
  readonly eosId: number | undefined;
  /** Text of `bos_token`, `eos_token` and so on, for chat templates that write them. */
  readonly specialTokens: Readonly<Record<string, string>>;
  readonly added: AddedTokens;
  /** Text of added tokens becomes those tokens. */
  encode(text: string): Int32Array;
  /** Text of added tokens stays text. */
  encodeText(text: string): Int32Array;
  /** Guarded text (see added-tokens.ts): only what is not broken becomes added tokens. */
  encodeGuarded(guarded: string): Int32Array;
  /** The text of all tokens; an id outside the vocabulary gives no text. */
  decode(ids: Int32Array): string;
  /** The same as guarded text: an added token and its look-alike can be told apart. */
  decodeGuarded(ids: Int32Array): string;
  /** The same while the ids arrive: what it returns, put together, is `decodeGuarded` of all ids. */
  decoder(): IdDecoder;
  tokenId(text: string): number | undefined;
}

type Json = Readonly<Record<string, unknown>>;

/** A tokenizer from the contents of `tokenizer.json` and `tokenizer_config.json`. */
export function createTokenizer(tokenizerJson: unknown, tokenizerConfig: unknown = {}): Tokenizer {
  if (!isObject(tokenizerJson) || !isObject(tokenizerJson.model)) {
    throw new ConfigError(
      'tokenizer.json has no "model": it is not a file of the Hugging Face tokenizers library',
    );
  }
  const config = isObject(tokenizerConfig) ? tokenizerConfig : {};
  const tokens = addedTokens(tokenizerJson);
  const added = new AddedTokens(tokens);
  const library = openLibrary(underPrivateNames(tokenizerJson, added), config);

  const encodeNamed = (named: string) =>
    named === ''
      ? new Int32Array(0)
      : Int32Array.from(
          library
            .encode(named, { add_special_tokens: false })
            .ids.filter((id: number | undefined) => id !== undefined),
        );
  const encodeGuarded = (guarded: string) => encodeNamed(added.name(guarded));
  const isByteLevel = JSON.stringify(tokenizerJson.decoder ?? null).includes('"ByteLevel"');
  const decoder = isByteLevel ? byteLevelDecoder(library, tokens, added) : windowDecoder(library, added);
  const decodeGuarded = (ids: Int32Array) => {
    const open = decoder();
    return open.push(ids) + open.end();
  };
  const tokenId = (text: string) => library.token_to_id(added.privateName(text) ?? text);
  const specialTokens = specialTokensOf(config);
  const { eos_token: eosToken } = specialTokens;

  return {
    vocabularySize: Math.max(library.get_vocab().size, ...tokens.map(({ id }) => id + 1)),
    eosId: eosToken === undefined ? undefined : tokenId(eosToken),
    specialTokens,
    added,
    encode: (text) => encodeGuarded(sanitize(text)),
    encodeText: (text) => encodeNamed(sanitize(text)),
    encodeGuarded,
    decode: (ids) => unguard(decodeGuarded(ids)),
    decodeGuarded,
    decoder,
    tokenId,
  };
}

function openLibrary(json: Json, config: Json): Library {
  try {
    return new Library(json, config);
  } catch (error) {
    throw new ConfigError(
      `tokenizer.json cannot be read: ${error instanceof Error ? error.message : error}`,
      {
        cause: error,
      },
    );
  }
}

/** The decoder for byte-level vocabularies, on bytes: a character may be spread over several tokens. */
function byteLevelDecoder(
  library: Library,
  tokens: readonly AddedToken[],
  added: AddedTokens,
): () => IdDecoder {
  const textOfAdded = new Map(tokens.map(({ id, text }) => [id, text]));
  const bytes = new Map<number, Uint8Array>();
  const bytesOf = (id: number) => {
    let known = bytes.get(id);
    if (!known) {
      known = bytesOfToken(library.id_to_token(id) ?? '');
      bytes.set(id, known);
    }
    return known;
  };
  return () => {
    const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
    const guard = holdingBack(added);
    return {
      push: (ids) => {
        let text = '';
        for (const id of ids) {
          const token = textOfAdded.get(id);
          if (token === undefined) text += guard.push(utf8.decode(bytesOf(id), { stream: true }));
          else text += guard.push(utf8.decode()) + guard.flush() + token;
        }
        return text;
      },
      end: () => guard.push(utf8.decode()) + guard.flush(),
    };
  };
}

/**
 * Guards ordinary text that arrives in pieces. A look-alike may be spread over pieces, so the end of the text
 * waits while it could be the start of one.
 */
function holdingBack(added: AddedTokens): { push(text: string): string; flush(): string } {
  const longest = Math.max(0, ...added.tokens.map(({ text }) => text.length));
  const firsts = new Set(added.tokens.map(({ text }) => text[0]));
  let held = '';
  return {
    push: (text) => {
      held += text;
      let cut = held.length;
      for (let at = Math.max(0, held.length - longest + 1); at < held.length; at++) {
        if (
          firsts.has(held[at]) &&
          added.tokens.some(({ text: token }) => token.startsWith(held.slice(at)))
        ) {
          cut = at;
          break;
        }
      }
      // A look-alike that began before the cut must be whole before it: guard what is certain with what follows.
      const guarded = added.guard(held);
      const tail = held.length - cut;
      const certain =
        tail === 0 ? guarded : guarded.slice(0, guarded.length - added.guard(held.slice(cut)).length);
      held = held.slice(cut);
      return certain;
    },
    flush: () => {
      const certain = added.guard(held);
      held = '';
      return certain;
    },
  };
}

/**
 * For other vocabularies the library decodes. Its text depends on neighbours (a leading space), so new text is
 * the difference between two decodings of a short window; a character that is still broken waits.
 */
function windowDecoder(library: Library, added: AddedTokens): () => IdDecoder {
  const decode = (ids: readonly number[]) =>
    ids.length === 0 ? '' : library.decode([...ids], { clean_up_tokenization_spaces: false });
  return () => {
    const ids: number[] = [];
    const guard = holdingBack(added);
    let windowStart = 0;
    let decoded = 0;
    const guarded = (text: string) =>
      text
        .split(/(\uFDD0..)/s)
        .map((piece) =>
          piece.startsWith('\uFDD0') ? guard.flush() + added.reveal(piece) : guard.push(piece),
        )
        .join('');
    const advance = (atEnd: boolean) => {
      const before = decode(ids.slice(windowStart, decoded));
      const now = decode(ids.slice(windowStart));
      if (now.length <= before.length || (now.endsWith('\uFFFD') && !atEnd)) return '';
      windowStart = decoded;
      decoded = ids.length;
      return guarded(now.slice(before.length));
    };
    return {
      push: (more) => {
        for (const id of more) if (library.id_to_token(id) !== undefined) ids.push(id);
        return advance(false);
      },
      end: () => advance(true) + guard.flush(),
    };
  };
}

function addedTokens(json: Json): AddedToken[] {
  const list = Array.isArray(json.added_tokens) ? json.added_tokens : [];
  return list.filter(isObject).map((token) => ({
    id: Number(token.id),
    text: String(token.content),
    special: token.special === true,
    strips: token.lstrip === true || token.rstrip === true,
  }));
}

function specialTokensOf(config: Json): Record<string, string> {
  const entries = Object.entries(config)
    .filter(([key]) => key.endsWith('_token'))
    .map(([key, token]) => [key, isObject(token) ? token.content : token] as const);
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** The same tokenizer, knowing its added tokens only by their private names. */
function underPrivateNames(json: Json, added: AddedTokens): Json {
  const list = Array.isArray(json.added_tokens) ? json.added_tokens.filter(isObject) : [];
  const model = json.model as Json;
  return {
    decoder: null,
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    ...json,
    added_tokens: list.map((token) => ({
      ...token,
      content: added.privateName(String(token.content)) ?? token.content,
    })),
    ...('pre_tokenizer' in json && { pre_tokenizer: withAllNumerals(json.pre_tokenizer) }),
    model: { ...model, vocab: withoutAdded(model, added) },
  };
}

/** Some vocabularies list added tokens among the ordinary ones, from where text could reach them. */
function withoutAdded(model: Json, added: AddedTokens): unknown {
  const { vocab, unk_token } = model;
  if (!isObject(vocab)) return vocab;
  const listed = added.tokens.filter(({ text }) => text in vocab && text !== unk_token);
  if (listed.length === 0) return vocab;
  const rest = { ...vocab };
  for (const { text } of listed) delete rest[text];
  return rest;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
