/** What LaTeX commands say: fractions, roots, functions, matrices, sets by name. */
import type { Cursor } from './cursor.ts';
import type { Expression } from './expression.ts';
import { FUNCTIONS, GREEK } from './names.ts';
import { Unreadable } from './tokens.ts';
import { exact } from './value.ts';

/** The parts of the grammar that commands and brackets contain. */
export interface Grammar {
  readonly list: (cursor: Cursor) => Expression;
  readonly relation: (cursor: Cursor) => Expression;
  readonly sum: (cursor: Cursor) => Expression;
  readonly factor: (cursor: Cursor) => Expression;
  readonly product: (cursor: Cursor) => Expression;
  readonly functionArgument: (cursor: Cursor) => Expression;
  readonly call: (cursor: Cursor, name: string, prefix: readonly Expression[]) => Expression;
}

/** Letters that are functions when a bracket follows; `x(x+1)` is a product. */
export const isFunctionName = (name: string): boolean => 'fghFGH'.includes(name);

const NAMED_SETS: Readonly<Record<string, string>> = {
  R: 'reals',
  Z: 'integers',
  N: 'naturals',
  Q: 'rationals',
  C: 'complex',
};

const ACCENTS = ['overline', 'bar', 'vec', 'hat', 'tilde', 'widehat', 'widetilde', 'overrightarrow', 'dot'];

const FACTOR_COMMANDS: ReadonlySet<string> = new Set([
  ...[
    'frac',
    'dfrac',
    'tfrac',
    'cfrac',
    'sqrt',
    'surd',
    'binom',
    'dbinom',
    'tbinom',
    'pi',
    'infty',
    'begin',
    'boxed',
  ],
  ...[
    'mathbb',
    'emptyset',
    'varnothing',
    'sum',
    'prod',
    'angle',
    'triangle',
    'fbox',
    'mathcal',
    'imath',
    'mathop',
    'underline',
    'int',
    'lim',
  ],
  ...[
    '{',
    'lbrace',
    'lvert',
    'lVert',
    'lfloor',
    'lceil',
    'langle',
    ...ACCENTS,
    ...GREEK,
    ...Object.keys(FUNCTIONS),
  ],
]);

/** Whether the next token begins a factor of a product that is written without a sign. */
export function startsFactor(cursor: Cursor, left: Expression): boolean {
  const token = cursor.peek();
  if (!token || left.kind === 'text') return false;
  switch (token.kind) {
    case 'number':
      return true;
    case 'letter':
      return true;
    case 'command':
      return FACTOR_COMMANDS.has(token.text) || (token.text === 'vert' && cursor.bars === 0);
    case 'sign':
      return (
        token.text === '(' ||
        token.text === '{' ||
        token.text === '[' ||
        (token.text === '|' && cursor.bars === 0)
      );
    default:
      return false;
  }
}

export function parseCommand(cursor: Cursor, name: string, grammar: Grammar): Expression {
  if (Object.hasOwn(FUNCTIONS, name)) return parseFunction(cursor, FUNCTIONS[name]!, grammar);
  if (name === 'Gamma' && cursor.isSign('(')) return grammar.call(cursor, 'gamma', []);
  if (GREEK.has(name)) return { kind: 'symbol', name: `\\${name.replace(/^var/, '')}` };
  if (ACCENTS.includes(name)) return accented(cursor, name);
  switch (name) {
    case 'pi':
      return { kind: 'constant', name: 'pi' };
    case 'infty':
      return { kind: 'constant', name: 'infinity' };
    case 'imath':
      return { kind: 'constant', name: 'i' };
    case 'frac':
    case 'dfrac':
    case 'tfrac':
    case 'cfrac':
      if (startsDerivative(cursor)) return derivativeOf(cursor, grammar);
      return { kind: 'quotient', top: argument(cursor, grammar), bottom: argument(cursor, grammar) };
    case 'binom':
    case 'dbinom':
    case 'tbinom':
      return {
        kind: 'call',
        name: 'binom',
        arguments: [argument(cursor, grammar), argument(cursor, grammar)],
      };
    case 'sqrt':
      return root(cursor, grammar);
    case 'surd':
      return { kind: 'power', base: grammar.factor(cursor), exponent: HALF };
    case 'boxed':
    case 'fbox':
    case 'mathop':
    case 'underline':
      return argument(cursor, grammar);
    case 'angle':
    case 'triangle':
      return grammar.factor(cursor);
    case 'emptyset':
    case 'varnothing':
      return { kind: 'named-set', name: 'empty' };
    case 'mathbb':
    case 'mathcal':
      return namedSet(cursor);
    case 'sum':
    case 'prod':
      return series(cursor, name, grammar);
    case 'int':
      return integral(cursor, grammar);
    case 'lim':
      return limit(cursor, grammar);
    case 'begin':
      return environment(cursor, grammar);
    default:
      throw new Unreadable(`\\${name} is not known`);
  }
}

