/** The number an expression has where its letters have values. */
import { derivative, endlessSum, integral, limit } from './calculus.ts';
import type { Expression } from './expression.ts';
import { evaluateFunction } from './functions.ts';
import { matrixEntries } from './matrix.ts';
import { TRIGONOMETRIC } from './names.ts';
import {
  add,
  approximate,
  divide,
  exact,
  isInteger,
  isZero,
  multiply,
  NoValue,
  negative,
  ONE,
  power,
  realOf,
  type Value,
  ZERO,
} from './value.ts';

/** Values of letters, and how much work is left: an expression that needs more has no value. */
export interface Point {
  readonly values: ReadonlyMap<string, Value>;
  readonly budget: { left: number };
}

/** Operations of one comparison; an answer of a competition takes a few dozen. */
export const MOST_OPERATIONS = 20_000;

const CONSTANTS: Readonly<Record<string, Value>> = {
  pi: approximate(Math.PI),
  e: approximate(Math.E),
  i: { kind: 'approximate', re: 0, im: 1, error: 0 },
  infinity: { kind: 'approximate', re: Infinity, im: 0, error: 0 },
};

const DEGREE = approximate(Math.PI / 180);
const HUNDREDTH = exact(1, 100);

export function evaluate(expression: Expression, point: Point): Value {
  if (--point.budget.left < 0) throw new NoValue('too much work');
  const of = (part: Expression) => evaluate(part, point);
  switch (expression.kind) {
    case 'number':
      return expression.value;
    case 'constant':
      return point.values.get(expression.name) ?? CONSTANTS[expression.name]!; // a sum may run over i
    case 'symbol':
      return letterAt(expression.name, point);
    case 'text':
      return letterAt(expression.words, point);
    case 'sum':
      return expression.terms.reduce<Value>((sum, term) => add(sum, of(term)), ZERO);
    case 'product':
      return expression.factors.reduce<Value>((product, factor) => multiply(product, of(factor)), ONE);
    case 'quotient':
      return divide(of(expression.top), of(expression.bottom));
    case 'power':
      return power(of(expression.base), of(expression.exponent));
    case 'negative':
      return negative(of(expression.of));
    case 'percent':
      return multiply(of(expression.of), HUNDREDTH);
    case 'degrees':
    case 'quantity':
      return of(expression.of);
    case 'call':
      return call(expression.name, expression.arguments, point);
    default:
      throw new NoValue(`a ${expression.kind} is not a number`);
  }
}

function letterAt(name: string, { values }: Point): Value {
  const value = values.get(name);
  if (!value) throw new NoValue(`${name} has no value`);
  return value;
}

function call(name: string, given: readonly Expression[], point: Point): Value {
  if (name === 'sum' || name === 'prod') return series(name, given, point);
  if (name === 'integral' || name === 'limit' || name === 'derivative') return limiting(name, given, point);
  const matrix = OF_MATRIX.has(name) ? matrixEntries(given[0]!) : undefined;
  if (matrix) return ofMatrix(name, matrix, point);
  const values = given.map((one) => {
    const value = evaluate(one, point);
    return TRIGONOMETRIC.has(name) && isInDegrees(one) ? multiply(value, DEGREE) : value;
  });
  return evaluateFunction(name, values);
}

const isInDegrees = (expression: Expression): boolean =>
  expression.kind === 'degrees' ||
  (expression.kind === 'negative' && isInDegrees(expression.of)) ||
  ((expression.kind === 'sum' || expression.kind === 'product') &&
    (expression.kind === 'sum' ? expression.terms : expression.factors).some(isInDegrees)) ||
  (expression.kind === 'quotient' && isInDegrees(expression.top));

const MOST_TERMS = 1000n;

function series(name: string, [index, from, to, term]: readonly Expression[], point: Point): Value {
  const [first, last] = [evaluate(from!, point), evaluate(to!, point)];
  if (name === 'sum' && isInteger(first) && realOf(last) === Infinity) {
    return endlessSum(inLetter(term!, index!, point), Number(first.top));
  }
  if (!isInteger(first) || !isInteger(last) || last.top - first.top > MOST_TERMS) {
    throw new NoValue('a sum of too many terms');
  }
  const letter = index!.kind === 'symbol' ? index!.name : index!.kind === 'constant' ? index!.name : '';
  let total: Value = name === 'sum' ? ZERO : ONE;
  for (let at = first.top; at <= last.top; at++) {
    const values = new Map(point.values).set(letter, exact(at));
    const value = evaluate(term!, { ...point, values });
    total = name === 'sum' ? add(total, value) : multiply(total, value);
  }
  return total;
}

/** The expression as a function of one of its letters. */
function inLetter(expression: Expression, letter: Expression, point: Point): (x: number) => Value {
  if (letter.kind !== 'symbol' && letter.kind !== 'constant') throw new NoValue('not a letter');
  return (x) => {
    const at = Number.isInteger(x) ? exact(x) : approximate(x, 0, 0);
    return evaluate(expression, { ...point, values: new Map(point.values).set(letter.name, at) });
  };
}

function limiting(name: string, given: readonly Expression[], point: Point): Value {
  const f = inLetter(given.at(-1)!, given[0]!, point);
  const at = (index: number) => {
    const value = realOf(evaluate(given[index]!, point));
    if (value === undefined) throw new NoValue('a complex bound');
    return value;
  };
  if (name === 'integral') return integral(f, at(1), at(2));
  return name === 'limit' ? limit(f, at(1)) : derivative(f, at(0));
}

const OF_MATRIX: ReadonlySet<string> = new Set(['det', 'tr', 'rank', 'abs', 'norm']);

/** Whether a call makes a number of a matrix. */
export const isOfMatrix = (expression: Expression): boolean =>
  expression.kind === 'call' && OF_MATRIX.has(expression.name);

function ofMatrix(name: string, entries: readonly (readonly Expression[])[], point: Point): Value {
  const rows = entries.map((row) => row.map((entry) => evaluate(entry, point)));
  const isVector = rows.length === 1 || rows[0]!.length === 1;
  if (name === 'norm' || (name === 'abs' && isVector)) {
    const squares = rows.flat().map((value) => multiply(value, value));
    return power(squares.reduce(add, ZERO), exact(1, 2));
  }
  if (name === 'rank') return exact(rankOf(rows));
  if (rows.length !== rows[0]!.length || rows.length > 4) throw new NoValue('not a small square matrix');
  return name === 'tr' ? rows.reduce<Value>((sum, row, index) => add(sum, row[index]!), ZERO) : laplace(rows);
}

/** By Gauss's elimination. */
function rankOf(given: readonly (readonly Value[])[]): number {
  let rows = given;
  let rank = 0;
  for (let column = 0; column < given[0]!.length; column++) {
    const pivot = rows.find((row) => !isZero(row[column]!));
    if (!pivot) continue;
    rank++;
    rows = rows
      .filter((row) => row !== pivot)
      .map((row) => {
        const factor = divide(row[column]!, pivot[column]!);
        return row.map((value, at) => add(value, negative(multiply(factor, pivot[at]!))));
      });
  }
  return rank;
}

function laplace(rows: readonly (readonly Value[])[]): Value {
  if (rows.length === 1) return rows[0]![0]!;
  return rows[0]!.reduce<Value>((sum, entry, column) => {
    const minor = laplace(rows.slice(1).map((row) => row.filter((_, at) => at !== column)));
    const term = multiply(entry, minor);
    return add(sum, column % 2 === 0 ? term : negative(term));
  }, ZERO);
}
