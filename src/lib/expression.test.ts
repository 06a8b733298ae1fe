import fc from 'fast-check';
import { expect, test } from 'vitest';
import { evaluateExpression } from './expression.ts';

test.each([
  ['3*(4+5)', 27],
  ['1,000*3', 3000],
  ['2**10', 1024],
  ['3×4÷2', 6],
  ['7−2', 5],
  ['50% of 80', 40],
  ['200 * 15%', 30],
  ['(10%) + 1', 1.1],
  ['7 % 3', 1],
  ['2(3+4)', 14],
  ['(1+2)(3+4)', 21],
  ['1.5(2)', 3],
  ['log2(8)', 3],
  ['log10(1000)', 3],
  ['sqrt(16)', 4],
  ['-2^2', -4],
])('%s is %d', (expression, value) => {
  expect(evaluateExpression(expression)).toBeCloseTo(value, 12);
});

test('letters have the values that are given, with or without a sign of multiplication', () => {
  expect(evaluateExpression('2x+1', { x: 3 })).toBe(7);
  expect(evaluateExpression('3(x-1) + (x+1)x', { x: 2 })).toBe(9);
  expect(() => evaluateExpression('2x+1')).toThrow();
  expect(() => evaluateExpression('y', { x: 1 })).toThrow();
});

test.each(['', '2+', '1/0', 'constructor', 'toString()', 'x = 3', 'process.exit()', '[1].map(f)'])(
  '%j has no result',
  (expression) => {
    expect(() => evaluateExpression(expression)).toThrow();
  },
);

test('sums, differences and products of whole numbers are what JavaScript says', () => {
  const number = fc.integer({ min: -999, max: 999 });
  fc.assert(
    fc.property(
      number,
      number,
      number,
      fc.constantFrom('+', '-', '*'),
      fc.constantFrom('+', '-', '*'),
      (a, b, c, p, q) => {
        const apply = (sign: string, x: number, y: number) =>
          sign === '+' ? x + y : sign === '-' ? x - y : x * y;
        const expected = apply(p, a, apply(q, b, c));
        const value = evaluateExpression(`(${a}) ${p} ((${b}) ${q} (${c}))`);
        expect(value + 0).toBe(expected + 0); // 0 and -0 are one number
      },
    ),
  );
});
