import type { Keep } from './tool.ts';

/** Text ⇄ tokens, as far as shortening needs it. */
export interface TextTokens {
  encode(text: string): ArrayLike<number>;
  decode(ids: readonly number[]): string;
}

/**
 * At most `limit` tokens of a text, plus a mark that says how many were left out:
 *
 *   head       first limit tokens … (n tokens left out)
 *   tail       (n tokens left out) … last limit tokens
 *   both ends  half of each, the mark between them
 */
export function shortenToTokens(text: string, limit: number, keep: Keep, tokens: TextTokens): string {
  if (Buffer.byteLength(text) <= limit) return text; // a token has at least one byte
  const ids = Array.from(tokens.encode(text));
  if (ids.length <= limit) return text;
  return cut(ids, limit, keep, 'tokens', (part) =>
    tokens.decode([...part]).replace(/^\uFFFD+|\uFFFD+$/g, ''),
  );
}

/** The same, counted in characters (UTF-16 units are never split within a pair). */
export function shortenToCharacters(text: string, limit: number, keep: Keep): string {
  if (text.length <= limit) return text;
  const characters = Array.from(text);
  if (characters.length <= limit) return text;
  return cut(characters, limit, keep, 'characters', (part) => part.join(''));
}

function cut<Item>(
  items: readonly Item[],
  limit: number,
  keep: Keep,
  unit: string,
  join: (part: readonly Item[]) => string,
): string {
  const mark = `(${items.length - limit} ${unit} left out)`;
  if (keep === 'head') return `${join(items.slice(0, limit))}…${mark}`;
  if (keep === 'tail') return `${mark}…${join(items.slice(items.length - limit))}`;
  const head = Math.ceil(limit / 2);
  return `${join(items.slice(0, head))}…${mark}…${join(items.slice(items.length - (limit - head)))}`;
}
