/**
 * Reads an answer as mathematics. From the outside in: items between commas, sides between relation signs, sets
 * between ∪ and ∩, terms, factors, and what stands before a power, a factorial or a percent sign. What a LaTeX command
 * says is read in `commands.ts`, what stands in brackets in `brackets.ts`.
 */
import { isBracket, parseBracket } from './brackets.ts';
import { type Grammar, isFunctionName, parseCommand, startsFactor } from './commands.ts';
import { Cursor } from './cursor.ts';
import type { Expression, RelationSign, SetOperation } from './expression.ts';
import { inverseOf } from './names.ts';
import { tokenize, Unreadable } from './tokens.ts';
import { exactDecimal } from './value.ts';

/** Throws Unreadable, or NoValue for a number that is too long. */
export function parseAnswer(text: string, { hasThousands = true } = {}): Expression {
  const cursor = new Cursor(tokenize(text, hasThousands));
  if (cursor.isAtEnd) throw new Unreadable('nothing to read');
  const read = parseList(cursor);
  if (!cursor.isAtEnd) throw new Unreadable(`'${cursor.peek()!.text}' is not expected`);
  return read;
}

function parseList(cursor: Cursor): Expression {
  return cursor.nested(() => {
    const items = [parseRelation(cursor)];
    let joint: 'and' | 'or' | undefined;
    for (;;) {
      let isSeparated = cursor.takeSign(',') || cursor.takeSign(';');
      while (cursor.peek()?.kind === 'separator' || cursor.isCommand('lor', 'land', 'vee', 'wedge')) {
        joint = ['or', 'lor', 'vee'].includes(cursor.take().text) ? 'or' : 'and';
        isSeparated = true;
      }
      if (!isSeparated) break;
      if (isClosed(cursor)) break; // a comma at the end
      items.push(parseRelation(cursor));
    }
    return items.length === 1 ? items[0]! : { kind: 'list', items, ...(joint && { joint }) };
  });
}

const isClosed = (cursor: Cursor) =>
  cursor.isAtEnd ||
  [')', ']', '}'].some((bracket) => cursor.isSign(bracket)) ||
  cursor.isCommand('}', 'end', '\\');

const RELATIONS: Readonly<Record<string, RelationSign>> = {
  ...{ '=': '=', '<': '<', '>': '>', '<=': '≤', '>=': '≥', '!=': '≠', '==': '=' },
  ...{
    le: '≤',
    leq: '≤',
    leqslant: '≤',
    leqq: '≤',
    ge: '≥',
    geq: '≥',
    geqslant: '≥',
    geqq: '≥',
    lt: '<',
    gt: '>',
  },
  ...{
    ne: '≠',
    neq: '≠',
    approx: '≈',
    simeq: '≈',
    sim: '≈',
    doteq: '≈',
    in: '∈',
    notin: '∉',
    equiv: '≡',
    cong: '≡',
  },
  ...{ eq: '=', to: '=', rightarrow: '=', mapsto: '=' },
};

function parseRelation(cursor: Cursor): Expression {
  const sides = [withUnit(cursor, parseSets(cursor))];
  const signs: RelationSign[] = [];
  for (;;) {
    const token = cursor.peek();
    const isNegated = token?.kind === 'command' && token.text === 'not';
    const sign = isNegated ? cursor.peek(1) : token;
    if (!sign || (sign.kind !== 'sign' && sign.kind !== 'command') || !Object.hasOwn(RELATIONS, sign.text))
      break;
    cursor.position += isNegated ? 2 : 1;
    const found = RELATIONS[sign.text]!;
    signs.push(isNegated ? (found === '∈' ? '∉' : '≠') : found);
    if (found === '=' && cursor.peek()?.text === '=') cursor.take();
    sides.push(withUnit(cursor, parseSets(cursor)));
  }
  return sides.length === 1 ? sides[0]! : { kind: 'relation', sides, signs };
}

/** `5 \text{ cm}^2`, `60 km/h`: what follows a number in words. */
function withUnit(cursor: Cursor, of: Expression): Expression {
  let unit = '';
  for (let token = cursor.peek(); token; token = cursor.peek()) {
    const isInside =
      unit !== '' &&
      (token.text === '^' ||
        token.text === 'cdot' ||
        token.text === '/' ||
        token.kind === 'number' ||
        token.kind === 'letter');
    const isBraced = unit.endsWith('^') && token.text === '{';
    if (isBraced) unit += cursor.takeBraced();
    else if (token.kind === 'text' || token.kind === 'unit' || isInside)
      unit += ` ${cursor.take().text}`.replace(' ^', '^');
    else break;
  }
  return unit === '' ? of : { kind: 'quantity', of, unit: unit.trim() };
}