const HALF: Expression = { kind: 'number', value: exact(1, 2), isDecimal: false };

/** `{…}`, or the one character that LaTeX takes without braces. */
function argument(cursor: Cursor, grammar: Grammar): Expression {
  if (cursor.takeSign('{')) {
    const inside = grammar.list(cursor);
    cursor.expectSign('}');
    return inside;
  }
  if (cursor.peek()?.kind === 'number' && /^\d+$/.test(cursor.peek()!.text)) {
    return { kind: 'number', value: exact(BigInt(cursor.takeDigit())), isDecimal: false };
  }
  return grammar.factor(cursor);
}

function root(cursor: Cursor, grammar: Grammar): Expression {
  let degree: Expression | undefined;
  if (cursor.takeSign('[')) {
    degree = grammar.sum(cursor);
    cursor.expectSign(']');
  }
  const base = argument(cursor, grammar);
  const one: Expression = { kind: 'number', value: exact(1), isDecimal: false };
  return { kind: 'power', base, exponent: degree ? { kind: 'quotient', top: one, bottom: degree } : HALF };
}

/** A repeating decimal is made into a fraction before tokens are cut, so a bar here is over letters. */
function accented(cursor: Cursor, name: string): Expression {
  const inside = cursor.isSign('{') ? cursor.takeBraced() : cursor.take().text;
  const kind = name.replace(/^wide/, '').replace('overline', 'bar').replace('overrightarrow', 'vec');
  return { kind: 'symbol', name: `${kind} ${inside}` };
}

function namedSet(cursor: Cursor): Expression {
  const letter = cursor.isSign('{') ? cursor.takeBraced() : cursor.take().text;
  const name = NAMED_SETS[letter];
  if (!name) return { kind: 'symbol', name: letter };
  let suffix = '';
  while (cursor.isSign('^') || cursor.isSign('_')) {
    cursor.take();
    suffix += cursor.isSign('{') ? cursor.takeBraced() : cursor.take().text;
  }
  return { kind: 'named-set', name: name + suffix };
}

function parseFunction(cursor: Cursor, name: string, grammar: Grammar): Expression {
  if (name === 'exp' && !cursor.isSign('^')) {
    return {
      kind: 'power',
      base: { kind: 'constant', name: 'e' },
      exponent: grammar.functionArgument(cursor),
    };
  }
  if (name !== 'log') return grammar.call(cursor, name === 'lg' ? 'log10' : name, []);
  if (!cursor.takeSign('_')) return grammar.call(cursor, 'log10', []);
  return grammar.call(cursor, 'log', [argument(cursor, grammar)]);
}

/** `\sum_{k=1}^{n} k`: the letter, where it starts and ends, and the term. */
function series(cursor: Cursor, name: string, grammar: Grammar): Expression {
  cursor.expectSign('_');
  const from = argument(cursor, grammar);
  cursor.expectSign('^');
  const to = argument(cursor, grammar);
  if (from.kind !== 'relation' || from.signs[0] !== '=') throw new Unreadable('a sum without its start');
  return {
    kind: 'call',
    name,
    arguments: [from.sides[0]!, from.sides[1]!, to, grammar.product(cursor)],
  };
}

