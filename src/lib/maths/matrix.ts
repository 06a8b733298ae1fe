import type { Expression } from './expression.ts';

type Rows = readonly (readonly Expression[])[];

/** The entries of a matrix, of a number times a matrix, or of a sum of matrices. */
export function matrixEntries(expression: Expression): Rows | undefined {
  switch (expression.kind) {
    case 'matrix':
      return expression.rows;
    case 'negative':
      return mapped(matrixEntries(expression.of), (of) => ({ kind: 'negative', of }));
    case 'quotient':
      return mapped(matrixEntries(expression.top), (top) => ({
        kind: 'quotient',
        top,
        bottom: expression.bottom,
      }));
    case 'product': {
      const all = expression.factors.map((factor) => ({ factor, rows: matrixEntries(factor) }));
      const matrices = all.flatMap(({ rows }) => (rows ? [rows] : []));
      const numbers = all.flatMap(({ factor, rows }) => (rows ? [] : [factor]));
      const [first, ...others] = matrices;
      const whole = others.reduce<Rows | undefined>(multiplied, first);
      return mapped(whole, (entry) => ({ kind: 'product', factors: [...numbers, entry] }));
    }
    case 'power': {
      const base = matrixEntries(expression.base);
      const times = integerOf(expression.exponent);
      if (!base || base.length !== base[0]!.length || times === undefined) return undefined;
      if (times === -1) return inverse(base);
      if (times < 1 || times > 8) return undefined;
      return Array.from({ length: times - 1 }, () => base).reduce<Rows | undefined>(multiplied, base);
    }
    case 'sum': {
      const all = expression.terms.map(matrixEntries);
      const [first] = all;
      const fits = all.every(
        (rows) => rows?.length === first?.length && rows?.[0]?.length === first?.[0]?.length,
      );
      if (!first || !fits) return undefined;
      return first.map((row, r) =>
        row.map((_, c) => ({ kind: 'sum', terms: all.map((rows) => rows![r]![c]!) })),
      );
    }
    default:
      return undefined;
  }
}

function integerOf(expression: Expression): number | undefined {
  if (expression.kind === 'negative') {
    const of = integerOf(expression.of);
    return of === undefined ? undefined : -of;
  }
  return expression.kind === 'number' && expression.value.bottom === 1n
    ? Number(expression.value.top)
    : undefined;
}

const MOST_ENTRIES = 16;

function multiplied(left: Rows | undefined, right: Rows): Rows | undefined {
  if (!left || left[0]!.length !== right.length || left.length * right[0]!.length > MOST_ENTRIES)
    return undefined;
  return left.map((row) =>
    right[0]!.map((_, column) => ({
      kind: 'sum',
      terms: row.map((entry, at) => ({ kind: 'product', factors: [entry, right[at]![column]!] })),
    })),
  );
}

/** Of two rows: what stands on the diagonal changes places, the others their sign, over the determinant. */
function inverse(rows: Rows): Rows | undefined {
  if (rows.length !== 2) return undefined;
  const [[a, b], [c, d]] = rows as unknown as [[Expression, Expression], [Expression, Expression]];
  const bottom: Expression = { kind: 'call', name: 'det', arguments: [{ kind: 'matrix', rows }] };
  const minus = (of: Expression): Expression => ({ kind: 'negative', of });
  return [
    [d, minus(b)],
    [minus(c), a],
  ].map((row) => row.map((top) => ({ kind: 'quotient', top, bottom })));
}

const mapped = (rows: Rows | undefined, change: (entry: Expression) => Expression): Rows | undefined =>
  rows?.map((row) => row.map(change));
