/** Reads Python literals: strings, numbers, True/False/None, lists, tuples, sets, dictionaries. Never evaluates. */

export class LiteralError extends Error {
  /** How far reading came. */
  readonly at: number;
  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

const DEEPEST = 200;
const NUMBER = /[+-]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?/y;
const WORD = /[A-Za-z_]\w*/y;
const PREFIX = /[fFrRuU](?=["'])/y;
const SPACE = /\s*/y;
const CONSTANTS: Readonly<Record<string, unknown>> = {
  True: true,
  False: false,
  None: null,
  true: true,
  false: false,
  null: null,
};
const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\x07',
  '0': '\0',
  '\n': '',
};

export class LiteralReader {
  readonly text: string;
  at: number;
  /** Where the string that was read last begins and ends. */
  lastString: { readonly from: number; readonly to: number } | undefined;
  /** Ends of strings in which the model did not escape its quotes, by where they begin. */
  readonly #ends: ReadonlyMap<number, number>;

  constructor(text: string, at = 0, ends: ReadonlyMap<number, number> = new Map()) {
    this.text = text;
    this.at = at;
    this.#ends = ends;
  }

  skipSpace(): void {
    this.match(SPACE);
  }

  word(): string | undefined {
    return this.match(WORD);
  }

  /** Takes `expected` after white space, if it is there. */
  take(expected: string): boolean {
    this.skipSpace();
    if (!this.text.startsWith(expected, this.at)) return false;
    this.at += expected.length;
    return true;
  }

  expect(expected: string): void {
    if (!this.take(expected)) this.fail(`expected ${expected}`);
  }

  fail(message: string): never {
    const found =
      this.at < this.text.length ? JSON.stringify(this.text.slice(this.at, this.at + 12)) : 'the end';
    throw new LiteralError(`${message}, found ${found}`, this.at);
  }

  value(depth = 0): unknown {
    if (depth > DEEPEST) this.fail(`nested deeper than ${DEEPEST} levels`);
    this.skipSpace();
    const character = this.text[this.at];
    if (character === '"' || character === "'") return this.#strings();
    if (character === '[') return this.#sequence('[', ']', depth);
    if (character === '(') return this.#sequence('(', ')', depth);
    if (character === '{') return this.#dictionary(depth);
    const prefix = this.match(PREFIX);
    if (prefix !== undefined) return this.#prefixed(prefix.toLowerCase());
    const number = this.match(NUMBER);
    if (number !== undefined) return Number(number.replaceAll('_', ''));
    const start = this.at;
    const word = this.word();
    if (word !== undefined && Object.hasOwn(CONSTANTS, word)) return CONSTANTS[word];
    this.at = start;
    return this.fail('expected a literal value');
  }

  #sequence(open: string, close: string, depth: number): unknown[] {
    this.expect(open);
    const items: unknown[] = [];
    while (!this.take(close)) {
      items.push(this.value(depth + 1));
      if (!this.take(',')) {
        this.expect(close);
        break;
      }
    }
    return items;
  }

  /** A dictionary, or a set, which becomes a list. */
  #dictionary(depth: number): Record<string, unknown> | unknown[] {
    this.expect('{');
    const entries: [string, unknown][] = [];
    const items: unknown[] = [];
    while (!this.take('}')) {
      const key = this.value(depth + 1);
      if (this.take(':')) {
        if (typeof key !== 'string' && typeof key !== 'number') this.fail('expected a string as key');
        entries.push([String(key), this.value(depth + 1)]);
      } else items.push(key);
      if (entries.length > 0 && items.length > 0) this.fail('expected :');
      if (!this.take(',')) {
        this.expect('}');
        break;
      }
    }
    return items.length > 0 ? items : Object.fromEntries(entries);
  }

  /** `f'…'` without placeholders, `r'…'` and `u'…'`. */
  #prefixed(prefix: string): string {
    const start = this.at;
    const value = this.#string(prefix === 'r');
    if (prefix === 'f' && /[{}]/.test(value)) {
      this.at = start;
      this.fail('expected a string without placeholders');
    }
    return value;
  }

  /** Adjacent strings are one, as in Python. */
  #strings(): string {
    let whole = '';
    do {
      whole += this.#string();
      this.skipSpace();
    } while (this.text[this.at] === '"' || this.text[this.at] === "'");
    return whole;
  }

  #string(isRaw = false): string {
    const start = this.at;
    const quote = this.text[start]!;
    const isTriple = this.text.startsWith(quote.repeat(3), start);
    const close = isTriple ? quote.repeat(3) : quote;
    const end = this.#ends.get(start);
    this.at += close.length;
    const parts: string[] = [];
    let from = this.at;
    while (this.at < this.text.length) {
      if (end === undefined ? this.text.startsWith(close, this.at) : this.at === end) {
        parts.push(this.text.slice(from, this.at));
        this.lastString = { from: start, to: this.at };
        this.at += close.length;
        return parts.join('');
      }
      if (this.text[this.at] === '\\' && !isRaw) {
        parts.push(this.text.slice(from, this.at), this.#escape());
        from = this.at;
      } else this.at++;
    }
    return this.fail('the string is not closed');
  }

  #escape(): string {
    const character = this.text[this.at + 1] ?? '';
    const digits = { x: 2, u: 4, U: 8 }[character];
    if (digits !== undefined) {
      const code = this.text.slice(this.at + 2, this.at + 2 + digits);
      const point = /^[0-9a-fA-F]+$/.test(code) && code.length === digits ? Number.parseInt(code, 16) : -1;
      if (point < 0 || point > 0x10ffff) this.fail('a broken escape');
      this.at += 2 + digits;
      return String.fromCodePoint(point);
    }
    this.at += 1 + character.length;
    // An unknown escape stays as it is, as in Python.
    return ESCAPES[character] ?? (`\\'"`.includes(character) ? character : `\\${character}`);
  }

  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const [found] = pattern.exec(this.text) ?? [];
    if (found === undefined) return undefined;
    this.at += found.length;
    return found;
  }
}

/** The whole text as one literal; undefined if it is none. */
export function readLiteral(text: string): { readonly value: unknown } | undefined {
  const reader = new LiteralReader(text);
  try {
    const value = reader.value();
    reader.skipSpace();
    return reader.at === text.length ? { value } : undefined;
  } catch (error) {
    if (error instanceof LiteralError) return undefined;
    throw error;
  }
}
