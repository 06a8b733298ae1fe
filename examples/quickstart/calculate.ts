/** One binary operation, such as "348+91", or `undefined`: one a call is what makes a problem take several. */
export function parseOperation(
  expression: string,
): { readonly left: string; readonly operation: string; readonly right: string } | undefined {
  const match = /^\s*(-?\d+(?:\.\d+)?)\s*([-+*/])\s*(-?\d+(?:\.\d+)?)\s*$/.exec(expression);
  return match ? { left: match[1]!, operation: match[2]!, right: match[3]! } : undefined;
}

export function applyOperation(left: number, operation: string, right: number): number {
  switch (operation) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    default:
      return left / right;
  }
}

/** The result, with at most two decimals; `undefined` for anything but one operation on two numbers. */
export function calculate(expression: string): string | undefined {
  const parsed = parseOperation(expression);
  if (!parsed) return undefined;
  const value = applyOperation(Number(parsed.left), parsed.operation, Number(parsed.right));
  return Number.isFinite(value) ? String(Math.round(value * 100) / 100) : undefined;
}
