/** Text that is not JSON, as soon as that is certain. */
export class NotJson extends Error {}

/** Told of what is found, with the number of objects and lists around it. */
export interface JsonListener {
  key?(depth: number, text: string): void;
  /** A string that is a value. */
  string?(depth: number, text: string): void;
  open?(depth: number, bracket: '{' | '['): void;
}

type Expected = 'value' | 'value or end' | 'key' | 'key or end' | 'colon' | 'comma or end' | 'nothing';

/** Written by the tokenizer's side into letters that look like a mark; it is no part of the text. */
const BREAKER = '\uFDD1';
const SPACE = /[ \t\n\r]/;
const BARE = /[-+.\w]/;
const LONGEST_BARE = 400;
const DEEPEST = 200;

/**
 * JSON in, letter by letter; out comes what `JSON.stringify` would write, as far as it is certain. Keys stay in their order,
 * also numbers, and also those that are given twice.
 */
export class CompactJson {
  readonly #listener: JsonListener;
  readonly #open: ('{' | '[')[] = [];
  #expected: Expected = 'value';
  /** A number or a word that is not complete. */
  #bare = '';
  /** The string that is open, decoded. */
  #string: string | undefined;
  #isKey = false;
  #escape = '';
  /** The first half of a character, until the second is there. */
  #high = '';

  constructor(listener: JsonListener = {}) {
    this.#listener = listener;
  }

  get depth(): number {
    return this.#open.length;
  }

  get isDone(): boolean {
    return this.#expected === 'nothing';
  }

  /** Throws NotJson. */
  push(letter: string): string {
    if (this.#string !== undefined) return this.#inString(letter);
    if (this.#bare !== '') {
      if (BARE.test(letter)) return this.#growBare(letter);
      return this.#endBare() + this.push(letter);
    }
    return SPACE.test(letter) ? '' : this.#structure(letter);
  }

  #structure(letter: string): string {
    const expected = this.#expected;
    const isValue = expected === 'value' || expected === 'value or end';
    if (letter === '"' && (isValue || expected === 'key' || expected === 'key or end')) {
      this.#string = '';
      this.#isKey = !isValue;
      return letter;
    }
    if ((letter === '{' || letter === '[') && isValue) {
      if (this.depth >= DEEPEST) throw new NotJson();
      this.#listener.open?.(this.depth, letter);
      this.#open.push(letter);
      this.#expected = letter === '{' ? 'key or end' : 'value or end';
      return letter;
    }
    if (letter === ':' && expected === 'colon') {
      this.#expected = 'value';
      return letter;
    }
    if (letter === ',' && expected === 'comma or end') {
      this.#expected = this.#open.at(-1) === '{' ? 'key' : 'value';
      return letter;
    }
    const isEnd = letter === (this.#open.at(-1) === '{' ? '}' : ']');
    if (isEnd && this.depth > 0 && expected.endsWith('or end')) {
      this.#open.pop();
      this.#afterValue();
      return letter;
    }
    if (isValue && BARE.test(letter)) return this.#growBare(letter);
    throw new NotJson();
  }

  #growBare(letter: string): string {
    this.#bare += letter;
    if (this.#bare.length > LONGEST_BARE) throw new NotJson();
    return '';
  }

  #endBare(): string {
    try {
      const text = JSON.stringify(JSON.parse(this.#bare));
      this.#bare = '';
      this.#afterValue();
      return text;
    } catch {
      throw new NotJson();
    }
  }

  #inString(letter: string): string {
    if (this.#escape !== '') {
      this.#escape += letter;
      if (this.#escape[1] === 'u' && this.#escape.length < 6) return '';
      const whole = this.#escape;
      this.#escape = '';
      try {
        return this.#grow(JSON.parse(`"${whole}"`) as string);
      } catch {
        throw new NotJson();
      }
    }
    if (letter === '\\') {
      this.#escape = letter;
      return '';
    }
    if (letter === '"') return this.#endString();
    if (letter < ' ') throw new NotJson();
    return letter === BREAKER ? '' : this.#grow(letter);
  }

  #grow(letter: string): string {
    this.#string += letter;
    const text = this.#high + letter;
    this.#high = /[\uD800-\uDBFF]$/.test(text) ? letter : '';
    return escaped(text.slice(0, text.length - this.#high.length));
  }

  #endString(): string {
    const [text, rest] = [this.#string!, escaped(this.#high)];
    this.#string = undefined;
    this.#high = '';
    if (this.#isKey) {
      this.#expected = 'colon';
      this.#listener.key?.(this.depth, text);
    } else {
      this.#afterValue();
      this.#listener.string?.(this.depth, text);
    }
    return `${rest}"`;
  }

  #afterValue(): void {
    this.#expected = this.depth === 0 ? 'nothing' : 'comma or end';
  }
}

/** As it stands between the quotes of a JSON string. */
const escaped = (text: string) => JSON.stringify(text).slice(1, -1);
