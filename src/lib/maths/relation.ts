/** When two relations say the same: `2x + 4y = 6` and `x = 3 − 2y`, `x > 1` and `1 < x`. */
import {
  type Expression,
  partsOf,
  type Relation,
  type RelationSign,
  symbolsOf,
  withParts,
} from './expression.ts';
import { isSameValue, samplePoints, valueAt } from './same-value.ts';
import { compareValues, divide, exact, ifValued, isZero, realOf, type Value } from './value.ts';

interface Pair {
  readonly sign: RelationSign;
  readonly left: Expression;
  readonly right: Expression;
}

export function isSameRelation(gold: Relation, answer: Relation, decimals: number): boolean {
  const [right, given] = [pairsOf(gold), pairsOf(answer)];
  if (right.length !== given.length) return false;
  const left = [...given];
  return right.every((pair) => {
    const at = left.findIndex((other) => isSamePair(pair, other, decimals));
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}

/** `a = b = c` gives what stands first the value that stands last. */
function pairsOf({ sides, signs }: Relation): Pair[] {
  if (signs.every((sign) => sign === '=')) return [{ sign: '=', left: sides[0]!, right: sides.at(-1)! }];
  return signs.map((sign, index) => ({ sign, left: sides[index]!, right: sides[index + 1]! }));
}

const FLIPPED: Readonly<Record<string, RelationSign>> = { '<': '>', '>': '<', '≤': '≥', '≥': '≤' };

function isSamePair(gold: Pair, answer: Pair, decimals: number): boolean {
  const isFlipped = FLIPPED[gold.sign] === answer.sign;
  if (gold.sign !== answer.sign && !isFlipped) return false;
  const isSame = (a: Expression, b: Expression) => isSameValue(a, b, decimals);
  if (!isFlipped && isSame(gold.left, answer.left) && isSame(gold.right, answer.right)) return true;
  if (isFlipped && isSame(gold.left, answer.right) && isSame(gold.right, answer.left)) return true;
  if (gold.sign === '∈' || gold.sign === '∉' || gold.sign === '≈') return false;
  const factor = ifValued(() => constantRatio(difference(gold), difference(answer)));
  if (factor === undefined)
    return gold.sign === '=' && (ifValued(() => solves(gold, answer) || solves(answer, gold)) ?? false);
  if (gold.sign === '=' || gold.sign === '≠') return true;
  return isFlipped ? factor < 0 : factor > 0;
}

const difference = ({ left, right }: Pair): Expression => ({
  kind: 'sum',
  terms: [left, { kind: 'negative', of: right }],
});

/** The number by which one expression is the other at every point, if there is one. */
function constantRatio(one: Expression, other: Expression): number | undefined {
  const letters = [...new Set([...symbolsOf(one), ...symbolsOf(other)])];
  let ratio: Value | undefined;
  let agreed = 0;
  for (const point of samplePoints(letters)) {
    const [a, b] = [valueAt(one, point), valueAt(other, point)];
    if (!a && !b) continue;
    if (!a || !b || isZero(a) !== isZero(b)) return undefined;
    if (isZero(a)) continue;
    const found = divide(a, b);
    if (ratio && compareValues(ratio, found) !== 'equal') return undefined;
    ratio ??= found;
    agreed++;
  }
  return agreed >= 3 && ratio ? realOf(ratio) : undefined;
}

/** Whether `y = g(x)` is the one solution of the other equation, which must be linear in y: `y = 1/x` and `xy = 1`. */
function solves({ left, right }: Pair, equation: Pair): boolean {
  if (left.kind !== 'symbol' || symbolsOf(right).includes(left.name)) return false;
  const at = (shift: number): Expression =>
    replaced(difference(equation), left.name, {
      kind: 'sum',
      terms: [right, { kind: 'number', value: exact(shift), isDecimal: false }],
    });
  const letters = symbolsOf(at(0));
  let agreed = 0;
  for (const point of samplePoints(letters)) {
    const [none, one, two] = [valueAt(at(0), point), valueAt(at(1), point), valueAt(at(2), point)];
    if (!none || !one || !two) continue;
    if (compareValues(none, exact(0)) !== 'equal' || isZero(one)) return false;
    if (compareValues(divide(two, one), exact(2)) !== 'equal') return false;
    agreed++;
  }
  return agreed >= 3;
}

export function replaced(expression: Expression, name: string, by: Expression): Expression {
  if (expression.kind === 'symbol') return expression.name === name ? by : expression;
  return withParts(
    expression,
    partsOf(expression).map((part) => replaced(part, name, by)),
  );
}
