import { Parser } from 'expr-eval-fork';

const parser = new Parser({ operators: { assignment: false, logical: false, comparison: false, in: false } });

/** Arithmetic only: nothing of the program can be reached from an expression. */
export function evaluateExpression(expression: string): number {
  const value: unknown = parser.evaluate(expression.replaceAll(',', '').replaceAll('**', '^'));
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Error(`the result is ${String(value)}`);
  return value;
}
