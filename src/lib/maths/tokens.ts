/** An answer cut into tokens: LaTeX, or mathematics as it is typed. */
import { CHARACTERS, FUNCTIONS, isUnit } from './names.ts';

export interface Token {
  /** `sign` is one character, or a LaTeX command without its backslash in `command`. */
  readonly kind: 'number' | 'letter' | 'command' | 'sign' | 'text' | 'separator' | 'unit';
  readonly text: string;
  readonly hasSpaceBefore: boolean;
}

/** An answer that cannot be read as mathematics. */
export class Unreadable extends Error {}

export const MOST_TOKENS = 1500;

const TEXT =
  /^\\(?:text(?:bf|it|rm|normal|sf|tt)?|mathrm|mathbf|mathit|mathsf|mathtt|mbox|hbox|operatorname\*?|bm|boldsymbol|rm|bf)\s*\{/;
const SURE_THOUSANDS =
  /^\d{1,3}(?:(?:\{,\}|\\text\{,\}|\\,|\\!|,\\!|\\;|\\ |\{\\,\}|\\!\{?,\}?(?:\\!)?)\d{3})+(?!\d)(?:\.\d+)?/;
const SPACED_THOUSANDS = /^\d{1,3}(?: \d{3})+(?![\d/ ]*[\d/])(?:\.\d+)?/;
const COMMA_THOUSANDS = /^[1-9]\d{0,2}(?:,\d{3})+(?!,?\d)(?:\.\d+)?/;
const NUMBER = /^(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,4}(?![\d.a-zA-Z]))?/;
const SPACING =
  /^(?:\\[,;:!> ]|\\(?:quad|qquad|thinspace|enspace|displaystyle|textstyle|limits|nolimits|left|right|middle|[bB]ig{1,2}[lrm]?|phantom\{[^{}]*\}|hspace\{[^{}]*\}|vspace\{[^{}]*\}|mathstrut|strut|allowbreak|nonumber)(?![a-zA-Z])\.?|~|\s)+/;

/**
 * `hasThousands`: `1,234` outside of brackets is one number. With a space it is two: `32, 349`.
 */
