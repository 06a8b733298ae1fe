/** What the agent's tool does: one operation on two numbers. What it throws, the model reads. */
export function calculate(expression: string): string {
  const [, a, sign, b] = /^(-?[\d.]+)([-+*/])(-?[\d.]+)$/.exec(expression.replaceAll(' ', '')) ?? [];
  const [x, y] = [Number(a), Number(b)];
  const result = { '+': x + y, '-': x - y, '*': x * y, '/': x / y }[sign ?? ''];
  if (result === undefined || !Number.isFinite(result)) throw new Error('not one operation on two numbers');
  return String(Math.round(100 * result) / 100);
}
