/**
 * One binary operation on two numbers, such as "348+91"; anything else is `undefined`. One operation a call
 * is what makes a word problem take several calls, each with the result of the one before.
 */
export function parseOperation(
  expression: string,
): { left: number; operation: string; right: number } | undefined {
  const match = /^\s*(-?\d+(?:\.\d+)?)\s*([-+*/])\s*(-?\d+(?:\.\d+)?)\s*$/.exec(expression);
  return match ? { left: Number(match[1]), operation: match[2]!, right: Number(match[3]) } : undefined;
}

/** The calculator: the result with at most two decimals, or `error`. */
export function calculate(expression: string): string {
  const parsed = parseOperation(expression);
  if (!parsed) return 'error';
  const { left, operation, right } = parsed;
  const value = { '+': left + right, '-': left - right, '*': left * right, '/': left / right }[operation]!;
  return Number.isFinite(value) ? String(Math.round(value * 100) / 100) : 'error';
}
