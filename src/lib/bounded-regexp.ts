/**
 * Regular expressions from elsewhere: the schema of a tool that a server offers may hold one that takes years on a text of
 * forty letters, and the text is a model's. A short text is matched at once; a longer one under a time limit, by which V8
 * itself ends the match.
 */
import { createContext, Script } from 'node:vm';

/** Below this even the worst pattern ends within milliseconds. */
const SHORT = 16;
const MILLISECONDS = 100;
/** The clock runs on while a busy machine does something else; a bad pattern fails every time. */
const TRIES = 3;

const context = createContext({ pattern: undefined, text: '' });
const matchScript = new Script('pattern.test(text)');

export class BoundedRegExp {
  readonly #pattern: RegExp;

  constructor(source: string, flags: string) {
    this.#pattern = new RegExp(source, flags);
  }

  /** Throws where the match takes too long. */
  test(text: string): boolean {
    this.#pattern.lastIndex = 0;
    if (text.length < SHORT) return this.#pattern.test(text);
    Object.assign(context, { pattern: this.#pattern, text });
    let cause: unknown;
    for (let attempt = 0; attempt < TRIES; attempt++) {
      try {
        return matchScript.runInContext(context, { timeout: MILLISECONDS }) as boolean;
      } catch (error) {
        cause = error;
      }
    }
    throw new Error(
      `the pattern ${this.#pattern} takes longer than ${MILLISECONDS} ms on a text of ${text.length} characters`,
      { cause },
    );
  }

  toString(): string {
    return String(this.#pattern);
  }
}
