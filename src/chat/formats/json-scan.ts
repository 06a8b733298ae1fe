import { callFromJson, malformed, type Piece, readJson } from './grammar.ts';

/** An object that begins like a call. */
const CALL_START = /\{\s*"(?:name|type|function|id|parameters|arguments)"\s*:/g;

/** What a list of calls puts after a call, and in front of its first. */
const AFTER_CALL = /^(?:\s*[\],;])+/;
const BEFORE_CALL = /\[\s*$/;

/**
 * Reads text in which JSON calls stand, alone or in a list, with or without words around them. Each character
 * is looked at once: after a call that does not end, there is nothing more to find.
 */
export function readJsonCalls(text: string, keys: readonly string[]): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  const takeWords = (until: number) => {
    let words = text.slice(at, until);
    if (at > 0) words = words.replace(AFTER_CALL, '');
    if (until < text.length) words = words.replace(BEFORE_CALL, '');
    if (words.trim() !== '') pieces.push({ kind: 'content', text: words });
  };
  CALL_START.lastIndex = 0;
  for (let start = CALL_START.exec(text); start; start = CALL_START.exec(text)) {
    const end = endOfJson(text, start.index);
    takeWords(start.index);
    if (end < 0) {
      pieces.push(malformed('the tool call is not closed: its JSON does not end', text.slice(start.index)));
      return pieces;
    }
    pieces.push(readCall(text.slice(start.index, end), keys));
    at = end;
    CALL_START.lastIndex = end;
  }
  takeWords(text.length);
  return pieces;
}

function readCall(source: string, keys: readonly string[]): Piece {
  const parsed = readJson(source);
  if ('error' in parsed) return malformed(`the tool call is not valid JSON: ${parsed.error}`, source);
  const value = parsed.value as Record<string, unknown>;
  // OpenAI's own form wraps the call: {"type": "function", "function": {…}}
  const inner = typeof value.function === 'object' && value.function !== null ? value.function : value;
  return callFromJson(inner, keys, source);
}

/** Where the object or list that begins at `start` ends; -1 if it does not. */
export function endOfJson(text: string, start: number): number {
  let depth = 0;
  let inString = false;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (inString) {
      if (character === '\\') at++;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if (character === '{' || character === '[') depth++;
    else if (character === '}' || character === ']') {
      depth--;
      if (depth === 0) return at + 1;
    }
  }
  return -1;
}
