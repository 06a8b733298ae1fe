/**
 * Keeps apart an added token (`<|im_end|>`, `<tool_call>`) and the text that merely looks like it.
 *
 * A tokenizer matches added tokens anywhere in its input, so text of a tool or a user could end a turn or
 * forge a call. Two noncharacters of Unicode, which should not occur in text, keep the difference:
 *
 * - `guard` puts a breaker into each look-alike. Guarded text goes through a chat template like any other
 *   text: trimmed, joined, JSON-escaped. What the template itself writes is not guarded.
 * - `name` replaces each unbroken added token by a private name and removes the breakers. The tokenizer
 *   knows added tokens by their private names alone, so the rest of the text is ordinary text, and everything
 *   around it is split and merged exactly as without the breakers.
 *
 * Decoding goes the other way: `reveal` turns private names into the tokens' text and guards look-alikes, so
 * that a parser which searches for `<tool_call>` finds the token and never the text.
 */
import { ConfigError } from '../errors.ts';

const NAME = '\uFDD0';
const BREAKER = '\uFDD1';
const NAME_PATTERN = /\uFDD0(.)(.)/gs;
const RESERVED = /[\uFDD0\uFDD1]/g;
const BREAKERS = /\uFDD1/g;

/** Far more than any vocabulary has; whoever lists tokens by their id reserves as much. */
export const MOST_IDS = 2 ** 24;

export interface AddedToken {
  readonly id: number;
  readonly text: string;
  /** Said to be special by the tokenizer's files: `<|im_end|>` is, `<tool_call>` is not. */
  readonly special: boolean;
  /** Swallows white space beside it. */
  readonly strips: boolean;
}

export class AddedTokens {
  readonly tokens: readonly AddedToken[];
  readonly #byText: ReadonlyMap<string, number>;
  readonly #anywhere: RegExp;
  readonly #atStart: RegExp;
  readonly #startOfOne: RegExp;

  constructor(tokens: readonly AddedToken[]) {
    for (const { id, text } of tokens) {
      if (!(Number.isInteger(id) && id >= 0 && id < MOST_IDS)) {
        throw new ConfigError(`tokenizer.json: the added token ${JSON.stringify(text)} has the id ${id}`);
      }
    }
    // Runs of white space (Gemma writes it as ▁) and single characters are ordinary text with a token.
    this.tokens = tokens.filter(({ text }) => text.length > 1 && /[^\s▁]/.test(text));
    this.#byText = new Map(this.tokens.map(({ text }, index) => [text, index]));
    const longestFirst = this.tokens.map(({ text }) => text).sort((a, b) => b.length - a.length);
    const pattern = longestFirst.map(escapePattern).join('|') || '(?!)';
    this.#anywhere = new RegExp(pattern, 'gu');
    this.#atStart = new RegExp(pattern, 'uy');
    this.#startOfOne = new RegExp(`(?=${pattern}).`, 'gsu');
  }

  /** The private name by which the tokenizer knows an added token; undefined for what is not one. */
  privateName(text: string): string | undefined {
    const index = this.#byText.get(text);
    return index === undefined
      ? undefined
      : NAME + String.fromCharCode(0xe000 + (index >> 8), 0xe000 + (index & 255));
  }

  /** Whether guarded text can be cut in front of here: an added token is never merged with its neighbours. */
  isCutAt(guarded: string): boolean {
    this.#atStart.lastIndex = 0;
    const [token] = this.#atStart.exec(guarded) ?? [];
    return token !== undefined && !this.tokens[this.#byText.get(token)!]!.strips;
  }

  /** The added token with which guarded text ends; '' if it does not end with one. */
  lastOf(guarded: string): string {
    return this.tokens.find(({ text }) => guarded.endsWith(text))?.text ?? '';
  }

  guard(text: string): string {
    return sanitize(text).replace(this.#startOfOne, (character) => character + BREAKER);
  }

  /** Guarded text → what the tokenizer encodes. */
  name(guarded: string): string {
    return guarded.replace(this.#anywhere, (text) => this.privateName(text)!).replace(BREAKERS, '');
  }

  /** What the tokenizer decoded → guarded text. */
  reveal(decoded: string): string {
    const guarded = decoded.replace(this.#startOfOne, (character) => character + BREAKER);
    return guarded.replace(NAME_PATTERN, (_, high: string, low: string) => {
      const index = ((high.charCodeAt(0) - 0xe000) << 8) | (low.charCodeAt(0) - 0xe000);
      return this.tokens[index]?.text ?? '';
    });
  }

  /** Removes special tokens from guarded text, and keeps what only looks like one. */
  removeSpecial(guarded: string): string {
    return guarded.replace(this.#anywhere, (text) =>
      this.tokens[this.#byText.get(text)!]!.special ? '' : text,
    );
  }
}

/** Guarded text as people read it. */
export function unguard(guarded: string): string {
  return guarded.replace(BREAKERS, '');
}

/** The two reserved noncharacters are not text; in text from outside they become U+FFFD. */
export function sanitize(text: string): string {
  return text.replace(RESERVED, '\uFFFD');
}

function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
}
