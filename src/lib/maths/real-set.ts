/** Sets of real numbers as intervals, so that `1 < x ≤ 2`, `(1, 2]` and `x ∈ (1, 2]` are one thing. */
import type { Expression, Relation } from './expression.ts';
import { startingPoint, valueAt } from './same-value.ts';
import { ifValued, realOf } from './value.ts';

interface Interval {
  readonly low: number;
  readonly high: number;
  readonly hasLow: boolean;
  readonly hasHigh: boolean;
}

/** Disjoint, in order. */
export type RealSet = readonly Interval[];

export interface NamedRealSet {
  readonly set: RealSet;
  /** The letter that is said to be in it; absent for a bare interval. */
  readonly letter?: string;
}

const REALS: RealSet = [{ low: -Infinity, high: Infinity, hasLow: false, hasHigh: false }];

const POSITIVE: RealSet = [{ low: 0, high: Infinity, hasLow: false, hasHigh: false }];
const NEGATIVE: RealSet = [{ low: -Infinity, high: 0, hasLow: false, hasHigh: false }];
const NAMED: Readonly<Record<string, RealSet>> = {
  ...{
    reals: REALS,
    empty: [],
    'reals+': POSITIVE,
    'reals>0': POSITIVE,
    'reals-': NEGATIVE,
    'reals<0': NEGATIVE,
  },
};

export function realSetOf(expression: Expression): NamedRealSet | undefined {
  switch (expression.kind) {
    case 'relation':
      return ofRelation(expression);
    case 'named-set':
      return Object.hasOwn(NAMED, expression.name) ? { set: NAMED[expression.name]! } : undefined;
    case 'tuple':
      return expression.items.length === 2 ? interval(expression) : undefined;
    case 'set': {
      const points = expression.items.map(numberOf);
      return points.every((point) => point !== undefined) ? { set: united(points.map(single)) } : undefined;
    }
    case 'set-operation':
    case 'list':
      return combined(expression);
    default:
      return undefined;
  }
}

const single = (at: number): Interval => ({ low: at, high: at, hasLow: true, hasHigh: true });

function interval(expression: Extract<Expression, { kind: 'tuple' }>): NamedRealSet | undefined {
  const [low, high] = expression.items.map(numberOf);
  if (low === undefined || high === undefined || low > high) return undefined;
  return { set: [{ low, high, hasLow: expression.open === '[', hasHigh: expression.close === ']' }] };
}

function combined(
  expression: Extract<Expression, { kind: 'set-operation' | 'list' }>,
): NamedRealSet | undefined {
  const isList = expression.kind === 'list';
  const parts = isList ? expression.items : [expression.left, expression.right];
  if (isList && !parts.every((part) => part.kind === 'relation')) return undefined;
  const sets = parts.map(realSetOf);
  const letters = new Set(sets.flatMap((set) => set?.letter ?? []));
  if (letters.size > 1 || sets.some((set) => set === undefined)) return undefined;
  // `x = 1, x = 2` are two values; `x > 1, x < 2` are two conditions.
  const hasValue = parts.some((part) => part.kind === 'relation' && part.signs.includes('='));
  const isEither = isList && (expression.joint === 'or' || hasValue);
  const operation = isList ? (isEither ? 'union' : 'intersection') : expression.operation;
  const [first, ...rest] = sets.map((set) => set!.set);
  const set = rest.reduce((left, right) => operate(operation, left, right), first!);
  const [letter] = letters;
  return { set, ...(letter !== undefined && { letter }) };
}

const operate = (
  operation: 'union' | 'intersection' | 'difference',
  left: RealSet,
  right: RealSet,
): RealSet =>
  operation === 'union'
    ? united([...left, ...right])
    : intersected(left, operation === 'intersection' ? right : complement(right));

