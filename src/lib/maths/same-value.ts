/** Whether two expressions have the same value: exactly, or to a number of decimals where one of them is a decimal. */
import { createRandom } from '../random.ts';
import { evaluate, MOST_OPERATIONS, type Point } from './evaluate.ts';
import { contains, type Expression, partsOf, symbolsOf, withParts } from './expression.ts';
import { compareValues, exact, ifValued, realOf, toApproximate, type Value } from './value.ts';

const POINTS = 8;
/** Fewer points than this at which both have a value show nothing. */
const ENOUGH = 3;
const MOST_LETTERS = 12;

/** Without letters their numbers are compared, with letters their numbers at points of both signs. */
export function isSameValue(one: Expression, other: Expression, decimals: number): boolean {
  const [a, b] = alikeInCase(one, other);
  const letters = [...new Set([...symbolsOf(a), ...symbolsOf(b)])];
  if (letters.length > MOST_LETTERS) return false;
  if (letters.length === 0) return isSameNumber(a, b, decimals);
  const areReal = !hasUnit(a) && !hasUnit(b);
  let [agreed, agreedComplex, isApart] = [0, 0, false];
  for (const point of samplePoints(letters, hasSeries(a) || hasSeries(b))) {
    const [x, y] = [valueAt(a, point), valueAt(b, point)];
    if (!x && !y) continue;
    if (!x || !y) return false;
    const verdict = ifValued(() => compareValues(x, y));
    const reals = areReal ? [x, y].filter((value) => ifValued(() => isReal(value))).length : 2;
    if (reals === 1) continue;
    if (reals === 0) {
      isApart ||= verdict !== 'equal';
      if (verdict === 'equal') agreedComplex++;
      continue;
    }
    if (verdict === 'unequal' || verdict === undefined) return false;
    if (verdict === 'equal') agreed++;
  }
  return agreed >= ENOUGH || (!isApart && agreed + agreedComplex >= ENOUGH);
}

const isReal = (value: Value) => realOf(value) !== undefined;

/** Without i, an expression is compared where it is real: `\\ln x + \\ln y` is `\\ln xy`. */
const hasUnit = (expression: Expression) =>
  contains(expression, (part) => part.kind === 'constant' && part.name === 'i');

/** A sum up to n has a value only where n is an integer. */
const hasSeries = (expression: Expression) =>
  contains(expression, (part) => part.kind === 'call' && (part.name === 'sum' || part.name === 'prod'));

function isSameNumber(one: Expression, other: Expression, decimals: number): boolean {
  const point = startingPoint();
  const [a, b] = [valueAt(one, point), valueAt(other, point)];
  if (!a || !b) return false;
  const isEqual = () => compareValues(a, b) === 'equal';
  const isNear = () => (isDecimal(one) || isDecimal(other)) && isClose(a, b, decimals);
  return ifValued(() => isEqual() || isNear()) ?? false;
}

const isDecimal = (expression: Expression) =>
  contains(expression, (part) => part.kind === 'number' && part.isDecimal);

/** Equal when rounded to `decimals`; of small numbers the first digits too: 1.2e-8 is not 1.3e-8. */
function isClose(a: Value, b: Value, decimals: number): boolean {
  const [x, y] = [toApproximate(a), toApproximate(b)];
  const apart = Math.hypot(x.re - y.re, x.im - y.im);
  const size = Math.max(Math.hypot(x.re, x.im), Math.hypot(y.re, y.im));
  return apart <= 0.5 * 10 ** -decimals && apart <= 20 * 10 ** -decimals * size;
}

export const valueAt = (expression: Expression, point: Point): Value | undefined =>
  ifValued(() => evaluate(expression, point));

export const startingPoint = (values: ReadonlyMap<string, Value> = new Map()): Point => ({
  values,
  budget: { left: MOST_OPERATIONS },
});

/** The same points for the same letters: small integers first, then fractions of both signs. */
export function samplePoints(letters: readonly string[], areIntegers = false): Point[] {
  const random = createRandom(17);
  const between = (low: number, high: number) => low + Math.floor(random.next() * (high - low + 1));
  return Array.from({ length: POINTS }, (_, index) => {
    const values = new Map<string, Value>();
    for (const letter of [...letters].sort()) {
      const size =
        areIntegers || index < 2
          ? exact(between(2, 11))
          : exact(between(3, 89), [7, 11, 13, 17, 8][between(0, 4)]!);
      values.set(
        letter,
        !areIntegers && index >= 4 && random.next() < 0.6 ? { ...size, top: -size.top } : size,
      );
    }
    return startingPoint(values);
  });
}

/** `X` and `x` are one letter, unless one of the answers uses both. */
function alikeInCase(one: Expression, other: Expression): readonly [Expression, Expression] {
  const areDistinct = [one, other].some((expression) => {
    const names = symbolsOf(expression);
    return new Set(names.map((name) => name.toLowerCase())).size < names.length;
  });
  return areDistinct ? [one, other] : [lowerCase(one), lowerCase(other)];
}

function lowerCase(expression: Expression): Expression {
  if (expression.kind === 'symbol') return { ...expression, name: expression.name.toLowerCase() };
  if (expression.kind === 'text') return { kind: 'symbol', name: expression.words.trim().toLowerCase() };
  return withParts(expression, partsOf(expression).map(lowerCase));
}
