import { Parser } from 'expr-eval-fork';

const parser = new Parser({ operators: { assignment: false, logical: false, comparison: false, in: false } });

/**
 * Arithmetic only: nothing of the program can be reached from an expression. Also reads what people type: `1,000`,
 * `2**3`, `3×4÷2`, `50% of 80`, `2(3+4)`, and letters that `variables` has: `2x+1`.
 */
export function evaluateExpression(
  expression: string,
  variables: Readonly<Record<string, number>> = {},
): number {
  const value: unknown = parser.evaluate(plain(expression, Object.keys(variables)), { ...variables });
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Error(`the result is ${String(value)}`);
  return value;
}

function plain(expression: string, names: readonly string[]): string {
  const read = expression
    .replaceAll(',', '')
    .replaceAll('**', '^')
    .replace(/[×·]/g, '*')
    .replaceAll('÷', '/')
    .replaceAll('−', '-')
    .replace(/([\d)])\s*%(?=\s*(?:of\b|[)*/+-]|$))/g, '$1/100')
    .replace(/\bof\b/g, '*')
    // A number or bracket before a bracket is a factor; the 2 of `log2(` is part of a name.
    .replace(/((?<![A-Za-z_\d.])\d[\d.]*|\))\s*\(/g, '$1*(');
  return names.reduce(
    (text, name) => text.replaceAll(new RegExp(`([\\d)])\\s*(?=${name}\\b)`, 'g'), '$1*'),
    read,
  );
}
