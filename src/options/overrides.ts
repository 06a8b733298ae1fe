import { parseDocument } from 'yaml';
import { ConfigError } from '../errors.ts';

/**
 * Hydra's everyday grammar. `a.b=1` sets, `+a.b=1` and `++a.b=1` set as well (whether a name exists is decided by the
 * tables, not by a plus), `~a.b` takes what a file set back to its default. Values are YAML: numbers, true, null,
 * [1, 2], {a: 1}, 'quoted'.
 */
export type Override =
  | { readonly kind: 'set'; readonly key: string; readonly value: unknown; readonly source: string }
  | { readonly kind: 'unset'; readonly key: string; readonly source: string };

/** The words of a command line. A list that the shell split at its spaces is put together again. */
export function parseOverrides(words: readonly string[]): Override[] {
  const joined: string[] = [];
  let open = false;
  for (const word of words) {
    if (open) joined[joined.length - 1] += ` ${word}`;
    else joined.push(word);
    const value = joined.at(-1)!.replace(/^[^=]*=/, '');
    open = /^\s*[[{]/.test(value) && isOpen(value);
  }
  return joined.map(parseOverride);
}

function isOpen(value: string): boolean {
  const bare = value.replace(/"(?:[^"\\]|\\.)*"|'[^']*'/g, '');
  return (bare.match(/[[{]/g)?.length ?? 0) > (bare.match(/[\]}]/g)?.length ?? 0);
}

function parseOverride(source: string): Override {
  const unset = /^~([^=]+)(=.*)?$/s.exec(source);
  if (unset) return { kind: 'unset', key: keyOf(unset[1]!, source), source };
  const set = /^(\+{0,2})([^=]+)=(.*)$/s.exec(source);
  if (!set) {
    throw new ConfigError(
      `${JSON.stringify(source)} is not an override; write name=value, +name=value or ~name`,
    );
  }
  return { kind: 'set', key: keyOf(set[2]!, source), value: parseValue(set[3]!, source), source };
}

function keyOf(key: string, source: string): string {
  const trimmed = key.trim();
  if (!/^[\w@-]+([./][\w@-]+)*$/.test(trimmed)) {
    throw new ConfigError(`${JSON.stringify(source)}: ${JSON.stringify(trimmed)} is not a dotted name`);
  }
  return trimmed;
}

function parseValue(text: string, source: string): unknown {
  if (text.trim() === '') return '';
  // Text such as `##DONE##` or `<|im_end|>`, whose quotes the shell took off, would be a comment or worse to YAML.
  const flat = /^\s*\[([^[\]{}'"]*)\]\s*$/.exec(text);
  if (flat) {
    const items = flat[1]!.split(',').map((item) => item.trim());
    return items.at(-1) === '' ? items.slice(0, -1).map(scalar) : items.map(scalar);
  }
  const document = parseDocument(spaceAfterKeys(text), { logLevel: 'silent' });
  const [error] = document.errors;
  if (!error) return document.toJS() as unknown;
  // Hydra takes much as plain text that YAML does not, such as `a: b` or a leading @.
  if (!/^\s*[[{'"]/.test(text)) return text.trim();
  throw new ConfigError(
    `${JSON.stringify(source)}: the value is not closed or not well formed: ${error.message.split('\n')[0]}`,
  );
}

function scalar(text: string): unknown {
  const document = parseDocument(text, { logLevel: 'silent' });
  return /^[#<>|@`%&*!?-]+(?![\d.])/.test(text) || document.errors.length > 0
    ? text
    : (document.toJS() as unknown);
}

/** Hydra's `{a:1,b:2}` needs no space after a colon; YAML does. */
function spaceAfterKeys(text: string): string {
  let out = '';
  let quote = '';
  let depth = 0;
  let inKey = false;
  let escaped = false;
  for (const character of text) {
    out += character;
    if (quote) {
      if (character === quote && !escaped) quote = '';
      escaped = quote === '"' && character === '\\' && !escaped;
      continue;
    }
    if (character === '"' || character === "'") quote = character;
    else if (character === '{') {
      depth++;
      inKey = true;
    } else if (character === '}') depth--;
    else if (character === ',') inKey = depth > 0;
    else if (character === ':' && inKey) {
      out += ' ';
      inKey = false;
    }
  }
  return out;
}
