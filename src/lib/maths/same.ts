/** When what an answer says is what the right answer says. */
import { isOfMatrix } from './evaluate.ts';
import {
  type Collection,
  contains,
  type Expression,
  type NumberExpression,
  type Relation,
} from './expression.ts';
import { matrixEntries } from './matrix.ts';
import { areUnitsAtOdds } from './names.ts';
import { isSameRealSet, realSetOf } from './real-set.ts';
import { isSameRelation, replaced } from './relation.ts';
import { isSameValue } from './same-value.ts';
import { isSolution } from './solution.ts';

const MOST_ITEMS = 100;

export function isSame(gold: Expression, answer: Expression, decimals: number): boolean {
  if (gold.kind === 'quantity' || answer.kind === 'quantity') return isSameQuantity(gold, answer, decimals);
  const [right, given] = withoutNames(gold, answer);
  if (right !== gold || given !== answer) return isSame(right, given, decimals);
  const [roundedGold, roundedAnswer] = [approximations(gold), approximations(answer)];
  if (roundedGold) return roundedGold.some((one) => isSame(one, answer, decimals));
  if (roundedAnswer) return roundedAnswer.some((one) => isSame(gold, one, decimals));
  if (gold.kind === 'relation' && answer.kind === 'relation') return areSameRelations(gold, answer, decimals);
  const [vector, other] = [asTuple(gold, answer), asTuple(answer, gold)];
  if (vector !== gold || other !== answer) return isSame(vector, other, decimals);
  if (isCollection(gold) || isCollection(answer)) {
    return isSameCollection(gold, answer, decimals) || isSameAsRealSet(gold, answer, decimals);
  }
  if (isSetLike(gold) || isSetLike(answer)) {
    return isSameAsRealSet(gold, answer, decimals) || isSameSetOperation(gold, answer, decimals);
  }
  if (gold.kind === 'relation' || answer.kind === 'relation') return false;
  if (hasMatrix(gold) || hasMatrix(answer)) return isSameMatrix(gold, answer, decimals);
  if (isBased(gold) || isBased(answer)) return isSameBased(gold, answer, decimals);
  return isSameValue(gold, answer, decimals) || isSamePercent(gold, answer, decimals);
}

const isCollection = (expression: Expression): expression is Collection =>
  expression.kind === 'list' || expression.kind === 'tuple' || expression.kind === 'set';

/** A matrix of one row or column beside a tuple in round brackets is that tuple. */
function asTuple(expression: Expression, beside: Expression): Expression {
  if (expression.kind !== 'matrix' || !isRound(beside)) return expression;
  const isVector = expression.rows.length === 1 || expression.rows.every((row) => row.length === 1);
  return isVector ? { kind: 'tuple', open: '(', close: ')', items: expression.rows.flat() } : expression;
}

const isSetLike = (expression: Expression) =>
  expression.kind === 'set-operation' || expression.kind === 'named-set';

const hasMatrix = (expression: Expression): boolean =>
  contains(expression, (part) => part.kind === 'matrix') && !contains(expression, isOfMatrix);

/** Units do not count, unless both are known and differ in size. */
function isSameQuantity(gold: Expression, answer: Expression, decimals: number): boolean {
  if (gold.kind === 'quantity' && answer.kind === 'quantity' && areUnitsAtOdds(gold.unit, answer.unit))
    return false;
  const bare = (expression: Expression) => (expression.kind === 'quantity' ? expression.of : expression);
  return isSame(bare(gold), bare(answer), decimals);
}

/** `a = b = c`, or `x ∈ S`: what stands last is what the first is. */
const givesValue = ({ signs }: Relation) =>
  signs.every((sign) => sign === '=') || (signs.length === 1 && signs[0] === '∈');

function areSameRelations(gold: Relation, answer: Relation, decimals: number): boolean {
  const [right, given] = [gold.sides.at(-1)!, answer.sides.at(-1)!];
  if (givesValue(gold) && givesValue(answer)) {
    const renamed = alikeNamed(gold.sides[0]!, answer.sides[0]!, given);
    if (renamed) return isSame(right, renamed, decimals);
  }
  if (givesValue(gold) && givesValue(answer) && (isCollection(right) || isSetLike(right))) {
    return isSame(gold.sides[0]!, answer.sides[0]!, decimals) && isSame(right, given, decimals);
  }
  return isSameRelation(gold, answer, decimals) || isSameAsRealSet(gold, answer, decimals);
}

/** Only names, no numbers: what may stand before `=` to say what the value is of. */
const isName = (expression: Expression): boolean =>
  !contains(expression, ({ kind }) => kind === 'number') && expression.kind !== 'set';

/**
 * `x = 5` is 5. What the right answer is given as decides: an equation that is not of the form `name = value` is an
 * answer only to an equation.
 */