/** A letter between numbers: `1 < x ≤ 2`, `x ≠ 3`, `x ∈ S`. */
function ofRelation({ sides, signs }: Relation): NamedRealSet | undefined {
  const letterAt = sides.findIndex(
    (side) => side.kind === 'symbol' || (side.kind === 'call' && side.name.length === 1),
  );
  const letter = sides[letterAt];
  if (!letter) return undefined;
  const name = letter.kind === 'symbol' ? letter.name : 'f';
  let set: RealSet | undefined = REALS;
  for (const [index, sign] of signs.entries()) {
    const isLeft = index === letterAt;
    const other = sides[isLeft ? index + 1 : index]!;
    if (index !== letterAt && index + 1 !== letterAt) {
      // Further out in a chain: `0 < 1 < x` says nothing new only if it is true, so such chains are not read.
      return undefined;
    }
    const part =
      sign === '∈' || sign === '∉'
        ? memberOf(other, sign)
        : beside(isLeft ? sign : mirrored(sign), numberOf(other));
    set = part && set && intersected(set, part);
  }
  return set && { set, letter: name };
}

function memberOf(other: Expression, sign: '∈' | '∉'): RealSet | undefined {
  const set = realSetOf(other)?.set;
  return set && (sign === '∈' ? set : complement(set));
}

const MIRRORED: Readonly<Record<string, Relation['signs'][number]>> = {
  '<': '>',
  '>': '<',
  '≤': '≥',
  '≥': '≤',
};
const mirrored = (sign: Relation['signs'][number]) => MIRRORED[sign] ?? sign;

/** Where x stands for `x < at` and so on. */
function beside(sign: Relation['signs'][number], at: number | undefined): RealSet | undefined {
  if (at === undefined) return undefined;
  const below = { low: -Infinity, hasLow: false, high: at };
  const above = { low: at, high: Infinity, hasHigh: false };
  switch (sign) {
    case '<':
      return [{ ...below, hasHigh: false }];
    case '≤':
      return [{ ...below, hasHigh: true }];
    case '>':
      return [{ ...above, hasLow: false }];
    case '≥':
      return [{ ...above, hasLow: true }];
    case '=':
      return [single(at)];
    case '≠':
      return complement([single(at)]);
    default:
      return undefined;
  }
}

function numberOf(expression: Expression): number | undefined {
  const value = valueAt(expression, startingPoint());
  return value && ifValued(() => realOf(value));
}

function united(parts: readonly Interval[]): RealSet {
  const sorted = [...parts].sort((a, b) => a.low - b.low || Number(b.hasLow) - Number(a.hasLow));
  const result: Interval[] = [];
  for (const part of sorted) {
    const last = result.at(-1);
    const meets = last && (part.low < last.high || (part.low === last.high && (part.hasLow || last.hasHigh)));
    if (!meets) result.push(part);
    else if (part.high > last.high || (part.high === last.high && part.hasHigh)) {
      result[result.length - 1] = { ...last, high: part.high, hasHigh: part.hasHigh };
    }
  }
  return result;
}

function complement(set: RealSet): RealSet {
  const result: Interval[] = [];
  let [low, hasLow] = [-Infinity, false];
  for (const part of united(set)) {
    result.push({ low, hasLow, high: part.low, hasHigh: !part.hasLow });
    [low, hasLow] = [part.high, !part.hasHigh];
  }
  result.push({ low, hasLow, high: Infinity, hasHigh: false });
  return result.filter(isFilled);
}

function intersected(left: RealSet, right: RealSet): RealSet {
  const parts = left.flatMap((a) =>
    right.map((b): Interval => {
      const low = Math.max(a.low, b.low);
      const high = Math.min(a.high, b.high);
      return {
        low,
        high,
        hasLow: (a.low < low || a.hasLow) && (b.low < low || b.hasLow),
        hasHigh: (a.high > high || a.hasHigh) && (b.high > high || b.hasHigh),
      };
    }),
  );
  return united(parts.filter(isFilled));
}

const isFilled = ({ low, high, hasLow, hasHigh }: Interval) =>
  low < high || (low === high && hasLow && hasHigh && Number.isFinite(low));

export function isSameRealSet(one: NamedRealSet, other: NamedRealSet, decimals: number): boolean {
  if (one.letter && other.letter && one.letter.toLowerCase() !== other.letter.toLowerCase()) return false;
  const isNear = (a: number, b: number) =>
    a === b || Math.abs(a - b) <= Math.min(0.5 * 10 ** -decimals, 1e-6 * Math.abs(a));
  return (
    one.set.length === other.set.length &&
    one.set.every((a, index) => {
      const b = other.set[index]!;
      return (
        a.hasLow === b.hasLow && a.hasHigh === b.hasHigh && isNear(a.low, b.low) && isNear(a.high, b.high)
      );
    })
  );
}