/** `\\int_0^1 x^2 \\, dx`: the letter, where it starts and ends, and what is before the `dx`. */
function integral(cursor: Cursor, grammar: Grammar): Expression {
  cursor.expectSign('_');
  const from = argument(cursor, grammar);
  cursor.expectSign('^');
  const to = argument(cursor, grammar);
  const end = differentialAt(cursor);
  const isOne = end === cursor.position;
  const body: Expression = isOne ? ONE : cursor.before(end, () => grammar.sum(cursor));
  if (cursor.position !== end) throw new Unreadable('an integral that ends too early');
  cursor.position = end + 1;
  return { kind: 'call', name: 'integral', arguments: [letterOf(cursor), from, to, body] };
}

const ONE: Expression = { kind: 'number', value: exact(1), isDecimal: false };

/** The place of the `d` of the next `dx`. */
function differentialAt(cursor: Cursor): number {
  for (let ahead = 0; cursor.peek(ahead + 1); ahead++) {
    const [token, next] = [cursor.peek(ahead)!, cursor.peek(ahead + 1)!];
    if (token.kind === 'letter' && token.text === 'd' && isLetter(next)) return cursor.position + ahead;
  }
  throw new Unreadable('an integral without dx');
}

const isLetter = ({ kind, text }: { kind: string; text: string }) =>
  kind === 'letter' || (kind === 'command' && GREEK.has(text));

function letterOf(cursor: Cursor): Expression {
  const token = cursor.take();
  if (!isLetter(token)) throw new Unreadable(`'${token.text}' is not a letter`);
  return { kind: 'symbol', name: token.kind === 'letter' ? token.text : `\\${token.text}` };
}

/** `\\lim_{x \\to 0} \\frac{\\sin x}{x}` */
function limit(cursor: Cursor, grammar: Grammar): Expression {
  cursor.expectSign('_');
  const towards = argument(cursor, grammar);
  if (towards.kind !== 'relation' || towards.signs[0] !== '=')
    throw new Unreadable('a limit without its place');
  const [letter, at] = towards.sides as [Expression, Expression];
  return { kind: 'call', name: 'limit', arguments: [letter, at, grammar.product(cursor)] };
}

/** `\\frac{d}{dx}` and `\\frac{\\partial}{\\partial x}` after the command. */
function startsDerivative(cursor: Cursor): boolean {
  const texts = [0, 1, 2, 3, 4, 6].map((ahead) => cursor.peek(ahead)?.text).join(' ');
  return texts === '{ d } { d }' || texts === '{ partial } { partial }';
}

function derivativeOf(cursor: Cursor, grammar: Grammar): Expression {
  cursor.position += 5;
  const letter = letterOf(cursor);
  cursor.expectSign('}');
  return { kind: 'call', name: 'derivative', arguments: [letter, grammar.product(cursor)] };
}

function environment(cursor: Cursor, grammar: Grammar): Expression {
  const name = cursor.takeBraced();
  if (name === 'array' && cursor.isSign('{')) cursor.takeBraced();
  const rows: Expression[][] = [[]];
  while (!cursor.takeCommand('end')) {
    if (cursor.takeCommand('\\')) rows.push([]);
    else if (cursor.takeSign('&') || cursor.takeCommand('hline')) continue;
    else rows.at(-1)!.push(grammar.list(cursor));
  }
  cursor.takeBraced();
  const filled = rows.filter((row) => row.length > 0);
  if (filled.length === 0) throw new Unreadable('an empty environment');
  if (name === 'cases') return { kind: 'list', items: filled.flat(), joint: 'and' };
  if (!/matrix|array/.test(name) || filled.some((row) => row.length !== filled[0]!.length)) {
    throw new Unreadable(`the environment ${name} is not a matrix`);
  }
  const matrix: Expression = { kind: 'matrix', rows: filled };
  return name === 'vmatrix' ? { kind: 'call', name: 'det', arguments: [matrix] } : matrix;
}
