import type { ToolSchema } from '../../types.ts';
import { malformed, type Piece, THINK, type ToolFormat, words } from './grammar.ts';
import { parametersOf, readPythonicCall } from './pythonic.ts';
import { typedValue, typesOf } from './typed-value.ts';

/** Where the parenthesis that opens at `start` is closed; -1 if it is not. */
function endOfParentheses(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '(') depth++;
    else if (text[at] === ')' && --depth === 0) return at;
  }
  return -1;
}

function readCalls(text: string, tools: readonly ToolSchema[]): Piece[] {
  const names = tools.map((tool) => tool.function.name.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&'));
  if (names.length === 0) return words(text);
  const pieces: Piece[] = [];
  const pattern = new RegExp(`(?<![\\w.])(${names.sort((a, b) => b.length - a.length).join('|')})\\(`, 'g');
  let at = 0;
  for (let start = pattern.exec(text); start; start = pattern.exec(text)) {
    const open = start.index + start[0].length - 1;
    const end = endOfParentheses(text, open);
    pieces.push(...words(text.slice(at, start.index)));
    if (end < 0) {
      return [
        ...pieces,
        malformed(`the call of ${start[1]} is not closed: ) is missing`, text.slice(start.index).trim()),
      ];
    }
    pieces.push(readOne(start[1]!, text.slice(open + 1, end), text.slice(start.index, end + 1), tools));
    at = end + 1;
    pattern.lastIndex = at;
  }
  return [...pieces, ...words(text.slice(at))];
}

/** Named arguments as Python writes them; otherwise all the text is the tool's first argument. */
function readOne(name: string, inside: string, source: string, tools: readonly ToolSchema[]): Piece {
  const [first, second] = parametersOf(tools, name);
  const read = readPythonicCall(source, tools);
  const isNamed = /^\s*(?:[A-Za-z_]\w*\s*=|$)/.test(inside);
  if (read && (isNamed || second !== undefined)) return { kind: 'call', call: read };
  if (first === undefined) return malformed(`${name} takes no arguments`, source);
  const text = inside.trim().replace(/^(["'])([^"']*)\1$/, '$2');
  const given = typedValue(text, typesOf(tools, name, first));
  return { kind: 'call', call: { name, arguments: { [first]: given } } };
}

/**
 * A tool's name and its arguments as ordinary text, for models that no template teaches to call:
 *
 *   The total is calculator(123 + 456) apples.
 *
 * Only the names of the offered tools are calls. Never detected: the run asks for it by name.
 */
export const textCall: ToolFormat = {
  name: 'text',
  blocks: [THINK],
  unmarked: { from: /\S/, read: readCalls },
};