function withoutNames(gold: Expression, answer: Expression): readonly [Expression, Expression] {
  if (gold.kind === 'list' && gold.items.some(isCondition)) return [withoutConditions(gold), answer];
  if (answer.kind === 'list' && answer.items.some(isCondition)) return [gold, withoutConditions(answer)];
  if (gold.kind !== 'relation') {
    return answer.kind === 'relation' && isAnswer(answer) ? [gold, answer.sides.at(-1)!] : [gold, answer];
  }
  if (answer.kind === 'list' && answer.items.every(({ kind }) => kind === 'relation')) {
    const named = namedValues(gold);
    if (named) return [named, answer];
  }
  const listed = answer.kind === 'list' && givesValue(gold) ? valuesOf(answer, gold.sides[0]!) : undefined;
  if (listed) return [gold.sides.at(-1)!, listed];
  const isNamed =
    answer.kind === 'relation' ||
    (answer.kind === 'list' && answer.items.some(({ kind }) => kind === 'relation'));
  return !isNamed && givesValue(gold) && isName(gold.sides[0]!)
    ? [gold.sides.at(-1)!, answer]
    : [gold, answer];
}

/** `(x, y) = (1, 2)` as `x = 1, y = 2`. */
function namedValues({ sides, signs }: Relation): Expression | undefined {
  const [names, values] = sides;
  if (names?.kind !== 'tuple' || values?.kind !== 'tuple' || signs.length !== 1 || signs[0] !== '=')
    return undefined;
  if (names.items.length !== values.items.length) return undefined;
  const items = names.items.map(
    (name, index): Expression => ({ kind: 'relation', sides: [name, values.items[index]!], signs: ['='] }),
  );
  return { kind: 'list', items };
}

/** `… = 0` is an equation, not the answer 0, unless a name stands before it. */
function isAnswer(relation: Relation): boolean {
  const value = relation.sides.at(-1)!;
  const isZero = value.kind === 'number' && value.value.top === 0n;
  return givesValue(relation) && (!isZero || isName(relation.sides[0]!));
}

/** `k ∈ ℤ` beside an answer says what k is, not what the answer is. */
const isCondition = (item: Expression): boolean =>
  item.kind === 'relation' &&
  item.signs[0] === '∈' &&
  item.sides[1]!.kind === 'named-set' &&
  item.sides.length === 2;

function withoutConditions(list: Extract<Expression, { kind: 'list' }>): Expression {
  const items = list.items.filter((item) => !isCondition(item));
  return items.length === 1 ? items[0]! : { kind: 'set', items };
}

/** The values of `k = 1, 2, 3`, if k is the name asked for. */
function valuesOf(list: Extract<Expression, { kind: 'list' }>, name: Expression): Expression | undefined {
  const named = list.items.filter(({ kind }) => kind === 'relation');
  const isAsked = (item: Expression) =>
    item.kind === 'relation' && givesValue(item) && isSameName(name, item.sides[0]!);
  if (named.length === 0 || !named.every(isAsked)) return undefined;
  return {
    ...list,
    items: list.items.map((item) => (item.kind === 'relation' ? item.sides.at(-1)! : item)),
  };
}

/** One name, or the same letter with a subscript and without: `x_1 = 1, x_2 = 3` are values of x. */
function isSameName(one: Expression, other: Expression): boolean {
  if (one.kind !== 'symbol' || other.kind !== 'symbol') return false;
  const [a, b] = [one.name.split('_'), other.name.split('_')];
  return one.name === other.name || (a[0] === b[0] && (a.length === 1 || b.length === 1));
}

/** The answer's value in the letters of the right answer: `f(n) = n` is `f(x) = x`, and `y = 2x` is `f(x) = 2x`. */
function alikeNamed(gold: Expression, answer: Expression, value: Expression): Expression | undefined {
  if (isSameName(gold, answer)) return value;
  const isFunction = ({ kind }: Expression) => kind === 'call';
  if (isFunction(gold) !== isFunction(answer)) {
    const name = isFunction(gold) ? answer : gold;
    return name.kind === 'symbol' && name.name === 'y' ? value : undefined;
  }
  if (gold.kind !== 'call' || answer.kind !== 'call' || gold.name !== answer.name) return undefined;
  const [right, given] = [gold.arguments[0], answer.arguments[0]];
  if (right?.kind !== 'symbol' || given?.kind !== 'symbol' || gold.arguments.length > 1) return undefined;
  return replaced(value, given.name, right);
}

/** `x = √2 ≈ 1.41` gives the exact value and the rounded one. */
function approximations(expression: Expression): readonly Expression[] | undefined {
  if (expression.kind !== 'relation' || !expression.signs.includes('≈')) return undefined;
  if (expression.signs.some((sign) => sign !== '=' && sign !== '≈')) return undefined;
  const values = isName(expression.sides[0]!) ? expression.sides.slice(1) : expression.sides;
  return values.slice(-2);
}