const SET_SIGNS: Readonly<Record<string, SetOperation['operation']>> = {
  ...{ cup: 'union', bigcup: 'union', cap: 'intersection', bigcap: 'intersection' },
  ...{ setminus: 'difference', backslash: 'difference', smallsetminus: 'difference' },
};

function parseSets(cursor: Cursor): Expression {
  let left = parseRatio(cursor);
  for (let token = cursor.peek(); token?.kind === 'command'; token = cursor.peek()) {
    const operation = Object.hasOwn(SET_SIGNS, token.text) ? SET_SIGNS[token.text] : undefined;
    if (!operation) break;
    cursor.take();
    left = { kind: 'set-operation', operation, left: asSet(left), right: asSet(parseRatio(cursor)) };
  }
  return left;
}

/** `{1, 3} \\cup {2}`, whose braces LaTeX would not show. */
const asSet = (read: Expression): Expression =>
  read.kind === 'list'
    ? { kind: 'set', items: read.items }
    : read.kind === 'number'
      ? { kind: 'set', items: [read] }
      : read;

/** `1/2 : 1/3`, and `2 : 3 : 5` as what the first is to each other; inside of a set a colon stands before its condition. */
function parseRatio(cursor: Cursor): Expression {
  const parts = [parseSum(cursor)];
  while (cursor.sets === 0 && cursor.takeSign(':')) parts.push(parseSum(cursor));
  const [first, ...others] = parts as [Expression, ...Expression[]];
  if (others.length === 0) return first;
  if (others.length === 1) return { kind: 'quotient', top: first, bottom: others[0]! };
  const items = others.map((bottom): Expression => ({ kind: 'quotient', top: first, bottom }));
  return { kind: 'tuple', open: '(', close: ')', items };
}

function parseSum(cursor: Cursor): Expression {
  return cursor.nested(() => {
    const terms: Expression[] = [];
    for (;;) {
      const signs: ((term: Expression) => Expression)[] = [];
      for (;;) {
        if (cursor.takeSign('-')) signs.unshift((of) => ({ kind: 'negative', of }));
        else if (cursor.takeCommand('pm'))
          signs.unshift((of) => ({ kind: 'either-sign', of, isFlipped: false }));
        else if (cursor.takeCommand('mp'))
          signs.unshift((of) => ({ kind: 'either-sign', of, isFlipped: true }));
        else if (!cursor.takeSign('+')) break;
      }
      terms.push(signs.reduce((term, sign) => sign(term), parseProduct(cursor)));
      if (!cursor.isSign('+') && !cursor.isSign('-') && !cursor.isCommand('pm', 'mp')) break;
    }
    return terms.length === 1 ? terms[0]! : { kind: 'sum', terms };
  });
}

function parseProduct(cursor: Cursor): Expression {
  let left = parseTight(cursor);
  for (;;) {
    if (cursor.takeCommand('times', 'cdot', 'ast', 'star', 'bullet') || cursor.takeSign('*')) {
      left = { kind: 'product', factors: [left, parseSigned(cursor)] };
    } else if (cursor.takeCommand('div') || cursor.takeSign('/')) {
      left = parseQuotient(cursor, left);
    } else if (cursor.takeCommand('bmod', 'mod')) {
      left = { kind: 'call', name: 'mod', arguments: [left, parseTight(cursor)] };
    } else if (cursor.isCommand('pmod')) {
      cursor.take();
      left = { kind: 'call', name: 'mod', arguments: [left, parseFactor(cursor)] };
    } else if (startsFactor(cursor, left)) {
      left = { kind: 'product', factors: [left, parseTight(cursor)] };
    } else return left;
  }
}

/** `1/2x` is half of x; in `a/bc` all that follows is below the line. */
function parseQuotient(cursor: Cursor, top: Expression): Expression {
  const isFraction = top.kind === 'number' && cursor.peek()?.kind === 'number';
  return { kind: 'quotient', top, bottom: isFraction ? parseFactor(cursor) : parseSigned(cursor) };
}

function parseSigned(cursor: Cursor): Expression {
  if (cursor.takeSign('-')) return { kind: 'negative', of: parseSigned(cursor) };
  if (cursor.takeSign('+')) return parseSigned(cursor);
  return parseTight(cursor);
}

/** Factors without a sign between them: `2xy`, and the mixed number `2\frac{1}{2}`. */
function parseTight(cursor: Cursor): Expression {
  let left = parseFactor(cursor);
  while (startsFactor(cursor, left)) {
    const mixed = parseMixedPart(cursor, left);
    if (mixed) left = withMixedPart(left, mixed);
    else if (cursor.peek()!.kind === 'number' && left.kind === 'number')
      throw new Unreadable('two numbers in a row');
    else left = { kind: 'product', factors: [left, parseFactor(cursor)] };
  }
  return left;
}

