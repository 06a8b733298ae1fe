/** What an answer says, once it is read. */
import type { Exact } from './value.ts';

export type Expression =
  | NumberExpression
  | { readonly kind: 'symbol'; readonly name: string }
  | { readonly kind: 'constant'; readonly name: 'pi' | 'e' | 'i' | 'infinity' }
  | { readonly kind: 'sum'; readonly terms: readonly Expression[] }
  | { readonly kind: 'product'; readonly factors: readonly Expression[] }
  | { readonly kind: 'quotient'; readonly top: Expression; readonly bottom: Expression }
  | { readonly kind: 'power'; readonly base: Expression; readonly exponent: Expression }
  | { readonly kind: 'negative'; readonly of: Expression }
  /** A function with a name we know, or a letter that is applied to something. */
  | { readonly kind: 'call'; readonly name: string; readonly arguments: readonly Expression[] }
  /** `±2`, and `∓2` where `isFlipped`; all signs of one answer are chosen together. */
  | { readonly kind: 'either-sign'; readonly of: Expression; readonly isFlipped: boolean }
  | { readonly kind: 'percent'; readonly of: Expression }
  | { readonly kind: 'degrees'; readonly of: Expression }
  | { readonly kind: 'quantity'; readonly of: Expression; readonly unit: string }
  | { readonly kind: 'text'; readonly words: string }
  | { readonly kind: 'matrix'; readonly rows: readonly (readonly Expression[])[] }
  | Collection
  | { readonly kind: 'named-set'; readonly name: string }
  | SetOperation
  | Relation;

export interface NumberExpression {
  readonly kind: 'number';
  readonly value: Exact;
  /** Written with a decimal point, so perhaps rounded. */
  readonly isDecimal: boolean;
  /** `1010_2` */
  readonly base?: string;
}

/** `1, 2` without brackets; `(1, 2)`, also an open interval; `{1, 2}`. */
export type Collection =
  | {
      readonly kind: 'list';
      readonly items: readonly Expression[];
      /** How items are joined; commas where absent. */
      readonly joint?: 'and' | 'or';
    }
  | {
      readonly kind: 'tuple';
      readonly open: '(' | '[';
      readonly close: ')' | ']';
      readonly items: readonly Expression[];
    }
  | { readonly kind: 'set'; readonly items: readonly Expression[] };

export interface SetOperation {
  readonly kind: 'set-operation';
  readonly operation: 'union' | 'intersection' | 'difference';
  readonly left: Expression;
  readonly right: Expression;
}

export type RelationSign = '=' | '<' | '>' | '≤' | '≥' | '≠' | '≈' | '∈' | '∉' | '≡';

/** `a < b ≤ c` has three sides and two signs. */
export interface Relation {
  readonly kind: 'relation';
  readonly sides: readonly Expression[];
  readonly signs: readonly RelationSign[];
}

/** The parts of an expression, one level down. */
export function partsOf(expression: Expression): readonly Expression[] {
  switch (expression.kind) {
    case 'sum':
      return expression.terms;
    case 'product':
      return expression.factors;
    case 'quotient':
      return [expression.top, expression.bottom];
    case 'power':
      return [expression.base, expression.exponent];
    case 'negative':
    case 'either-sign':
    case 'percent':
    case 'degrees':
    case 'quantity':
      return [expression.of];
    case 'call':
      return expression.arguments;
    case 'matrix':
      return expression.rows.flat();
    case 'list':
    case 'tuple':
    case 'set':
      return expression.items;
    case 'set-operation':
      return [expression.left, expression.right];
    case 'relation':
      return expression.sides;
    default:
      return [];
  }
}

/** The same expression with other parts, given in the order of `partsOf`. */
export function withParts(expression: Expression, parts: readonly Expression[]): Expression {
  switch (expression.kind) {
    case 'sum':
      return { ...expression, terms: parts };
    case 'product':
      return { ...expression, factors: parts };
    case 'quotient':
      return { ...expression, top: parts[0]!, bottom: parts[1]! };
    case 'power':
      return { ...expression, base: parts[0]!, exponent: parts[1]! };
    case 'negative':
    case 'either-sign':
    case 'percent':
    case 'degrees':
    case 'quantity':
      return { ...expression, of: parts[0]! };
    case 'call':
      return { ...expression, arguments: parts };
    case 'matrix': {
      const width = expression.rows[0]?.length ?? 0;
      return {
        ...expression,
        rows: expression.rows.map((_, row) => parts.slice(row * width, (row + 1) * width)),
      };
    }
    case 'list':
    case 'tuple':
    case 'set':
      return { ...expression, items: parts };
    case 'set-operation':
      return { ...expression, left: parts[0]!, right: parts[1]! };
    case 'relation':
      return { ...expression, sides: parts };
    default:
      return expression;
  }
}

export function contains(expression: Expression, is: (part: Expression) => boolean): boolean {
  return is(expression) || partsOf(expression).some((part) => contains(part, is));
}

/** Calls whose first argument is a letter that has a value only in the last one: `\\sum_{k=1}^{n} k`. */
const BINDERS: ReadonlySet<string> = new Set(['sum', 'prod', 'integral', 'limit']);

/** Names of all letters that stand for a number, in order of appearance. */
export function symbolsOf(expression: Expression): string[] {
  const found = new Set<string>();
  const visit = (part: Expression): void => {
    if (part.kind === 'symbol') found.add(part.name);
    else if (part.kind === 'text') found.add(part.words);
    else if (part.kind === 'call' && BINDERS.has(part.name)) {
      const [letter, ...rest] = part.arguments;
      const term = rest.pop()!;
      for (const bound of rest) visit(bound);
      const own = letter!.kind === 'symbol' ? letter!.name : undefined;
      for (const name of symbolsOf(term)) if (name !== own) found.add(name);
    } else for (const inner of partsOf(part)) visit(inner);
  };
  visit(expression);
  return [...found];
}