export function tokenize(given: string, hasThousands: boolean): Token[] {
  const text = plainCharacters(given);
  const tokens: Token[] = [];
  let at = 0;
  let depth = 0;
  let hasSpaceBefore = false;
  const push = (kind: Token['kind'], value: string, length: number): void => {
    tokens.push({ kind, text: value, hasSpaceBefore });
    if (tokens.length > MOST_TOKENS) throw new Unreadable('too long');
    hasSpaceBefore = false;
    at += length;
  };
  while (at < text.length) {
    const rest = text.slice(at, at + 400);
    const space = SPACING.exec(rest);
    if (space) {
      hasSpaceBefore = true;
      at += space[0].length;
      continue;
    }
    const character = text[at]!;
    if (/[\d.]/.test(character)) {
      const number =
        SURE_THOUSANDS.exec(rest) ??
        SPACED_THOUSANDS.exec(rest) ??
        (hasThousands && depth === 0 ? COMMA_THOUSANDS.exec(rest) : null) ??
        NUMBER.exec(rest);
      if (number) {
        push('number', number[0].replaceAll('\\text', '').replace(/[^\d.eE+-]/g, ''), number[0].length);
        continue;
      }
      if (character === '.') {
        at++; // the end of a sentence
        continue;
      }
    }
    if (TEXT.test(rest)) {
      const open = text.indexOf('{', at);
      const close = closingBrace(text, open);
      if (close < 0) throw new Unreadable('a text without its closing brace');
      pushText(text.slice(open + 1, close), text.slice(at + 1, open).trim(), close + 1 - at);
      continue;
    }
    if (/[a-zA-Z]/.test(character)) {
      const word = /^[a-zA-Z]+/.exec(rest)![0];
      pushWord(word);
      continue;
    }
    if (character === '\\') {
      const command = /^\\([a-zA-Z]+\*?|.)/s.exec(rest);
      if (!command) throw new Unreadable('a lone backslash');
      const name = command[1]!;
      if (name === '{') depth++;
      if (name === '}') depth--;
      if (name === '$') at += 2;
      else push('command', name, command[0].length);
      continue;
    }
    if ('(['.includes(character)) depth++;
    if (')]'.includes(character)) depth--;
    if ('$€£¥₹"`'.includes(character)) at++;
    else if (character === '*' && text[at + 1] === '*') push('sign', '^', 2);
    else if ('<>!='.includes(character) && text[at + 1] === '=') push('sign', `${character}=`, 2);
    else push('sign', character, 1);
  }
  return tokens;

  function pushText(content: string, command: string, length: number): void {
    const words = content.trim();
    const isName = command !== 'text' && command !== 'mbox' && command !== 'hbox';
    if (/^,?\s*(?:and|or)$/i.test(words))
      push('separator', words.toLowerCase().endsWith('or') ? 'or' : 'and', length);
    else if (words === '' || /^[.;:!?]+$/.test(words)) at += length;
    else if (words === ',') push('sign', ',', length);
    else if (/^percent(?:age)?$|^pct$|^\\?%$/i.test(words)) push('command', '%', length);
    else if (Object.hasOwn(FUNCTIONS, words)) push('command', words, length);
    else if (/^(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?$/.test(words))
      push('number', words.replaceAll(',', ''), length);
    else if (isName && /^[a-zA-Z]$/.test(words)) push(isUnitHere(words) ? 'text' : 'letter', words, length);
    else if (isName && /^\\[a-zA-Z]+$/.test(words)) push('command', words.slice(1), length);
    else if (/^[A-Z](?:\s*,\s*[A-Z])+$/.test(words)) pushLetters(words, length);
    else push('text', content, length);
  }

  /** `5 \mathrm{m}` */
  function isUnitHere(letter: string): boolean {
    return tokens.at(-1)?.kind === 'number' && isUnit(letter);
  }

  /** `\text{A, C}` */
  function pushLetters(words: string, length: number): void {
    for (const word of words.match(/[A-Z,]/g)!) push(word === ',' ? 'sign' : 'letter', word, 0);
    at += length;
  }

  function pushWord(word: string): void {
    const previous = tokens.at(-1);
    const follows = previous?.kind === 'number' || previous?.kind === 'unit' || previous?.text === '}';
    const next = text.slice(at + word.length);
    const ends = /^\.?\s*(?:$|[,;=/)]|\^|\\text|[a-z]|(?:and|or)\b)/.test(next);
    if (word === 'and' || word === 'or') push('separator', word, word.length);
    else if (/^(?:percent|percentage|pct)$/i.test(word)) push('command', '%', word.length);
    else if (
      follows &&
      ends &&
      isUnit(word) &&
      (word.length > 1 || (hasSpaceBefore && !given.includes('\\')))
    )
      push('unit', word, word.length);
    else if (word === 'pi' || word === 'sqrt' || word === 'theta' || word === 'alpha' || word === 'beta')
      push('command', word, word.length);
    else if (/^(?:infinity|infty|inf|oo)$/i.test(word)) push('command', 'infty', word.length);
    else if (Object.hasOwn(FUNCTIONS, word) && word.length > 1) push('command', word, word.length);
    else if (word.length >= 4) push('text', word, word.length);
    else push('letter', word[0]!, 1);
  }
}

/** Index of the brace that closes the one at `open`; −1 if none does. */
export function closingBrace(text: string, open: number): number {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '{') depth++;
    else if (text[at] === '}' && --depth === 0) return at;
  }
  return -1;
}

const SPECIAL = new RegExp(`[${Object.keys(CHARACTERS).join('')}]`, 'gu');

const plainCharacters = (text: string) => text.replace(SPECIAL, (character) => CHARACTERS[character]!);
