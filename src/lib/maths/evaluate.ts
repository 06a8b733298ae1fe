/** The number an expression has where its letters have values. */
import type { Expression } from './expression.ts';
import { evaluateFunction } from './functions.ts';
import { TRIGONOMETRIC } from './names.ts';
import {
  add,
  approximate,
  divide,
  exact,
  isInteger,
  multiply,
  NoValue,
  negative,
  ONE,
  power,
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
  if (name === 'det') return determinant(given[0]!, point);
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

function determinant(expression: Expression, point: Point): Value {
  if (expression.kind !== 'matrix') throw new NoValue('the determinant of something else');
  const rows = expression.rows.map((row) => row.map((entry) => evaluate(entry, point)));
  if (rows.length !== rows[0]!.length || rows.length > 4) throw new NoValue('no such determinant');
  return laplace(rows);
}

function laplace(rows: readonly (readonly Value[])[]): Value {
  if (rows.length === 1) return rows[0]![0]!;
  return rows[0]!.reduce<Value>((sum, entry, column) => {
    const minor = laplace(rows.slice(1).map((row) => row.filter((_, at) => at !== column)));
    const term = multiply(entry, minor);
    return add(sum, column % 2 === 0 ? term : negative(term));
  }, ZERO);
}
