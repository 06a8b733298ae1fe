import { ConfigError } from '../errors.ts';
import { BoundedRegExp } from '../lib/bounded-regexp.ts';
import { MOST_IDS } from './added-tokens.ts';

/** Runs of one kind of character, and what follows them: on such a text a pattern that goes back again and again takes longest. */
const RUNS = ['a', '1', ' ', '\n', '.', 'é', 'a ', "a'", '1a', 'aA'];
const PROBES = RUNS.flatMap((run) => ['', '\u0000', '!'].map((end) => run.repeat(60) + end));

/** Refuses a `tokenizer.json` that would keep the tokenizer busy, or its memory full, whatever text it is given. */
export function checkTokenizer(tokenizerJson: unknown, file: string): void {
  checkIds(tokenizerJson, file);
  checkPatterns(tokenizerJson, file);
}

/** Tokens are listed by their id, so the largest id is what is reserved. */
function checkIds(tokenizerJson: unknown, file: string): void {
  const { vocab } = ((tokenizerJson as Record<string, unknown> | null)?.model ?? {}) as Record<
    string,
    unknown
  >;
  if (typeof vocab !== 'object' || vocab === null || Array.isArray(vocab)) return;
  const ids = vocab as Record<string, unknown>;
  for (const token in ids) {
    const id = ids[token]; // a list of 150,000 entries would take three times as long
    if (Number.isInteger(id) && (id as number) >= 0 && (id as number) < MOST_IDS) continue;
    throw new ConfigError(`${file}: the token ${JSON.stringify(token)} has the id ${JSON.stringify(id)}`);
  }
}

/**
 * A tokenizer splits every text by patterns, without a time limit: it would cost more than the splitting. So each pattern is
 * tried, within a limit, before it is used.
 */
function checkPatterns(tokenizerJson: unknown, file: string): void {
  for (const source of patternsIn(tokenizerJson)) {
    const pattern = patternOf(source);
    if (!pattern) continue; // in another dialect; the library translates it or refuses
    for (const probe of PROBES) {
      try {
        pattern.test(probe);
      } catch (cause) {
        throw new ConfigError(`${file}: ${(cause as Error).message}; no tokenizer needs such a one`, {
          cause,
        });
      }
    }
  }
}

function patternOf(source: string): BoundedRegExp | undefined {
  try {
    return new BoundedRegExp(source, 'u');
  } catch {
    return undefined;
  }
}

/** Of the parts that split, change or join text; the vocabulary is large and has none. */
function patternsIn(json: unknown): string[] {
  const { normalizer, pre_tokenizer, decoder } = (json ?? {}) as Record<string, unknown>;
  const found: string[] = [];
  const walk = (value: unknown, depth: number): void => {
    if (typeof value !== 'object' || value === null || depth > 50) return;
    for (const [name, part] of Object.entries(value)) {
      if (name === 'Regex' && typeof part === 'string') found.push(part);
      else walk(part, depth + 1);
    }
  };
  for (const part of [normalizer, pre_tokenizer, decoder]) walk(part, 0);
  return found;
}
