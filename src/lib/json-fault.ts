/**
 * Why a text is not JSON, in words that are ours: those of `JSON.parse` differ between versions of Node, and a model that reads
 * them would be trained on other tokens. Undefined where the text is JSON.
 */
export function jsonFault(text: string): string | undefined {
  const fault = new Scan(text).document();
  if (fault === undefined) return undefined;
  return `Expected ${fault.wanted} in JSON at position ${fault.at}`;
}

interface Fault {
  readonly at: number;
  readonly wanted: string;
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y;
const WORD = /true|false|null/y;
const SPACE = /[ \t\n\r]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON has none of them in its strings
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

class Scan {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): Fault | undefined {
    const fault = this.#value();
    if (fault) return fault;
    this.#take(SPACE);
    return this.#at < this.#text.length ? this.#wants('the end') : undefined;
  }

  #value(): Fault | undefined {
    this.#take(SPACE);
    switch (this.#text[this.#at]) {
      case '{':
        return this.#list('}', 'property value', () => this.#member());
      case '[':
        return this.#list(']', 'array element', () => this.#value());
      case '"':
        return this.#string();
      default:
        return this.#take(NUMBER) || this.#take(WORD) ? undefined : this.#wants('a value');
    }
  }

  /** From its opening bracket to its closing one. */
  #list(close: string, after: string, item: () => Fault | undefined): Fault | undefined {
    this.#at++;
    this.#take(SPACE);
    if (this.#skip(close)) return undefined;
    for (;;) {
      const fault = item();
      if (fault) return fault;
      this.#take(SPACE);
      if (this.#skip(close)) return undefined;
      if (!this.#skip(',')) return this.#wants(`',' or '${close}' after ${after}`);
    }
  }

  #member(): Fault | undefined {
    this.#take(SPACE);
    if (this.#text[this.#at] !== '"') return this.#wants('double-quoted property name');
    const fault = this.#string();
    if (fault) return fault;
    this.#take(SPACE);
    return this.#skip(':') ? this.#value() : this.#wants("':' after property name");
  }

  #string(): Fault | undefined {
    this.#at++;
    do this.#take(PLAIN);
    while (this.#take(ESCAPE));
    if (this.#skip('"')) return undefined;
    return this.#wants(this.#text[this.#at] === '\\' ? 'a known escape' : 'the end of a string');
  }

  #take(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += found.length;
    return found !== '';
  }

  #skip(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #wants(wanted: string): Fault {
    return { at: this.#at, wanted };
  }
}
