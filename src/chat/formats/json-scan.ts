import { callsFromJson, type JsonShape, malformed, type Piece, readJson, words } from './grammar.ts';
import { readLiteral } from './python-literal.ts';

/** An object that begins like a call, in JSON or as a Python dictionary. */
const CALL_START = /\{\s*(["'])(?:name|type|function|id|parameters|arguments)\1\s*:/g;

/** What a list of calls puts after a call, and in front of its first. */
const AFTER_CALL = /^(?:\s*[\],;])+/;
const BEFORE_CALL = /\[\s*$/;

/**
 * Reads text in which JSON calls stand, alone or in a list, with or without words around them. Each character
 * is looked at once: after a call that does not end, there is nothing more to find.
 */
export function readJsonCalls(text: string, shape: JsonShape): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  const takeWords = (until: number) => {
    let between = text.slice(at, until);
    if (at > 0) between = between.replace(AFTER_CALL, '');
    if (until < text.length) between = between.replace(BEFORE_CALL, '');
    pieces.push(...words(between));
  };
  CALL_START.lastIndex = 0;
  for (let start = CALL_START.exec(text); start; start = CALL_START.exec(text)) {
    const end = endOfJson(text, start.index, start[1]);
    takeWords(start.index);
    if (end < 0) {
      pieces.push(malformed('the tool call is not closed: its JSON does not end', text.slice(start.index)));
      return pieces;
    }
    pieces.push(...readCall(text.slice(start.index, end), shape));
    at = end;
    CALL_START.lastIndex = end;
  }
  takeWords(text.length);
  return pieces;
}

function readCall(source: string, shape: JsonShape): Piece[] {
  const parsed = readJson(source);
  if ('value' in parsed) return callsFromJson(parsed.value, shape, source);
  const literal = readLiteral(source);
  if (literal) return callsFromJson(literal.value, shape, source);
  return [malformed(`the tool call is not valid JSON: ${parsed.error}`, source)];
}

/** Where the object or list that begins at `start` ends; -1 if it does not. */
export function endOfJson(text: string, start: number, quote = '"'): number {
  let depth = 0;
  let inString = false;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (inString) {
      if (character === '\\') at++;
      else if (character === quote) inString = false;
    } else if (character === quote) inString = true;
    else if (character === '{' || character === '[') depth++;
    else if (character === '}' || character === ']') {
      depth--;
      if (depth === 0) return at + 1;
    }
  }
  return -1;
}
