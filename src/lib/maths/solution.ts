/** Whether a set of real numbers is where a relation such as `x^2 < 4` holds. */
import { type Expression, type Relation, symbolsOf } from './expression.ts';
import type { NamedRealSet, RealSet } from './real-set.ts';
import { startingPoint, valueAt } from './same-value.ts';
import { compareValues, exact, ifValued, realOf, subtract, toApproximate } from './value.ts';

/** Distances from each end of an interval at which the relation is looked at, on both sides. */
const BESIDE = [1e-4, 1e-3, 0.01, 0.1, 0.5, 1, 3, 10, 100];

/** By trying: the relation must hold inside of the set, fail outside, and change at every end as the set says. */
export function isSolution(relation: Relation, { set, letter }: NamedRealSet): boolean {
  const letters = [...new Set(relation.sides.flatMap(symbolsOf))];
  const [name] = letters;
  if (letters.length !== 1 || !name || set.length > 10) return false;
  if (letter && letter.toLowerCase() !== name.toLowerCase()) return false;
  if (!relation.signs.every((sign) => '<>≤≥≠='.includes(sign))) return false;
  if (relation.signs.includes('=') && !hasSoManyRoots(relation, name, set)) return false;
  const ends = set.flatMap(({ low, high }) => [low, high]).filter(Number.isFinite);
  const beside = [0, ...ends]
    .flatMap((end) => BESIDE.flatMap((step) => [end - step, end + step]))
    .filter((x) => ends.every((end) => Math.abs(x - end) > 1e-6));
  return (
    beside.every((x) => agrees(relation, name, x, isIn(set, x))) &&
    set.every(
      ({ low, high, hasLow, hasHigh }) =>
        (!Number.isFinite(low) || agrees(relation, name, low, hasLow)) &&
        (!Number.isFinite(high) || agrees(relation, name, high, hasHigh)),
    )
  );
}

/** Whether an equation is a polynomial of as many roots as the set has points: more could be anywhere. */
function hasSoManyRoots({ sides, signs }: Relation, name: string, set: RealSet): boolean {
  if (signs.length !== 1 || set.some(({ low, high }) => low !== high)) return false;
  const difference: Expression = { kind: 'sum', terms: [sides[0]!, { kind: 'negative', of: sides[1]! }] };
  let values = Array.from({ length: set.length + 4 }, (_, at) =>
    valueAt(difference, startingPoint(new Map([[name, exact(at)]]))),
  );
  for (let times = 0; times <= set.length; times++) {
    values = values.slice(1).map((value, at) => {
      const before = values[at];
      return value && before && ifValued(() => subtract(value, before));
    });
  }
  return values.every((value) => value?.kind === 'exact' && value.top === 0n);
}

const isIn = (set: RealSet, x: number) => set.some(({ low, high }) => low < x && x < high);

function agrees(relation: Relation, name: string, x: number, expected: boolean): boolean {
  const at = Number.isInteger(x) ? exact(x) : toApproximate(decimal(x));
  const point = startingPoint(new Map([[name, at]]));
  const values = relation.sides.map((side) => valueAt(side, point));
  const holds = relation.signs.every((sign, index) => {
    const [left, right] = [values[index], values[index + 1]];
    if (!left || !right) return false;
    const [a, b] = [left, right].map((value) => ifValued(() => realOf(value)));
    if (a === undefined || b === undefined) return false;
    const isEqual = ifValued(() => compareValues(left, right) !== 'unequal') ?? false;
    if (isEqual) return sign === '=' || sign === '≤' || sign === '≥';
    return sign === '≠' || (sign !== '=' && (sign === '<' || sign === '≤') === a < b);
  });
  return holds === expected;
}

const decimal = (x: number) => exact(BigInt(Math.round(x * 1e8)), 100_000_000n);
