/** What stands in brackets: a group, a tuple or interval, a set, an absolute value. */
import type { Grammar } from './commands.ts';
import type { Cursor } from './cursor.ts';
import type { Expression } from './expression.ts';
import { Unreadable } from './tokens.ts';

const OPENING = [
  '{',
  'lbrace',
  'lvert',
  'vert',
  '|',
  'lVert',
  'Vert',
  'lfloor',
  'lceil',
  'langle',
  'lbrack',
  'lparen',
];

export function isBracket(cursor: Cursor): boolean {
  const token = cursor.peek();
  if (token?.kind === 'sign')
    return ['(', '[', '{'].includes(token.text) || (token.text === '|' && cursor.bars === 0);
  return token?.kind === 'command' && OPENING.includes(token.text);
}

export function parseBracket(cursor: Cursor, grammar: Grammar): Expression {
  const { kind, text } = cursor.take();
  if (kind === 'sign' && text === '{') return closedBy(cursor, '}', braced(cursor, grammar));
  if (text === '(' || text === 'lparen') return tupleOf(cursor, '(', grammar);
  if (text === '[' || text === 'lbrack') return tupleOf(cursor, '[', grammar);
  if (text === 'langle') return angled(cursor, grammar);
  if (kind === 'command' && (text === '{' || text === 'lbrace')) return setOf(cursor, grammar);
  if (text === 'lfloor') return wrapped(cursor, grammar, 'floor', 'rfloor');
  if (text === 'lceil') return wrapped(cursor, grammar, 'ceil', 'rceil');
  return absolute(cursor, grammar, text);
}

/** A LaTeX group: `{x+1}`, `{n \choose k}`, `{1 \over 2}`. */
function braced(cursor: Cursor, grammar: Grammar): Expression {
  const left = grammar.list(cursor);
  if (cursor.takeCommand('choose'))
    return { kind: 'call', name: 'binom', arguments: [left, grammar.sum(cursor)] };
  if (cursor.takeCommand('over')) return { kind: 'quotient', top: left, bottom: grammar.sum(cursor) };
  return left;
}

function closedBy(cursor: Cursor, sign: string, read: Expression): Expression {
  cursor.expectSign(sign);
  return read;
}

function tupleOf(cursor: Cursor, open: '(' | '[', grammar: Grammar): Expression {
  const inside = withBars(cursor, () => grammar.list(cursor));
  const close = cursor.takeSign(')') || cursor.takeCommand('rparen') ? ')' : ']';
  if (close === ']' && !cursor.takeCommand('rbrack')) cursor.expectSign(']');
  if (inside.kind === 'list' && !inside.joint) return { kind: 'tuple', open, close, items: inside.items };
  return inside;
}

function angled(cursor: Cursor, grammar: Grammar): Expression {
  const inside = grammar.list(cursor);
  if (!cursor.takeCommand('rangle')) throw new Unreadable('an angle that is not closed');
  const items = inside.kind === 'list' ? inside.items : [inside];
  return { kind: 'tuple', open: '(', close: ')', items };
}

/** `\{1, 2\}`, or `\{x \mid x > 1\}`, which is read as its condition. */
function setOf(cursor: Cursor, grammar: Grammar): Expression {
  if (cursor.takeCommand('}', 'rbrace')) return { kind: 'named-set', name: 'empty' };
  cursor.bars++;
  cursor.sets++;
  const inside = grammar.list(cursor);
  cursor.bars--;
  cursor.sets--;
  const hasCondition = cursor.takeCommand('mid', 'vert', '|') || cursor.takeSign('|') || cursor.takeSign(':');
  const read = hasCondition ? grammar.list(cursor) : inside;
  if (!cursor.takeCommand('}', 'rbrace')) throw new Unreadable('a set that is not closed');
  if (hasCondition) return read;
  return { kind: 'set', items: read.kind === 'list' ? read.items : [read] };
}

function wrapped(cursor: Cursor, grammar: Grammar, name: string, close: string): Expression {
  const inside = grammar.sum(cursor);
  if (!cursor.takeCommand(close)) throw new Unreadable(`${close} is missing`);
  return { kind: 'call', name, arguments: [inside] };
}

function absolute(cursor: Cursor, grammar: Grammar, open: string): Expression {
  cursor.bars++;
  const inside = grammar.sum(cursor);
  cursor.bars--;
  const isClosed =
    cursor.takeSign('|') ||
    cursor.takeCommand('rvert', 'vert', 'rVert', 'Vert', '|') ||
    cursor.takeSign(open);
  if (!isClosed) throw new Unreadable('an absolute value that is not closed');
  return { kind: 'call', name: 'abs', arguments: [inside] };
}

/** Inside brackets, a bar opens an absolute value again. */
function withBars<T>(cursor: Cursor, read: () => T): T {
  const outer = cursor.bars;
  cursor.bars = 0;
  const found = read();
  cursor.bars = outer;
  return found;
}
