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
      const at = expression.factors.findIndex((factor) => matrixEntries(factor) !== undefined);
      if (at < 0) return undefined;
      const numbers = expression.factors.filter((_, index) => index !== at);
      if (numbers.some((factor) => matrixEntries(factor))) return undefined;
      return mapped(matrixEntries(expression.factors[at]!), (entry) => ({
        kind: 'product',
        factors: [...numbers, entry],
      }));
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

const mapped = (rows: Rows | undefined, change: (entry: Expression) => Expression): Rows | undefined =>
  rows?.map((row) => row.map(change));
