/** The part of a tokenizer that matching text needs. */
export interface TokenDecoder {
  decode(ids: readonly number[]): string;
}

/** How many prompt tokens the reply's first ones are decoded after: some decoders trim a leading space. */
const CONTEXT_TOKENS = 4;
const INCOMPLETE = /\ufffd+$/;

/**
 * Finds stop strings in a reply's text as it grows, across token boundaries. Text is decoded from a short window
 * of ids, and a character whose bytes are not complete yet waits for the token that completes it.
 */
export class StopStrings {
  readonly #strings: readonly string[];
  readonly #decoder: TokenDecoder;
  readonly #keep: number;
  /** Ids still needed: those already read, as context, then those not yet read. */
  #window: number[];
  #read: number;
  #readText: string;
  /** The end of the text read so far; as much as a stop string may still begin in. */
  #tail = '';

  constructor(strings: readonly string[], decoder: TokenDecoder, prompt: Int32Array) {
    this.#strings = strings;
    this.#decoder = decoder;
    this.#keep = Math.max(...strings.map((text) => text.length)) - 1;
    this.#window = [...prompt.subarray(-CONTEXT_TOKENS)];
    this.#read = this.#window.length;
    this.#readText = decoder.decode(this.#window);
  }

  /** Adds a sampled id; true when a stop string is now complete. */
  push(id: number): boolean {
    this.#window.push(id);
    const text = this.#decoder.decode(this.#window);
    const fresh = text.slice(this.#readText.length);
    const seen = this.#tail + fresh.replace(INCOMPLETE, '');
    if (this.#strings.some((stop) => seen.includes(stop))) return true;
    if (fresh === '' || INCOMPLETE.test(fresh)) return false;
    this.#tail = this.#keep > 0 ? (this.#tail + fresh).slice(-this.#keep) : '';
    this.#window = this.#window.slice(this.#read);
    this.#read = this.#window.length;
    this.#readText = this.#decoder.decode(this.#window);
    return false;
  }
}