function isSameCollection(gold: Expression, answer: Expression, decimals: number): boolean {
  if (gold.kind === 'named-set' || answer.kind === 'named-set') return false;
  const [right, given] = [itemsOf(gold), itemsOf(answer)];
  if (right.length > MOST_ITEMS || given.length > MOST_ITEMS) return false;
  if (gold.kind === 'tuple' && answer.kind === 'tuple') {
    const isAlike = gold.open === answer.open && gold.close === answer.close;
    return (isAlike || (!isInterval(gold) && !isInterval(answer))) && inOrder(right, given, decimals);
  }
  if (gold.kind === 'tuple' && isRound(gold))
    return answer.kind === 'list' && inOrder(right, given, decimals);
  if (gold.kind === 'tuple' || (answer.kind === 'tuple' && !isRound(answer))) return false;
  if (answer.kind === 'tuple' && gold.kind === 'set')
    return right.length === 1 && isSame(right[0]!, answer, decimals);
  if (answer.kind === 'tuple' && gold.kind !== 'list') return false;
  if (gold.kind === 'set' || answer.kind === 'set') {
    return inAnyOrder(distinct(right, decimals), distinct(given, decimals), decimals);
  }
  // Values that have names are given in the order of the names.
  const areNamed = answer.kind === 'tuple' && right.every(({ kind }) => kind === 'relation');
  return areNamed ? inOrder(right, given, decimals) : inAnyOrder(right, given, decimals);
}

/** Brackets of two numbers in order may be an interval, and then say whether it has its ends. */
const isInterval = (expression: Expression) =>
  expression.kind === 'tuple' && expression.items.length === 2 && realSetOf(expression) !== undefined;

const isRound = (expression: Expression) =>
  expression.kind === 'tuple' && expression.open === '(' && expression.close === ')';

const itemsOf = (expression: Expression): readonly Expression[] =>
  isCollection(expression) ? expression.items : [expression];

const inOrder = (right: readonly Expression[], given: readonly Expression[], decimals: number) =>
  right.length === given.length && right.every((item, index) => isSame(item, given[index]!, decimals));

function inAnyOrder(right: readonly Expression[], given: readonly Expression[], decimals: number): boolean {
  if (right.length !== given.length) return false;
  const left = [...given];
  return right.every((item) => {
    const at = left.findIndex((other) => isSame(item, other, decimals));
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}

const distinct = (items: readonly Expression[], decimals: number) =>
  items.filter((item, index) => !items.slice(0, index).some((earlier) => isSame(earlier, item, decimals)));

function isSameAsRealSet(gold: Expression, answer: Expression, decimals: number): boolean {
  const isListed =
    answer.kind === 'list' &&
    gold.kind === 'set-operation' &&
    !answer.items.some(({ kind }) => kind === 'relation');
  const [right, given] = [realSetOf(gold), realSetOf(isListed ? { ...answer, kind: 'set' } : answer)];
  if (right && given) return isSameRealSet(right, given, decimals);
  if (right) return answer.kind === 'relation' && isAbsolute(answer) && isSolution(answer, right);
  return given !== undefined && gold.kind === 'relation' && isSolution(gold, given);
}

/** `|x| > 3` is how a solution may be written; `x^2 > 9` is the question again. */
const isAbsolute = ({ sides }: Relation) =>
  sides.some((side) => side.kind === 'call' && side.name === 'abs') &&
  sides.every((side) => side.kind !== 'power' && side.kind !== 'sum');

/** Sets with letters in them, part by part. */
function isSameSetOperation(gold: Expression, answer: Expression, decimals: number): boolean {
  if (gold.kind === 'named-set' || answer.kind === 'named-set') {
    return gold.kind === 'named-set' && answer.kind === 'named-set' && gold.name === answer.name;
  }
  if (gold.kind !== 'set-operation' || answer.kind !== 'set-operation') return false;
  if (gold.operation !== answer.operation) return false;
  const [right, given] = [
    [gold.left, gold.right],
    [answer.left, answer.right],
  ] as const;
  return (
    inOrder(right, given, decimals) || (gold.operation !== 'difference' && inAnyOrder(right, given, decimals))
  );
}

function isSameMatrix(gold: Expression, answer: Expression, decimals: number): boolean {
  const [right, given] = [matrixEntries(gold), matrixEntries(answer)];
  return (
    right !== undefined &&
    given !== undefined &&
    right.length === given.length &&
    right.every((row, index) => inOrder(row, given[index]!, decimals))
  );
}

const isBased = (expression: Expression): expression is NumberExpression =>
  expression.kind === 'number' && expression.base !== undefined;

/** `1010_2` has the digits 1010; an answer may leave the base out. */
function isSameBased(gold: Expression, answer: Expression, decimals: number): boolean {
  if (gold.kind !== 'number' || answer.kind !== 'number') return false;
  const basesDiffer = isBased(gold) && isBased(answer) && gold.base !== answer.base;
  return !basesDiffer && isSameValue(gold, answer, decimals);
}

/** 50 % is 0.5, and where a percentage is asked for also 50. Below one per cent the two would be confused. */
function isSamePercent(gold: Expression, answer: Expression, decimals: number): boolean {
  if ((gold.kind === 'percent') === (answer.kind === 'percent')) return false;
  if (answer.kind === 'percent') return isAtLeastOne(answer.of) && isSameValue(gold, answer.of, decimals);
  return gold.kind === 'percent' && isAtLeastOne(gold.of) && isSameValue(gold.of, answer, decimals);
}

function isAtLeastOne(expression: Expression): boolean {
  const inner = expression.kind === 'negative' ? expression.of : expression;
  return inner.kind !== 'number' || inner.value.top >= inner.value.bottom;
}