/** The fraction of a mixed number, after its integer. */
function parseMixedPart(cursor: Cursor, left: Expression): Expression | undefined {
  if (left.kind !== 'number' || left.isDecimal || left.value.bottom !== 1n) return undefined;
  const start = cursor.position;
  if (cursor.peek()!.kind === 'number' && cursor.isSign('/', 1) && cursor.peek(2)?.kind === 'number') {
    const [top, , bottom] = [cursor.take(), cursor.take(), cursor.take()];
    return { kind: 'quotient', top: numberOf(top!.text), bottom: numberOf(bottom!.text) };
  }
  if (!cursor.isCommand('frac', 'dfrac', 'tfrac', 'cfrac')) return undefined;
  const part = parseFactor(cursor);
  const inner = part.kind === 'percent' || part.kind === 'degrees' ? part.of : part;
  const isProper = inner.kind === 'quotient' && inner.top.kind === 'number' && inner.bottom.kind === 'number';
  if (isProper && !cursor.isSign('^')) return part;
  cursor.position = start;
  return undefined;
}

/** The percent or degree sign after a mixed number is of all of it. */
const withMixedPart = (whole: Expression, part: Expression): Expression =>
  part.kind === 'percent' || part.kind === 'degrees'
    ? { ...part, of: { kind: 'sum', terms: [whole, part.of] } }
    : { kind: 'sum', terms: [whole, part] };

function numberOf(text: string): Expression {
  return { kind: 'number', value: exactDecimal(text), isDecimal: text.includes('.') };
}

/** An atom with its powers, subscripts, factorials, percent and degree signs. */
function parseFactor(cursor: Cursor): Expression {
  let left = parseAtom(cursor);
  for (;;) {
    if (cursor.takeSign('!')) {
      left = {
        kind: 'call',
        name: cursor.takeSign('!') ? 'double-factorial' : 'factorial',
        arguments: [left],
      };
    } else if (cursor.takeSign('%') || cursor.takeCommand('%')) {
      left = { kind: 'percent', of: left };
    } else if (cursor.takeCommand('degree', 'circ', 'deg')) {
      left = { kind: 'degrees', of: left };
    } else if (cursor.isSign("'") && left.kind === 'symbol') {
      cursor.take();
      left = { kind: 'symbol', name: `${left.name}'` };
    } else if (cursor.takeSign('^')) {
      left = combinations(left, parsePower(cursor, left));
    } else if (cursor.isSign('_')) {
      left = parseSubscript(cursor, left);
    } else return left;
  }
}

/** `5^\circ C`: the letter of a temperature says nothing about the number. */
function inDegrees(cursor: Cursor, of: Expression): Expression {
  const isTemperature = cursor.peek()?.text === 'C' || cursor.peek()?.text === 'F';
  if (isTemperature && cursor.peek()!.kind === 'letter' && !cursor.peek(1)) cursor.take();
  return { kind: 'degrees', of };
}

function parsePower(cursor: Cursor, base: Expression): Expression {
  if (cursor.takeCommand('circ', 'degree')) return inDegrees(cursor, base);
  if (cursor.takeCommand('prime') && base.kind === 'symbol') return { kind: 'symbol', name: `${base.name}'` };
  if (cursor.isSign('{') && cursor.peek(1)?.text === 'circ' && cursor.isSign('}', 2)) {
    cursor.position += 3;
    return inDegrees(cursor, base);
  }
  if (base.kind === 'tuple' && (cursor.peek()?.text === 'T' || cursor.peek()?.text === 'top')) {
    cursor.take();
    return { kind: 'matrix', rows: base.items.map((item) => [item]) };
  }
  if (base.kind === 'matrix' && (cursor.peek()?.text === 'T' || cursor.peek()?.text === 'top')) {
    cursor.take();
    return { kind: 'matrix', rows: base.rows[0]!.map((_, column) => base.rows.map((row) => row[column]!)) };
  }
  return { kind: 'power', base, exponent: parseExponent(cursor) };
}

/** `C_5^2` is how many ways there are to choose 2 of 5. */
function combinations(base: Expression, raised: Expression): Expression {
  const of = base.kind === 'symbol' ? /^C_(\d{1,4})$/.exec(base.name)?.[1] : undefined;
  if (of === undefined || raised.kind !== 'power' || raised.exponent.kind !== 'number') return raised;
  return { kind: 'call', name: 'binom', arguments: [numberOf(of), raised.exponent] };
}

