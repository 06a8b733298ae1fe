import { type Token, Unreadable } from './tokens.ts';

/** Deeper brackets are not read: what nests so deep is not an answer. */
const MOST_DEPTH = 60;

/** A place in a row of tokens. */
export class Cursor {
  readonly #tokens: Token[];
  #at = 0;
  #depth = 0;
  /** Inside `|…|`, where the next bar closes. */
  bars = 0;
  /** Inside `\{…\}`, where a colon stands before a condition. */
  sets = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = [...tokens];
  }

  peek(ahead = 0): Token | undefined {
    return this.#tokens[this.#at + ahead];
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#tokens.length;
  }

  get position(): number {
    return this.#at;
  }

  set position(at: number) {
    this.#at = at;
  }

  take(): Token {
    const token = this.#tokens[this.#at++];
    if (!token) throw new Unreadable('ends too early');
    return token;
  }

  isSign(text: string, ahead = 0): boolean {
    const token = this.peek(ahead);
    return token?.kind === 'sign' && token.text === text;
  }

  isCommand(...names: string[]): boolean {
    const token = this.peek();
    return token?.kind === 'command' && names.includes(token.text);
  }

  takeSign(text: string): boolean {
    if (!this.isSign(text)) return false;
    this.#at++;
    return true;
  }

  takeCommand(...names: string[]): boolean {
    if (!this.isCommand(...names)) return false;
    this.#at++;
    return true;
  }

  expectSign(text: string): void {
    if (!this.takeSign(text))
      throw new Unreadable(`'${text}' is missing before '${this.peek()?.text ?? 'the end'}'`);
  }

  /** Only the first digit of a number: `\frac12` is one half. */
  takeDigit(): string {
    const token = this.take();
    if (token.text.length > 1) {
      this.#at--;
      this.#tokens[this.#at] = { ...token, text: token.text.slice(1), hasSpaceBefore: false };
    }
    return token.text[0]!;
  }

  /** The tokens inside a `{…}` that starts here, as they were written. */
  takeBraced(): string {
    this.expectSign('{');
    let [depth, text] = [1, ''];
    for (;;) {
      const token = this.take();
      if (token.kind === 'sign' && token.text === '{') depth++;
      if (token.kind === 'sign' && token.text === '}' && --depth === 0) return text;
      text += token.kind === 'command' ? `\\${token.text}` : token.text;
    }
  }

  /** Reads as if the tokens ended at a place. */
  before<T>(end: number, read: () => T): T {
    const rest = this.#tokens.splice(end);
    try {
      return read();
    } finally {
      this.#tokens.push(...rest);
    }
  }

  nested<T>(read: () => T): T {
    if (++this.#depth > MOST_DEPTH) throw new Unreadable('nests too deep');
    try {
      return read();
    } finally {
      this.#depth--;
    }
  }
}