/** LaTeX raises one character only; who types x^12 or 2^-1 means all of it. */
function parseExponent(cursor: Cursor): Expression {
  if (cursor.takeSign('-')) return { kind: 'negative', of: parseExponent(cursor) };
  const exponent = parseAtom(cursor);
  return cursor.takeSign('^') ? { kind: 'power', base: exponent, exponent: parseExponent(cursor) } : exponent;
}

function parseSubscript(cursor: Cursor, of: Expression): Expression {
  cursor.take();
  const name = cursor.isSign('{') ? cursor.takeBraced() : cursor.take().text;
  if (of.kind === 'number') return { ...of, base: baseNamed(name) };
  if (of.kind === 'symbol') return { kind: 'symbol', name: `${of.name}_${name}` };
  if (of.kind === 'tuple' || of.kind === 'sum' || of.kind === 'product') return of;
  throw new Unreadable('a subscript of something else');
}

const BASES = 'zero one two three four five six seven eight nine ten eleven twelve'.split(' ');

/** The 2 of `1011_{\text{two}}`. */
function baseNamed(name: string): string {
  const word = name.replace(/\\text\s*|[{}\s]/g, '');
  const at = BASES.indexOf(word.toLowerCase());
  return at < 0 ? name : String(at);
}

function parseAtom(cursor: Cursor): Expression {
  return cursor.nested(() => {
    if (isBracket(cursor)) return parseBracket(cursor, GRAMMAR);
    const token = cursor.take();
    switch (token.kind) {
      case 'number':
        return numberOf(token.text);
      case 'letter':
        return parseLetter(cursor, token.text);
      case 'text':
        return { kind: 'text', words: token.text };
      case 'command':
        return parseCommand(cursor, token.text, GRAMMAR);
      default:
        throw new Unreadable(`'${token.text}' is not expected`);
    }
  });
}

function parseLetter(cursor: Cursor, name: string): Expression {
  if (name === 'e' && !cursor.isSign('_')) return { kind: 'constant', name: 'e' };
  if (name === 'i' && !cursor.isSign('_')) return { kind: 'constant', name: 'i' };
  const inverse = ['^', '{', '-', '1', '}', '('].every((text, ahead) => cursor.peek(ahead)?.text === text);
  if (isFunctionName(name) && inverse) {
    cursor.position += 5;
    return parseLetterCall(cursor, `${name}⁻¹`);
  }
  if (!isFunctionName(name) || !cursor.isSign('(')) return { kind: 'symbol', name };
  return parseLetterCall(cursor, name);
}

function parseLetterCall(cursor: Cursor, name: string): Expression {
  const inside = parseBracket(cursor, GRAMMAR);
  return { kind: 'call', name, arguments: inside.kind === 'tuple' ? inside.items : [inside] };
}

const GRAMMAR: Grammar = {
  list: parseList,
  relation: parseRelation,
  sum: parseSum,
  product: parseProduct,
  factor: parseFactor,
  functionArgument,
  call: callOf,
};

/** `\sin 2x`: without brackets, the factors up to the next function, sum or relation. */
function functionArgument(cursor: Cursor): Expression {
  if (isBracket(cursor)) return parseBracket(cursor, GRAMMAR);
  let left = parseSignedFactor(cursor);
  while (startsFactor(cursor, left) && !startsFunction(cursor)) {
    const mixed = parseMixedPart(cursor, left);
    left = mixed ? withMixedPart(left, mixed) : { kind: 'product', factors: [left, parseFactor(cursor)] };
  }
  return left;
}

const parseSignedFactor = (cursor: Cursor): Expression =>
  cursor.takeSign('-') ? { kind: 'negative', of: parseFactor(cursor) } : parseFactor(cursor);

const startsFunction = (cursor: Cursor): boolean =>
  cursor.peek()?.kind === 'command' &&
  (inverseOf(cursor.peek()!.text) !== undefined || cursor.isCommand('ln', 'log', 'exp'));

/** A function with what stands between its name and its argument: `\sin^2 x`, `\sin^{-1} x`. */
function callOf(cursor: Cursor, name: string, prefix: readonly Expression[]): Expression {
  let exponent: Expression | undefined;
  if (cursor.takeSign('^')) exponent = parseExponent(cursor);
  const inside = functionArgument(cursor);
  const isSeveral = inside.kind === 'tuple' || inside.kind === 'list' || inside.kind === 'set';
  const given = isSeveral ? inside.items : [inside];
  const isInverse =
    exponent?.kind === 'negative' &&
    exponent.of.kind === 'number' &&
    exponent.of.value.top === 1n &&
    inverseOf(name);
  if (isInverse) return { kind: 'call', name: isInverse, arguments: given };
  const call: Expression = { kind: 'call', name, arguments: [...prefix, ...given] };
  return exponent ? { kind: 'power', base: call, exponent } : call;
}
